package stack_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"freshread/internal/stack"
)

func TestMissingEngineNamesTheCommandThatInstallsIt(t *testing.T) {
	for _, test := range []struct{ engine, env, program string }{
		{"postgres", "STACK_POSTGRES_BIN", "initdb"},
		{"postgres19", "FRESHREAD_SERVERS", "initdb"},
		{"mysql", "STACK_MYSQL_BIN", "mysqld"},
		{"mariadb", "STACK_MARIADB_BIN", "mariadbd"},
	} {
		t.Run(test.engine, func(t *testing.T) {
			t.Setenv(test.env, t.TempDir())
			_, err := stack.Start(soon(t), options(t.TempDir(), test.engine))
			missing := new(stack.MissingError)
			if !errors.As(err, &missing) || missing.Engine != test.engine {
				t.Fatalf("got error %v, want a MissingError for %s", err, test.engine)
			}
			for _, want := range []string{test.program + " not found", "scripts/install " + test.engine} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestOldServersAreRefused(t *testing.T) {
	for _, test := range []struct{ engine, env, programs, says string }{
		{"postgres", "STACK_POSTGRES_BIN", "initdb postgres", "postgres (PostgreSQL) 13.22 (Debian 13.22-1)"},
		{"mysql", "STACK_MYSQL_BIN", "mysqld", "mysqld  Ver 8.0.44 for Linux on x86_64 (MySQL Community Server - GPL)"},
		{"mariadb", "STACK_MARIADB_BIN", "mariadbd mariadb-install-db", "mariadbd  Ver 10.6.24-MariaDB for Linux on x86_64"},
	} {
		t.Run(test.engine, func(t *testing.T) {
			t.Setenv(test.env, fakePrograms(t, test.programs, test.says))
			err := stack.Installed(soon(t), test.engine)
			if err == nil || !strings.Contains(err.Error(), "want") {
				t.Errorf("got error %v, want one that names a newer version", err)
			}
		})
	}
}

// Packages of MariaDB may call its server mysqld too.
func TestMariaDBIsNotTakenForMySQL(t *testing.T) {
	t.Setenv("STACK_MYSQL_BIN", fakePrograms(t, "mysqld", "mysqld  Ver 10.11.19-MariaDB for Linux on x86_64"))
	err := stack.Installed(soon(t), "mysql")
	if !errors.As(err, new(*stack.MissingError)) {
		t.Errorf("got error %v, want a MissingError", err)
	}
}

// fakePrograms returns a folder of programs that say which version they are.
func fakePrograms(t *testing.T, names, version string) string {
	t.Helper()
	dir := t.TempDir()
	for name := range strings.FieldsSeq(names) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+version+"'\n"), 0o755))
	}
	return dir
}
