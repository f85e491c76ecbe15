package dbroute_test

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m, "postgres19")) }

// env is a cluster on a database of the test's own, with one table of notes:
// note 1 says "old", on the replica too.
type env struct {
	*dbroute.Cluster
	dialect
	tb     testing.TB
	stack  *stack.Stack
	config dbroute.Config
}

func newEnv(tb testing.TB, engine string) *env {
	return newEnvOn(tb, engine, stacktest.Pair(tb, engine))
}

func newEnvOn(tb testing.TB, engine string, servers *stack.Stack) *env {
	tb.Helper()
	database := stacktest.Database(tb, servers)
	cfg := dbroute.Config{
		Name: "test", Primary: servers.Primary().URL(database),
		CheckTimeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	for _, r := range servers.Replicas() {
		cfg.Replicas = append(cfg.Replicas, r.URL(database))
	}
	e := &env{dialect: dialectOf(engine), tb: tb, stack: servers, config: cfg, Cluster: openCluster(tb, cfg)}
	e.exec(`CREATE TABLE notes (` + e.idColumn + `, parent bigint REFERENCES notes (id), text varchar(100) NOT NULL)`)
	e.exec(`INSERT INTO notes (text) VALUES ('old')`)
	e.applied()
	return e
}

// on returns the same for another cluster on the same database.
func (e *env) on(c *dbroute.Cluster) *env {
	other := *e
	other.Cluster = c
	return &other
}

func openCluster(tb testing.TB, cfg dbroute.Config) *dbroute.Cluster {
	tb.Helper()
	c, err := dbroute.Open(cfg)
	stacktest.Must(tb, err)
	tb.Cleanup(func() { stacktest.Must(tb, c.Close()) })
	return c
}

func (e *env) pause() (resume func()) { return stacktest.Pause(e.tb, e.stack) }
func (e *env) applied()               { e.tb.Helper(); stacktest.Applied(e.tb, e.stack) }

// exec runs a statement on the primary, outside any scope.
func (e *env) exec(statement string, args ...any) {
	e.tb.Helper()
	stacktest.Must(e.tb, e.Write(stacktest.Context(e.tb), "exec", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, statement, args...)
		return err
	}))
}

// request returns a new scope routed by commit ID, as of a client with m.
func (e *env) request(m dbroute.Marker) (context.Context, *dbroute.Scope) {
	ctx, scope := e.NewScope(stacktest.Context(e.tb))
	scope.RouteByCommit(ctx, m)
	return ctx, scope
}

// write sets note 1 in the scope of ctx.
func (e *env) write(ctx context.Context, text string) {
	e.tb.Helper()
	stacktest.Must(e.tb, e.Write(ctx, "notes.Set", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE notes SET text = ? WHERE id = 1`, text)
		return err
	}))
}

// markerOf writes note 1 in a request of its own and returns its marker.
func (e *env) markerOf(text string) dbroute.Marker {
	e.tb.Helper()
	ctx, scope := e.request(dbroute.Marker{})
	e.write(ctx, text)
	m := scope.Outcome().Marker
	if m.Unknown || m.Commit.IsZero() {
		e.tb.Fatalf("marker of a write is %+v", m)
	}
	return m
}

// seen is what a read of note 1 showed and how it was routed.
type seen struct {
	Text   string
	Server int
	Reason dbroute.Reason
}

// see reads note 1 in the scope of ctx.
func (e *env) see(ctx context.Context) seen {
	e.tb.Helper()
	var got seen
	stacktest.Must(e.tb, e.Read(ctx, "notes.Text", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, `SELECT text, `+e.serverID+` FROM notes WHERE id = ?`, 1).
			Scan(&got.Text, &got.Server)
	}))
	if scope := e.Scope(ctx); scope != nil {
		accesses := scope.Accesses()
		last := accesses[len(accesses)-1]
		if last.ServerID != got.Server {
			e.tb.Fatalf("the scope says server %d, the query ran on %d", last.ServerID, got.Server)
		}
		got.Reason = last.Reason
	}
	return got
}

// want fails the test unless a read of note 1 shows this.
func (e *env) want(ctx context.Context, text string, server int, why dbroute.Reason) {
	e.tb.Helper()
	if got, want := e.see(ctx), (seen{text, server, why}); got != want {
		e.tb.Fatalf("read %+v, want %+v", got, want)
	}
}

func count(tb testing.TB, db *sql.DB, query string) int {
	tb.Helper()
	var n int
	stacktest.Must(tb, db.QueryRow(query).Scan(&n))
	return n
}
