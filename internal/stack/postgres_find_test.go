package stack_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"freshread/internal/stack"
)

func TestMissingPostgresNamesTheCommandThatInstallsIt(t *testing.T) {
	t.Setenv("STACK_POSTGRES_BIN", t.TempDir())
	_, err := stack.Start(soon(t), options(t.TempDir()))
	missing := new(stack.MissingError)
	if !errors.As(err, &missing) {
		t.Fatalf("got error %v, want a MissingError", err)
	}
	for _, want := range []string{"initdb not found", "apt-get install postgresql"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

func TestOldPostgresIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, program := range []string{"initdb", "postgres"} {
		script := "#!/bin/sh\necho 'postgres (PostgreSQL) 13.22 (Debian 13.22-1)'\n"
		must(t, os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755))
	}
	t.Setenv("STACK_POSTGRES_BIN", dir)
	_, err := stack.Start(soon(t), options(t.TempDir()))
	if err == nil || !strings.Contains(err.Error(), "version 13.22") {
		t.Errorf("got error %v, want one that names version 13.22", err)
	}
}
