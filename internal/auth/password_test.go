package auth

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestPasswordHash(t *testing.T) {
	ctx := context.Background()
	p := NewPasswords(Cost{Memory: 64, Time: 1, Threads: 1})
	hash, err := p.Hash(ctx, "correct horse battery")
	if err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=64,t=1,p=1$") {
		t.Fatalf("hash is %q, %v", hash, err)
	}
	again, _ := p.Hash(ctx, "correct horse battery")
	if again == hash {
		t.Error("two hashes of one password are equal")
	}
	for password, want := range map[string]bool{"correct horse battery": true, "correct horse batterY": false, "": false} {
		if got, err := p.Check(ctx, password, hash); got != want || err != nil {
			t.Errorf("check %q: %v, %v", password, got, err)
		}
	}
	// A hash of an earlier cost still counts.
	if ok, err := NewPasswords(DefaultCost).Check(ctx, "correct horse battery", hash); !ok || err != nil {
		t.Errorf("check with another cost: %v, %v", ok, err)
	}
	for _, bad := range []string{"x", "$argon2i$v=19$m=64,t=1,p=1$AAAA$AAAA", "$argon2id$v=19$m=64$AAAA$AAAA", strings.Replace(hash, "$", "!", 4)} {
		if ok, err := p.Check(ctx, "x", bad); ok || err == nil {
			t.Errorf("check against %q: %v, %v", bad, ok, err)
		}
	}
}

// Whether an address has an account must not be told by the time it takes.
func TestUnknownAddressTakesAsLong(t *testing.T) {
	ctx := context.Background()
	p := NewPasswords(Cost{Memory: 32 << 10, Time: 2, Threads: 1})
	hash, err := p.Hash(ctx, "a password")
	if err != nil {
		t.Fatal(err)
	}
	took := func(hash string) time.Duration {
		start := time.Now()
		if ok, err := p.Check(ctx, "another", hash); ok || err != nil {
			t.Fatalf("check: %v, %v", ok, err)
		}
		return time.Since(start)
	}
	known, unknown := time.Hour, time.Hour
	for range 10 { // in turn, so that a busy machine slows down both
		known, unknown = min(known, took(hash)), min(unknown, took(""))
	}
	if unknown < known/2 {
		t.Errorf("an unknown address takes %v, a known one %v", unknown, known)
	}
}
