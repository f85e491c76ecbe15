package tokens

import (
	"strings"
	"testing"
)

var (
	oldKey = []byte(strings.Repeat("o", 32))
	newKey = []byte(strings.Repeat("n", 32))
)

func newTestSigner(t *testing.T, keys ...[]byte) *Signer {
	t.Helper()
	s, err := NewSigner(keys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTokenIsReadAsItWasMade(t *testing.T) {
	s := newTestSigner(t, newKey)
	secret := newSecret()
	id, got, ok := s.parse(s.text(12, secret))
	if !ok || id != 12 || got != secret {
		t.Errorf("%d, %q, %v", id, got, ok)
	}
}

func TestTokenOutlivesANewKeyAndEndsWithItsOwn(t *testing.T) {
	text := newTestSigner(t, oldKey).text(12, newSecret())
	if _, _, ok := newTestSigner(t, newKey, oldKey).parse(text); !ok {
		t.Error("while its key is there the token is refused")
	}
	if _, _, ok := newTestSigner(t, newKey).parse(text); ok {
		t.Error("without its key the token is accepted")
	}
}

func TestWhatIsNoToken(t *testing.T) {
	s := newTestSigner(t, newKey)
	text := s.text(12, newSecret())
	last := byte('A')
	if text[len(text)-1] == 'A' {
		last = 'B'
	}
	for name, forged := range map[string]string{
		"nothing":                 "",
		"garbage":                 "garbage",
		"another's id":            "13" + text[2:],
		"another secret":          strings.Replace(text, text[6:32], newSecret(), 1),
		"another checksum":        text[:len(text)-1] + string(last),
		"lower case":              strings.ToLower(text),
		"a part":                  text[:len(text)-1],
		"more than it":            text + "A",
		"a space in front":        " " + text,
		"a line after":            text + "\n",
		"id 0":                    s.text(0, newSecret()),
		"an id with a zero":       "0" + text,
		"an id below 0":           s.text(-1, newSecret()),
		"an id beyond all":        "99999999999999999999" + text[2:],
		"no prefix":               strings.Replace(text, prefix, "", 1),
		"the checksum of another": text[:len(text)-checksumLength] + newTestSigner(t, oldKey).text(12, text[6:32])[len(text)-checksumLength:],
		"8 KB":                    strings.Repeat(text, 200),
	} {
		if id, _, ok := s.parse(forged); ok {
			t.Errorf("%s: %q is read as token %d", name, forged, id)
		}
	}
}
