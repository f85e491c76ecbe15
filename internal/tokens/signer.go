package tokens

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"

	"freshread/internal/web"
)

// Signer makes and reads the text of tokens, ID|fr_SECRETCHECKSUM.
//
// The checksum is an HMAC over all that comes before it. A text that does not fit
// was never issued here, which is known without asking a database: whoever
// guesses costs nothing. The prefix lets scanners find a token that was published by mistake.
type Signer struct{ keys [][]byte }

const (
	prefix         = "fr_"
	checksumLength = 8 // 40 bits
)

var tokenText = regexp.MustCompile(`^([1-9][0-9]{0,18})\|` + prefix + `([A-Z2-7]{26})([A-Z2-7]{8})$`)

// NewSigner derives keys of its own from keys; see web.NewMarkers. The first makes
// checksums, all of them verify. A token ends with the key that it was made with.
func NewSigner(keys [][]byte) (*Signer, error) {
	derived, err := web.DeriveKeys(keys, "freshread token", 32)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return &Signer{derived}, nil
}

// newSecret has 130 random bits, as A to Z and 2 to 7.
func newSecret() string { return rand.Text() }

// hash is what is kept of a secret. It needs no salt and no stretching, which are
// for what people can remember.
func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func (s *Signer) text(id int64, secret string) string {
	body := fmt.Sprintf("%d|%s%s", id, prefix, secret)
	return body + checksum(s.keys[0], body)
}

// parse is not ok unless the text was made with one of the keys.
func (s *Signer) parse(text string) (id int64, secret string, ok bool) {
	parts := tokenText.FindStringSubmatch(text)
	if parts == nil {
		return 0, "", false
	}
	id, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return 0, "", false
	}
	body := text[:len(text)-checksumLength]
	for _, key := range s.keys {
		if hmac.Equal([]byte(checksum(key, body)), []byte(parts[3])) {
			return id, parts[2], true
		}
	}
	return 0, "", false
}

func checksum(key []byte, body string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(body))
	return base32.StdEncoding.EncodeToString(mac.Sum(nil))[:checksumLength]
}
