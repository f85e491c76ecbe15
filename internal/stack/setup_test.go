package stack_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"freshread/internal/stack"
)

const (
	// patience is how long a test waits for what ought to happen soon.
	patience = time.Minute

	// farOff is a delay whose end no test sees.
	farOff = time.Hour
)

// start starts a stack in a folder of its own, with a replica for each delay.
func start(t *testing.T, engine string, delays ...time.Duration) *stack.Stack {
	t.Helper()
	return startIn(t, parentDir(t), engine, delays...)
}

func startIn(t *testing.T, dir, engine string, delays ...time.Duration) *stack.Stack {
	t.Helper()
	s, err := stack.Start(soon(t), options(dir, engine, delays...))
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func options(dir, engine string, delays ...time.Duration) stack.Options {
	return stack.Options{Engine: engine, Replicas: delays, Dir: dir}
}

// parentDir returns an empty folder that the account of the servers can enter,
// which t.TempDir is not.
func parentDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stack-test-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	dir, err = filepath.EvalSymlinks(dir)
	must(t, err)
	return dir
}

// soon returns a context that ends when the test should be through long since.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for ctx := soon(t); !so(); time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("after %s it is still not so that %s", patience, what)
		}
	}
}
