package stack_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"freshread/internal/stack/stacktest"
)

func TestLifecycle(t *testing.T) {
	t.Parallel()
	stacktest.Each(t, testLifecycle)
}

func testLifecycle(t *testing.T, engine string) {
	dir := parentDir(t)
	s := startIn(t, dir, engine, 0)
	p, r := s.Primary(), s.Replicas()[0]

	t.Run("killed servers start again where they were", func(t *testing.T) {
		createNotes(t, s)
		addr := p.Addr()
		must(t, r.Kill(soon(t)))
		addNote(t, p, "one")
		must(t, s.WaitApplied(soon(t))) // no replica runs
		must(t, p.Kill(soon(t)))
		must(t, r.Start(soon(t)))
		must(t, p.Start(soon(t)))
		if p.Addr() != addr {
			t.Errorf("the address is %s after the start, want %s", p.Addr(), addr)
		}
		addNote(t, p, "two")
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "one two")
	})

	t.Run("a stopped server refuses until it starts", func(t *testing.T) {
		must(t, p.Stop(soon(t)))
		must(t, p.Stop(soon(t)))
		if conn, err := net.Dial("tcp", p.Addr()); err == nil {
			conn.Close()
			t.Error("it takes a connection")
		}
		must(t, p.Start(soon(t)))
		must(t, p.Start(soon(t)))
		value[int](t, p.URL(dialectOf(p).database), "SELECT 1")
	})

	t.Run("a failed start quotes the log", func(t *testing.T) {
		must(t, p.Stop(soon(t)))
		l, err := net.Listen("tcp", p.Addr())
		must(t, err)
		defer l.Close()
		err = p.Start(soon(t))
		if err == nil || !strings.Contains(err.Error(), dialectOf(p).portTaken) {
			t.Errorf("got error %v, want one that quotes the log", err)
		}
	})

	t.Run("a kill leaves no process", func(t *testing.T) {
		must(t, p.Start(soon(t)))
		conn := connect(t, p.URL("notes"))
		must(t, p.Kill(soon(t)))
		must(t, r.Kill(soon(t)))
		wantNoProcesses(t, folders(t, dir)...)
		if conn.PingContext(soon(t)) == nil {
			t.Error("it answers")
		}
	})
}

// Its programs are scripts that start the real ones with libraries of their own.
func TestPostgres19(t *testing.T) {
	t.Parallel()
	stacktest.Only(t, "postgres19")
	t.Run("lifecycle", func(t *testing.T) { testLifecycle(t, "postgres19") })
	t.Run("replication", func(t *testing.T) { testReplication(t, "postgres19") })
	t.Run("promote", func(t *testing.T) { testPromote(t, "postgres19") })
}

func TestKilledPostgresLeavesNoSharedMemory(t *testing.T) {
	t.Parallel()
	stacktest.Only(t, "postgres")
	dir := parentDir(t)
	s := startIn(t, dir, "postgres")
	before := sharedMemory(t, filepath.Join(dir, folders(t, dir)[0], "1"))
	must(t, s.Primary().Kill(soon(t)))
	if before.exists(t) {
		t.Errorf("shared memory %q is left", before)
	}
}

func TestPromotedReplicaReplacesThePrimary(t *testing.T) {
	t.Parallel()
	stacktest.Each(t, testPromote)
}

func testPromote(t *testing.T, engine string) {
	s := start(t, engine, 0, 0)
	old, promoted, other := s.Servers()[0], s.Servers()[1], s.Servers()[2]
	createNotes(t, s)

	must(t, old.Stop(soon(t)))
	must(t, promoted.Promote(soon(t)))
	if s.Primary() != promoted || promoted.Role() != "primary" {
		t.Errorf("server %d is the primary and the promoted one is a %s", s.Primary().ID(), promoted.Role())
	}
	if replicas := s.Replicas(); len(replicas) != 1 || replicas[0] != other {
		t.Errorf("%d replicas are left, want server %d", len(replicas), other.ID())
	}

	addNote(t, promoted, "one")
	must(t, s.WaitApplied(soon(t)))
	wantNotes(t, other, "one")
	must(t, promoted.Restart(soon(t)))
	must(t, other.Restart(soon(t)))
	addNote(t, promoted, "two")
	must(t, s.WaitApplied(soon(t)))
	wantNotes(t, other, "one two")
}

func TestPromotedReplicaAppliesFirstWhatItHasReceived(t *testing.T) {
	t.Parallel()
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := start(t, engine, 0)
		p, r := s.Primary(), s.Replicas()[0]
		createNotes(t, s)
		must(t, r.SetDelay(soon(t), farOff))
		addNote(t, p, "one")
		awaitReceived(t, p, r)
		must(t, r.PauseApply(soon(t)))
		addNote(t, p, "two")
		awaitReceived(t, p, r)
		must(t, p.Kill(soon(t)))
		must(t, r.Promote(soon(t)))
		addNote(t, r, "three")
		wantNotes(t, r, "one two three")
	})
}
