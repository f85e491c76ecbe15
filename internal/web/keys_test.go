package web

import (
	"bytes"
	"strings"
	"testing"
)

func TestDeriveKeys(t *testing.T) {
	long, short := []byte(strings.Repeat("k", 32)), []byte(strings.Repeat("k", 31))
	for want, keys := range map[string][][]byte{"no key": nil, "key 2 has 31 bytes, want at least 32": {long, short}} {
		if _, err := DeriveKeys(keys, "a", 32); err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	a, err := DeriveKeys([][]byte{long, bytes.ToUpper(long)}, "a", 64)
	if err != nil {
		t.Fatal(err)
	}
	b, err := DeriveKeys([][]byte{long}, "b", 64)
	if err != nil {
		t.Fatal(err)
	}
	if len(a) != 2 || len(a[0]) != 64 || bytes.Equal(a[0], a[1]) || bytes.Equal(a[0], b[0]) {
		t.Error("keys of two purposes, or of two keys, are the same")
	}
}
