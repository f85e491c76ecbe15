package migrations_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"
	"golang.org/x/sync/errgroup"

	"freshread/internal/dbroute"
	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
	"freshread/migrations"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

var quiet = slog.New(slog.DiscardHandler)

// everything is the names of all migrations, in order.
func everything(t *testing.T, engine string) []string {
	t.Helper()
	files, err := os.ReadDir(folder(engine))
	stacktest.Must(t, err)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

func folder(engine string) string {
	if engine == "mariadb" {
		return "mysql"
	}
	return engine
}

// open opens pools of its own, as each process has them.
func open(t *testing.T, servers *stack.Stack, database string) *dbroute.Cluster {
	t.Helper()
	cfg := dbroute.Config{Name: "test", Primary: servers.Primary().URL(database), Logger: quiet}
	for _, r := range servers.Replicas() {
		cfg.Replicas = append(cfg.Replicas, r.URL(database))
	}
	cluster, err := dbroute.Open(cfg)
	stacktest.Must(t, err)
	t.Cleanup(func() { stacktest.Must(t, cluster.Close()) })
	return cluster
}

func up(t *testing.T, cluster *dbroute.Cluster) []string {
	t.Helper()
	applied, err := migrations.Up(stacktest.Context(t), cluster, quiet)
	stacktest.Must(t, err)
	return applied
}

func wantPending(t *testing.T, cluster *dbroute.Cluster, want bool) {
	t.Helper()
	got, err := migrations.Pending(stacktest.Context(t), cluster, quiet)
	stacktest.Must(t, err)
	if got != want {
		t.Fatalf("pending is %v, want %v", got, want)
	}
}

// columns describes the site's tables, as read through ctx.
func columns(t *testing.T, ctx context.Context, cluster *dbroute.Cluster) []string {
	t.Helper()
	schema := "database()"
	if cluster.Engine() == dbroute.PostgreSQL {
		schema = "'public'"
	}
	var list []string
	stacktest.Must(t, cluster.Read(ctx, "columns", func(q dbroute.Querier) error {
		rows, err := q.QueryContext(ctx, `
			SELECT concat_ws(' ', table_name, column_name, data_type, character_maximum_length, is_nullable, column_default)
			  FROM information_schema.columns
			 WHERE table_schema = `+schema+` AND table_name <> 'goose_db_version'
			 ORDER BY 1`)
		if err != nil {
			return err
		}
		for rows.Next() {
			var c string
			stacktest.Must(t, rows.Scan(&c))
			list = append(list, c)
		}
		return rows.Err()
	}))
	return list
}

func TestUpBySeveralProcessesAtOnceAppliesEachOnce(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Pair(t, engine)
		database := stacktest.Database(t, servers)
		// The lock and the versions must not depend on what a replica has applied.
		resume := stacktest.Pause(t, servers)
		var pools []*dbroute.Cluster
		for range 5 {
			pools = append(pools, open(t, servers, database))
		}

		applied := make([][]string, len(pools))
		g, ctx := errgroup.WithContext(stacktest.Context(t))
		for i, db := range pools {
			g.Go(func() (err error) {
				applied[i], err = migrations.Up(ctx, db, quiet)
				return err
			})
		}
		stacktest.Must(t, g.Wait())

		if got, want := slices.Concat(applied...), everything(t, engine); !slices.Equal(got, want) {
			t.Errorf("all together applied %v, want %v", got, want)
		}
		onPrimary := stacktest.Context(t)
		onReplica, scope := pools[0].NewScope(onPrimary)
		scope.RouteAnywhere(dbroute.Marker{})
		if got := columns(t, onReplica, pools[0]); len(got) > 0 {
			t.Fatalf("the paused replica has %v", got)
		}
		resume()
		stacktest.Applied(t, servers)
		if got, want := columns(t, onReplica, pools[0]), columns(t, onPrimary, pools[0]); len(got) == 0 || !slices.Equal(got, want) {
			t.Errorf("the replica has %v, want %v", got, want)
		}
	})
}

func TestPendingUntilUp(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Pair(t, engine)
		db := open(t, servers, stacktest.Database(t, servers))
		wantPending(t, db, true)
		if got, want := up(t, db), everything(t, engine); !slices.Equal(got, want) {
			t.Errorf("applied %v, want %v", got, want)
		}
		wantPending(t, db, false)
		if again := up(t, db); len(again) > 0 {
			t.Errorf("applied %v a second time", again)
		}
	})
}

// While a new version of the app is rolled out, the old one is started again
// here and there.
func TestSchemaOfALaterVersionIsNotPending(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Pair(t, engine)
		db := open(t, servers, stacktest.Database(t, servers))
		up(t, db)
		_, err := db.PrimaryDB().Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`)
		stacktest.Must(t, err)
		wantPending(t, db, false)
		if applied := up(t, db); len(applied) > 0 {
			t.Errorf("applied %v", applied)
		}
	})
}

func TestDownUndoesEachUp(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Pair(t, engine)
		db := open(t, servers, stacktest.Database(t, servers))
		dialect := goose.Dialect(folder(engine))
		provider, err := goose.NewProvider(dialect, db.PrimaryDB(), os.DirFS(string(dialect)))
		stacktest.Must(t, err)
		ctx := stacktest.Context(t)

		// after[i] is the schema with the first i migrations.
		after := [][]string{columns(t, ctx, db)}
		for range provider.ListSources() {
			_, err := provider.UpByOne(ctx)
			stacktest.Must(t, err)
			after = append(after, columns(t, ctx, db))
		}
		for i := len(after) - 1; i > 0; i-- {
			if slices.Equal(after[i], after[i-1]) {
				t.Errorf("migration %d changes nothing that this test sees", i)
			}
			undo(t, ctx, provider)
			if got, want := columns(t, ctx, db), after[i-1]; !slices.Equal(got, want) {
				t.Errorf("after Down of migration %d the schema is\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		up(t, db)
		if got, want := columns(t, ctx, db), after[len(after)-1]; !slices.Equal(got, want) {
			t.Errorf("after all of Down and Up the schema is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func undo(t *testing.T, ctx context.Context, provider *goose.Provider) {
	t.Helper()
	_, err := provider.Down(ctx)
	stacktest.Must(t, err)
}
