package stack_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"freshread/internal/stack"
)

func TestReplication(t *testing.T) {
	t.Parallel()
	s := start(t, 0)
	p, r := s.Primary(), s.Replicas()[0]

	t.Run("a replica applies what the primary commits", func(t *testing.T) {
		createNotes(t, s)
		addNote(t, p, "one")
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "one")
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

	t.Run("a delay counts at once and after a restart", func(t *testing.T) {
		createNotes(t, s)
		must(t, r.SetDelay(soon(t), farOff))
		addNote(t, p, "one")
		awaitReceived(t, p, r)
		wantNotes(t, r, "")
		must(t, r.Restart(soon(t)))
		wantDelay(t, r, "1h")
		wantNotes(t, r, "")
		must(t, r.SetDelay(soon(t), time.Millisecond))
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "one")
	})

	t.Run("a server that hangs answers nothing until it continues", func(t *testing.T) {
		createNotes(t, s)
		conn := connect(t, r.URL("notes"))
		must(t, r.Hang())
		ctx, cancel := context.WithTimeout(soon(t), 200*time.Millisecond)
		defer cancel()
		if err := conn.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a ping gets %v", err)
		}
		must(t, r.Continue())
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "")
	})

	t.Run("a wait lasts as long as a delay", func(t *testing.T) {
		createNotes(t, s)
		must(t, r.SetDelay(soon(t), 400*time.Millisecond))
		addNote(t, p, "one")
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "one")
		must(t, r.SetDelay(soon(t), 0))
	})

	t.Run("a pause does not sit out the delay and does not end it", func(t *testing.T) {
		createNotes(t, s)
		must(t, r.SetDelay(soon(t), farOff))
		addNote(t, p, "one")
		awaitReceived(t, p, r)
		must(t, r.PauseApply(soon(t)))
		wantNotes(t, r, "")
		must(t, r.ResumeApply(soon(t)))
		eventually(t, "the note that was held back is there", func() bool { return notes(t, r) == "one" })
		addNote(t, p, "two")
		awaitReceived(t, p, r)
		wantNotes(t, r, "one")
		must(t, r.SetDelay(soon(t), 0))
	})

	// Behind the last record of a page the next position is one that replicas of
	// an idle primary do not get to.
	t.Run("a wait ends at the edge of a page and of a segment", func(t *testing.T) {
		must(t, s.WaitApplied(soon(t)))
		fillPage(t, p)
		must(t, s.WaitApplied(soon(t)))
		execute(t, p.AdminURL("postgres"), "SELECT pg_switch_wal()")
		must(t, s.WaitApplied(soon(t)))
	})
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
