package stack_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
)

func TestStartSweepsWhatAKilledProcessLeft(t *testing.T) {
	t.Parallel()
	stacktest.Each(t, func(t *testing.T, engine string) {
		dir := parentDir(t)
		alive := startIn(t, dir, engine)
		createNotes(t, alive)
		addNote(t, alive.Primary(), "one")
		const foreign = "freshread-x" // not made by a stack
		must(t, os.Mkdir(filepath.Join(dir, foreign), 0o755))
		keep := folders(t, dir)

		startChild(t, dir, engine).kill(t)
		stray := slices.DeleteFunc(folders(t, dir), func(name string) bool { return slices.Contains(keep, name) })
		if len(stray) != 1 || len(processes(t, stray...)) == 0 {
			t.Fatalf("the child left %q with the processes %q", stray, processes(t, stray...))
		}

		fresh := startIn(t, dir, engine)
		wantNoProcesses(t, stray...)
		createNotes(t, fresh)
		wantNotes(t, fresh.Primary(), "")
		must(t, fresh.Close())
		wantFolders(t, dir, keep...)
		wantNotes(t, alive.Primary(), "one")
	})
}

func TestStartsSweepAtTheSameTime(t *testing.T) {
	t.Parallel()
	stacktest.Each(t, func(t *testing.T, engine string) {
		dir := parentDir(t)
		startChild(t, dir, engine).kill(t)
		stray := folders(t, dir)

		var starts sync.WaitGroup
		for range 2 {
			starts.Go(func() {
				s, err := stack.Start(soon(t), options(dir, engine))
				if err == nil {
					err = s.WaitApplied(soon(t))
				}
				if err == nil {
					err = s.Close()
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		starts.Wait()
		wantNoProcesses(t, stray...)
		wantFolders(t, dir)
	})
}

func TestInterruptReachesNoServer(t *testing.T) {
	t.Parallel()
	stacktest.Each(t, func(t *testing.T, engine string) {
		dir := parentDir(t)
		c := startChild(t, dir, engine)
		names := folders(t, dir)
		c.interrupt(t)
		if got := c.line(t); got != saysAnswers {
			t.Errorf("after the interrupt the child says %q, want %q", got, saysAnswers)
		}
		must(t, c.cmd.Wait())
		wantFolders(t, dir)
		wantNoProcesses(t, names...)
	})
}
