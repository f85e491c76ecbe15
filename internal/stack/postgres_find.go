package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// oldestPostgres is the first version that can tell whether a replica has paused.
const oldestPostgres = "14"

// postgresPrograms is an installed PostgreSQL.
type postgresPrograms struct {
	initdb, postgres string
	version          string
}

// findPostgres finds the PostgreSQL to run: for "postgres19" the one that
// scripts/install has put into a folder of its own; else in the folder that
// STACK_POSTGRES_BIN names or else in $PATH or else the newest where packages put it.
func findPostgres(ctx context.Context, engine string) (postgresPrograms, error) {
	dirs := []string{filepath.Join(installedDir(engine), "usr/lib/postgresql/19/bin")}
	if engine == "postgres" {
		dirs = postgresDirs()
	}
	for _, dir := range dirs {
		found := postgresPrograms{initdb: filepath.Join(dir, "initdb"), postgres: filepath.Join(dir, "postgres")}
		if !isExecutable(found.initdb) || !isExecutable(found.postgres) {
			continue
		}
		var err error
		found.version, err = postgresVersion(ctx, found.postgres)
		return found, err
	}
	return postgresPrograms{}, &MissingError{
		Engine:  engine,
		Program: filepath.Join(os.Getenv("STACK_POSTGRES_BIN"), "initdb"),
		Install: "scripts/install " + engine + " (Debian, Ubuntu), dnf install postgresql-server (Fedora), " +
			"brew install postgresql (macOS)",
	}
}

// postgresDirs returns the folders to look in, the best first.
func postgresDirs() []string {
	if dir := os.Getenv("STACK_POSTGRES_BIN"); dir != "" {
		return []string{dir}
	}
	var dirs []string
	if initdb, err := exec.LookPath("initdb"); err == nil {
		// A link in $PATH may stand alone; the other programs are where it leads.
		if initdb, err = filepath.EvalSymlinks(initdb); err == nil {
			dirs = append(dirs, filepath.Dir(initdb))
		}
	}
	return append(dirs, packagedPostgresDirs()...)
}

// packagedPostgresDirs returns where packages put PostgreSQL, the newest first.
func packagedPostgresDirs() []string {
	var dirs []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
		"/usr/pgsql-*/bin",                  // postgresql.org, for Fedora and its kin
		"/opt/homebrew/opt/postgresql*/bin", // Homebrew
		"/usr/local/opt/postgresql*/bin",    // Homebrew on Intel
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, _ := filepath.Glob(pattern) // fails for a bad pattern only
		dirs = append(dirs, found...)
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return majorIn(b) - majorIn(a) })
	return dirs
}

// postgresVersion asks for the version, as in "postgres (PostgreSQL) 15.18 (Debian)".
func postgresVersion(ctx context.Context, postgres string) (string, error) {
	out, err := ask(ctx, postgres, "--version")
	if err != nil {
		return "", err
	}
	words := strings.Fields(out)
	if len(words) < 3 {
		return "", fmt.Errorf("%s gives no version: %q", postgres, out)
	}
	return words[2], checkVersion(postgres, words[2], oldestPostgres)
}
