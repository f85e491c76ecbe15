package stack_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
)

func TestDelayedReplicaIsReadyAtOnce(t *testing.T) {
	t.Parallel()
	stacktest.Each(t, testDelayedReplica)
}

func testDelayedReplica(t *testing.T, engine string) {
	s := start(t, engine, farOff)
	p, r := s.Primary(), s.Replicas()[0]
	wantDelay(t, r, farOff)

	t.Run("servers tell the app who they are", func(t *testing.T) {
		for i, srv := range []*stack.Server{p, r} {
			d := dialectOf(srv)
			wantValue(t, srv.URL(d.database), d.user, "app")
			wantValue(t, srv.URL(d.database), d.serverID, i+1)
			wantValue(t, srv.URL(d.database), d.version, srv.Version())
			if srv.ID() != i+1 {
				t.Errorf("server %d has the ID %d", i+1, srv.ID())
			}
		}
	})

	t.Run("dropping a database cuts its connections", func(t *testing.T) {
		must(t, s.CreateDatabase(soon(t), "own"))
		conn := connect(t, p.URL("own"))
		must(t, s.DropDatabase(soon(t), "own"))
		if conn.PingContext(soon(t)) == nil {
			t.Error("it answers")
		}
		must(t, s.DropDatabase(soon(t), "own"))
	})
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	stacktest.Each(t, func(t *testing.T, engine string) {
		dir := parentDir(t)
		s := startIn(t, dir, engine)
		names := folders(t, dir)
		if len(processes(t, names...)) == 0 {
			t.Fatal("the stack has no processes")
		}
		must(t, s.Close())
		must(t, s.Close())
		wantFolders(t, dir)
		wantNoProcesses(t, names...)
		if err := s.Primary().Start(soon(t)); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("start of a server: got error %v, want one that says that the stack is closed", err)
		}
	})
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	t.Parallel()
	stacktest.Each(t, func(t *testing.T, engine string) {
		for _, progress := range []string{ // a file that is there by then
			"1/data/*",
			"2/data/*",
			"1/log",
		} {
			dir := parentDir(t)
			ctx, cancel := context.WithCancel(soon(t))
			go func() {
				awaitFile(ctx, filepath.Join(dir, "*", progress))
				cancel()
			}()
			s, err := stack.Start(ctx, options(dir, engine, 0))
			if err == nil {
				must(t, s.Close())
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled at %s: got error %v, want %v", progress, err, context.Canceled)
			}
			wantFolders(t, dir)
			wantNoProcesses(t, dir)
		}
	})
}

// awaitFile waits until a file matches the pattern or ctx ends.
func awaitFile(ctx context.Context, pattern string) {
	for ctx.Err() == nil {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestUnknownEngineIsRefused(t *testing.T) {
	if _, err := stack.Start(soon(t), stack.Options{Engine: "sqlite"}); err == nil {
		t.Error("it starts")
	}
}
