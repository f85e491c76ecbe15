package stack_test

import (
	"context"
	"testing"

	"freshread/internal/stack"

	"github.com/jackc/pgx/v5"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(soon(t), url)
	must(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, url, sql string, args ...any) {
	t.Helper()
	conn := connect(t, url)
	_, err := conn.Exec(soon(t), sql, args...)
	must(t, err)
	must(t, conn.Close(soon(t)))
}

// value returns the one value that a query finds.
func value[T any](t *testing.T, url, sql string, args ...any) T {
	t.Helper()
	conn := connect(t, url)
	var v T
	must(t, conn.QueryRow(soon(t), sql, args...).Scan(&v))
	must(t, conn.Close(soon(t)))
	return v
}

func wantValue[T comparable](t *testing.T, url, sql string, want T) {
	t.Helper()
	if got := value[T](t, url, sql); got != want {
		t.Errorf("%s: %v, want %v", sql, got, want)
	}
}

func wantDelay(t *testing.T, s *stack.Server, want string) {
	t.Helper()
	wantValue(t, s.URL("postgres"), "SHOW recovery_min_apply_delay", want)
}

// createNotes creates a database with a table, by which a test sees which commits
// a server has applied, and waits until all replicas have it. The notes of an
// earlier test go.
func createNotes(t *testing.T, s *stack.Stack) {
	t.Helper()
	must(t, s.DropDatabase(soon(t), "notes"))
	must(t, s.CreateDatabase(soon(t), "notes"))
	execute(t, s.Primary().URL("notes"), "CREATE TABLE notes (id int GENERATED ALWAYS AS IDENTITY, note text)")
	must(t, s.WaitApplied(soon(t)))
}

func addNote(t *testing.T, primary *stack.Server, note string) {
	t.Helper()
	execute(t, primary.URL("notes"), "INSERT INTO notes (note) VALUES ($1)", note)
}

// notes returns the notes that a server has, with a space between.
func notes(t *testing.T, s *stack.Server) string {
	t.Helper()
	return value[string](t, s.URL("notes"), "SELECT coalesce(string_agg(note, ' ' ORDER BY id), '') FROM notes")
}

// awaitReceived waits until a replica has received all that the primary has
// written. What it does not apply from then on, it holds back.
func awaitReceived(t *testing.T, primary, replica *stack.Server) {
	t.Helper()
	written := value[string](t, primary.AdminURL("postgres"), "SELECT pg_current_wal_flush_lsn()::text")
	eventually(t, "the replica has received everything", func() bool {
		return value[bool](t, replica.AdminURL("postgres"),
			"SELECT coalesce(pg_last_wal_receive_lsn() >= $1::text::pg_lsn, false)", written)
	})
}

func wantNotes(t *testing.T, s *stack.Server, want string) {
	t.Helper()
	if got := notes(t, s); got != want {
		t.Errorf("server %d has the notes %q, want %q", s.ID(), got, want)
	}
}
