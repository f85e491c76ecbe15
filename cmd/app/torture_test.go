package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"freshread/internal/stack/stacktest"
)

func TestTorture(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		dir, logs := newFolder(t), filepath.Join(t.TempDir(), "new")
		a := start(t, nil, "torture", "--engine", engine, "--seed", "5", "--duration", "1s", "--processes", "2", "--data", dir, "--logs", logs)
		select {
		case <-a.ended:
		case <-time.After(5 * time.Minute): // a job whose worker is killed takes a while
		}
		a.wantExit(t, 0)
		stdout := a.out.String()
		for _, want := range []string{", seed 5: ", " 0 violations", "\noperations\n", "\nfaults\n"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("it does not say %q: %s", want, stdout)
			}
		}
		if strings.Contains(stdout, " 0 faults,") {
			t.Errorf("nothing has failed: %s", stdout)
		}
		wantEmpty(t, dir)
		for _, name := range []string{"process-1.log", "process-2.log"} {
			if _, err := os.Stat(filepath.Join(logs, name)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTortureEndsInOrder(t *testing.T) {
	stacktest.Only(t, "postgres")
	dir := newFolder(t)
	a := start(t, nil, "torture", "--data", dir)
	a.says(t, &a.errOut, `^(starting postgres)`)
	eventually(t, "the site's processes run", func() bool { return len(serversIn(t, dir)) > 0 })
	a.signal(t, os.Interrupt)
	a.wantExit(t, 1)
	wantEmpty(t, dir)
}

func TestTortureFlags(t *testing.T) {
	for flag, want := range map[string]string{
		"--engine=sqlite": "--engine sqlite", "--replicas=0": "--replicas 0: want 1 to 8", "--processes=0": "--processes 0: want 1 to 16",
	} {
		_, stderr := runs(t, nil, 1, "torture", flag)
		wantOneLine(t, stderr, want)
	}
}
