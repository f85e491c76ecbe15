package stack_test

import (
	"testing"

	"freshread/internal/stack/stacktest"
)

func TestRebuild(t *testing.T) {
	t.Parallel()
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := startIn(t, parentDir(t), engine, 0)
		p, r := s.Primary(), s.Replicas()[0]
		createNotes(t, s)
		addNote(t, p, "one")
		must(t, s.WaitApplied(soon(t)))
		if r.Save(soon(t)) == nil || r.Rebuild(soon(t)) == nil {
			t.Error("the data of a server that runs is copied")
		}
		must(t, r.Stop(soon(t)))
		must(t, r.Save(soon(t)))
		must(t, r.Start(soon(t)))
		addNote(t, p, "two")
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "one two")

		must(t, r.Kill(soon(t)))
		must(t, p.Stop(soon(t))) // nobody brings the copy up to date
		must(t, r.Rebuild(soon(t)))
		must(t, r.Start(soon(t)))
		wantNotes(t, r, "one")
		must(t, p.Start(soon(t)))
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "one two")
	})
}

func TestDemote(t *testing.T) {
	t.Parallel()
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := startIn(t, parentDir(t), engine, 0)
		p, r := s.Primary(), s.Replicas()[0]
		createNotes(t, s)
		addNote(t, p, "one")
		must(t, p.Demote(soon(t)))
		wantNotes(t, p, "one")
		if _, err := openURL(t, p.URL("notes")).ExecContext(soon(t), "INSERT INTO notes VALUES (7, 'never')"); err == nil {
			t.Error("a demoted primary takes a write")
		}
		must(t, p.Reinstate(soon(t)))
		addNote(t, p, "two")
		must(t, s.WaitApplied(soon(t)))
		wantNotes(t, r, "one two")
	})
}
