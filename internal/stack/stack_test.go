package stack_test

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"freshread/internal/stack"
)

func TestDelayedReplicaIsReadyAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, farOff)
	p, r := s.Primary(), s.Replicas()[0]
	wantDelay(t, r, "1h")

	t.Run("servers tell the app who they are", func(t *testing.T) {
		for i, srv := range []*stack.Server{p, r} {
			wantValue(t, srv.URL("postgres"), "SELECT current_user::text", "app")
			wantValue(t, srv.URL("postgres"), "SELECT current_setting('app.server_id')", strconv.Itoa(i+1))
			wantValue(t, srv.URL("postgres"), "SELECT split_part(current_setting('server_version'), ' ', 1)", srv.Version())
			if srv.ID() != i+1 {
				t.Errorf("server %d has the ID %d", i+1, srv.ID())
			}
		}
	})

	t.Run("the role of the app owns its database and may do little else", func(t *testing.T) {
		must(t, s.CreateDatabase(soon(t), "own"))
		url := p.URL("own")
		wantValue(t, url, "SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = current_database()", "app")
		wantValue(t, url, "SELECT pg_has_role('pg_read_all_stats', 'member')", true)
		wantValue(t, url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user", false)
		wantValue(t, url, "SELECT has_function_privilege('pg_wal_replay_pause()', 'execute')", false)
	})

	t.Run("dropping a database cuts its connections", func(t *testing.T) {
		conn := connect(t, p.URL("own"))
		must(t, s.DropDatabase(soon(t), "own"))
		if conn.Ping(soon(t)) == nil {
			t.Error("it answers")
		}
	})
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := parentDir(t)
	s := startIn(t, dir)
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
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, progress := range []string{ // a file that is there by then
		"1/data/base",
		"2/data/base",
		"1/log",
	} {
		dir := parentDir(t)
		ctx, cancel := context.WithCancel(soon(t))
		go func() {
			awaitFile(ctx, filepath.Join(dir, "*", progress))
			cancel()
		}()
		s, err := stack.Start(ctx, options(dir, 0))
		skipIfMissing(t, err)
		if err == nil {
			must(t, s.Close())
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at %s: got error %v, want %v", progress, err, context.Canceled)
		}
		wantFolders(t, dir)
		wantNoProcesses(t, dir)
	}
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
