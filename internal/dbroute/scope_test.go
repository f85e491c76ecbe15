package dbroute_test

import (
	"testing"

	"freshread/internal/dbroute"
)

// From there on the collector needs a header before each, which costs a request a tenth
// of a microsecond, and two for a request with two scopes.
func TestScopeTakesAtMost512Bytes(t *testing.T) {
	if dbroute.ScopeSize > 512 {
		t.Errorf("a scope takes %d bytes", dbroute.ScopeSize)
	}
}
