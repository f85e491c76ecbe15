package dbroute_test

import (
	"testing"

	"freshread/internal/dbroute"
)

// What is larger Go allocates with a header, and more slowly. Each request would pay for it.
func TestScopeTakesAtMost512Bytes(t *testing.T) {
	if dbroute.ScopeSize > 512 {
		t.Errorf("a scope takes %d bytes", dbroute.ScopeSize)
	}
}
