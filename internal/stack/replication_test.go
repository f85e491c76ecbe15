package stack_test

import (
	"context"
	"testing"
	"time"

	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
)

func TestReplication(t *testing.T) {
	t.Parallel()
	stacktest.Each(t, testReplication)
}

func testReplication(t *testing.T, engine string) {
	s := start(t, engine, 0)
	p, r := s.Primary(), s.Replicas()[0]

	t.Run("a replica applies what the primary commits", func(t *testing.T) {
		createNotes(t, s)
		addNote(t, p, "one")
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "one")
	})

	t.Run("a replica takes no writes of the app", func(t *testing.T) {
		createNotes(t, s)
		if _, err := openURL(t, r.URL("notes")).ExecContext(soon(t), "DELETE FROM notes"); err == nil {
			t.Error("it does")
		}
	})

	t.Run("a paused replica applies nothing until it is resumed", func(t *testing.T) {
		createNotes(t, s)
		must(t, r.PauseApply(soon(t)))
		addNote(t, p, "one")
		awaitReceived(t, p, r)
		wantNotes(t, r, "")
		must(t, r.ResumeApply(soon(t)))
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "one")
	})

	t.Run("a pause outlasts a change of the delay", func(t *testing.T) {
		createNotes(t, s)
		must(t, r.PauseApply(soon(t)))
		addNote(t, p, "one")
		must(t, r.SetDelay(soon(t), farOff))
		must(t, r.SetDelay(soon(t), 0))
		addNote(t, p, "two")
		awaitReceived(t, p, r)
		wantNotes(t, r, "")
		must(t, r.ResumeApply(soon(t)))
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "one two")
	})

	t.Run("a delay counts at once and after a restart", func(t *testing.T) {
		createNotes(t, s)
		must(t, r.SetDelay(soon(t), farOff))
		addNote(t, p, "one")
		awaitReceived(t, p, r)
		wantNotes(t, r, "")
		must(t, r.Restart(soon(t)))
		wantDelay(t, r, farOff)
		wantNotes(t, r, "")
		must(t, r.SetDelay(soon(t), 0))
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "one")
	})

	t.Run("a server that hangs answers nothing until it continues", func(t *testing.T) {
		createNotes(t, s)
		conn := connect(t, r.URL("notes"))
		must(t, r.Hang())
		ctx, cancel := context.WithTimeout(soon(t), 200*time.Millisecond)
		defer cancel()
		if err := conn.PingContext(ctx); err == nil || ctx.Err() == nil {
			t.Errorf("a ping gets %v in time", err)
		}
		must(t, r.Continue())
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "")
	})

	t.Run("a wait lasts as long as a delay", func(t *testing.T) {
		createNotes(t, s)
		must(t, r.SetDelay(soon(t), time.Second))
		addNote(t, p, "one")
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "one")
		must(t, r.SetDelay(soon(t), 0))
	})

	t.Run("a pause does not sit out the delay", func(t *testing.T) {
		createNotes(t, s)
		must(t, r.SetDelay(soon(t), farOff))
		addNote(t, p, "one")
		awaitReceived(t, p, r)
		must(t, r.PauseApply(soon(t)))
		wantNotes(t, r, "")
		must(t, r.ResumeApply(soon(t)))
		addNote(t, p, "two")
		awaitReceived(t, p, r)
		if scheme(r) == "postgres" {
			eventually(t, "the pause has counted as the rest of the delay", func() bool { return notes(t, r) == "one" })
		} else {
			wantNotes(t, r, "")
		}
		must(t, r.SetDelay(soon(t), 0))
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "one two")
	})
}

// Behind the last record of a page the next position is one that replicas of an
// idle primary do not get to.
func TestWaitEndsAtTheEdgeOfAPageAndOfASegment(t *testing.T) {
	t.Parallel()
	stacktest.Only(t, "postgres")
	s := start(t, "postgres", 0)
	fillPage(t, s.Primary())
	must(t, s.WaitApplied(soon(t)))
	execute(t, s.Primary().AdminURL("postgres"), "SELECT pg_switch_wal()")
	must(t, s.WaitApplied(soon(t)))
}

// fillPage commits messages until the last one ends where its page of the log does.
func fillPage(t *testing.T, primary *stack.Server) {
	t.Helper()
	const page, header, text = 8192, 24, 256
	url := primary.AdminURL("postgres")
	next := func() int64 {
		return value[int64](t, url, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
	}
	commit := func(size int64) {
		execute(t, url, "SELECT pg_logical_emit_message(true, '', repeat('.', $1))", size)
	}
	eventually(t, "a page of the log is full", func() bool {
		before := next()
		commit(text)
		at := next()
		cost := at - before - text
		if room := page - at%page; room >= cost+text {
			commit(room - cost)
		}
		return next()%page == header
	})
}

// A replica with commits of its own would be ahead of its primary for good.
func TestServersBeginWithoutCommits(t *testing.T) {
	t.Parallel()
	for engine, position := range map[string]string{
		"mysql":   "SELECT @@GLOBAL.gtid_executed",
		"mariadb": "SELECT @@GLOBAL.gtid_binlog_state",
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			stacktest.Only(t, engine)
			s := start(t, engine, 0)
			for _, srv := range s.Servers() {
				wantValue(t, srv.AdminURL(""), position, "")
			}
			createNotes(t, s)
			wantValue(t, s.Replicas()[0].AdminURL(""), position, value[string](t, s.Primary().AdminURL(""), position))
		})
	}
}
