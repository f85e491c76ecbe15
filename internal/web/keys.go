package web

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
)

// DeriveKeys returns for each of keys, which must have at least 32 random bytes, one
// of so many bytes for a purpose alone: what is signed for one passes for no other.
func DeriveKeys(keys [][]byte, purpose string, length int) ([][]byte, error) {
	if len(keys) == 0 {
		return nil, errors.New("no key")
	}
	derived := make([][]byte, len(keys))
	for i, key := range keys {
		if len(key) < 32 {
			return nil, fmt.Errorf("key %d has %d bytes, want at least 32", i+1, len(key))
		}
		var err error
		if derived[i], err = hkdf.Key(sha256.New, key, nil, purpose, length); err != nil {
			return nil, fmt.Errorf("derive key: %w", err)
		}
	}
	return derived, nil
}
