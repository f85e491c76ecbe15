package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/crypto/argon2"
)

// Cost is what one argon2id hash takes.
type Cost struct {
	Memory  uint32 // KiB
	Time    uint32
	Threads uint8
}

// DefaultCost is OWASP's first choice for argon2id (Password Storage Cheat
// Sheet): about 30 ms on a present-day core.
var DefaultCost = Cost{Memory: 19 << 10, Time: 2, Threads: 1}

// Passwords hashes and checks passwords. It works on at most one per core at a
// time, so that many log-ins at once do not take all memory.
type Passwords struct {
	cost  Cost
	slots chan struct{}
	decoy string // the hash that an unknown address is checked against
}

// NewPasswords returns a hasher of that cost.
func NewPasswords(cost Cost) *Passwords {
	p := &Passwords{cost: cost, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	p.decoy = encodeHash(cost, []byte("sixteen bytes ok"), make([]byte, keyLength))
	return p
}

const (
	saltLength = 16
	keyLength  = 32
)

// Hash returns a hash in the PHC string format.
func (p *Passwords) Hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltLength)
	rand.Read(salt) // never fails
	key, err := p.derive(ctx, password, salt, p.cost)
	if err != nil {
		return "", err
	}
	return encodeHash(p.cost, salt, key), nil
}

// Check reports whether the password is the one that was hashed. It takes the
// same time if there is no hash, so that log-in does not tell which addresses
// have accounts.
func (p *Passwords) Check(ctx context.Context, password, hash string) (bool, error) {
	known := hash != ""
	if !known {
		hash = p.decoy
	}
	cost, salt, want, err := decodeHash(hash)
	if err != nil {
		return false, err
	}
	got, err := p.derive(ctx, password, salt, cost)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, want) == 1 && known, nil
}

func (p *Passwords) derive(ctx context.Context, password string, salt []byte, cost Cost) ([]byte, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("hash password: %w", ctx.Err())
	}
	return argon2.IDKey([]byte(password), salt, cost.Time, cost.Memory, cost.Threads, keyLength), nil
}

func encodeHash(cost Cost, salt, key []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, cost.Memory, cost.Time, cost.Threads,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(key))
}

func decodeHash(hash string) (cost Cost, salt, key []byte, err error) {
	fields := strings.Split(hash, "$")
	if len(fields) != 6 || fields[1] != "argon2id" || fields[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return Cost{}, nil, nil, fmt.Errorf("password hash: unknown format")
	}
	if _, err = fmt.Sscanf(fields[3], "m=%d,t=%d,p=%d", &cost.Memory, &cost.Time, &cost.Threads); err != nil {
		return Cost{}, nil, nil, fmt.Errorf("password hash: cost: %w", err)
	}
	if salt, err = base64.RawStdEncoding.DecodeString(fields[4]); err != nil {
		return Cost{}, nil, nil, fmt.Errorf("password hash: salt: %w", err)
	}
	if key, err = base64.RawStdEncoding.DecodeString(fields[5]); err != nil {
		return Cost{}, nil, nil, fmt.Errorf("password hash: key: %w", err)
	}
	return cost, salt, key, nil
}
