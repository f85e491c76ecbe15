// Package stacktest gives tests real database servers.
//
// A test that needs an engine which is not installed is skipped, unless
// REQUIRE_ENGINES names the engine: then it fails. `make test` sets it.
package stacktest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"freshread/internal/stack"
)

// Engine is the engine that tests run on.
const Engine = "postgres"

// patience bounds every wait of a test for a server.
const patience = 30 * time.Second

// shared is the pair that the tests of one package use in turn.
var shared struct {
	once  sync.Once
	stack *stack.Stack
	err   error
}

// Main is for TestMain: it runs the tests, stops the servers that they shared,
// and returns the exit status.
func Main(m *testing.M) int {
	if stack.Installed(context.Background(), Engine) != nil && !required() {
		flag.Set("test.skip", "^Example") // they have no way to skip themselves
	}
	status := m.Run()
	if shared.stack != nil {
		if err := shared.stack.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the servers:", err)
			return 1
		}
	}
	return status
}

// Pair returns a primary and a replica that applies at once. All tests of a
// package share them, so a test that pauses or stops one must not be parallel.
func Pair(tb testing.TB) *stack.Stack {
	tb.Helper()
	shared.once.Do(func() {
		shared.stack, shared.err = stack.Start(context.Background(), options(1))
	})
	requireStarted(tb, shared.err)
	return shared.stack
}

// Start returns servers of the test's own, for tests that kill or promote.
func Start(tb testing.TB, replicas int) *stack.Stack {
	tb.Helper()
	s, err := stack.Start(context.Background(), options(replicas))
	requireStarted(tb, err)
	tb.Cleanup(func() { Must(tb, s.Close()) })
	return s
}

func required() bool { return strings.Contains(os.Getenv("REQUIRE_ENGINES"), Engine) }

func options(replicas int) stack.Options {
	return stack.Options{Engine: Engine, Replicas: make([]time.Duration, replicas)}
}

func requireStarted(tb testing.TB, err error) {
	tb.Helper()
	var missing *stack.MissingError
	if errors.As(err, &missing) && !required() {
		tb.Skip(err)
	}
	Must(tb, err)
}

var databases atomic.Int64

// Database creates an empty database of the test's own, on all servers.
func Database(tb testing.TB, s *stack.Stack) string {
	tb.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	Must(tb, s.CreateDatabase(Context(tb), name))
	tb.Cleanup(func() { Must(tb, s.DropDatabase(context.Background(), name)) })
	Applied(tb, s)
	return name
}

// Pause stops all replicas from applying, until the test resumes them or ends.
func Pause(tb testing.TB, s *stack.Stack) (resume func()) {
	tb.Helper()
	replicas := s.Replicas()
	for _, r := range replicas {
		Must(tb, r.PauseApply(Context(tb)))
	}
	tb.Cleanup(func() {
		for _, r := range replicas {
			r.ResumeApply(context.Background()) // the test may have stopped it
		}
	})
	return func() {
		tb.Helper()
		for _, r := range replicas {
			Must(tb, r.ResumeApply(Context(tb)))
		}
	}
}

// Applied returns once all replicas have applied what is committed now.
func Applied(tb testing.TB, s *stack.Stack) {
	tb.Helper()
	Must(tb, s.WaitApplied(Context(tb)))
}

// Context returns a context that ends before a hanging test would.
func Context(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// Must fails the test at once if err is not nil.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
