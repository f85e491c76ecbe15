package cache_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
	"freshread/migrations"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

// process is what one process of an application has.
type process struct {
	t       testing.TB
	main    *dbroute.Cluster
	cluster *dbroute.Cluster // of the cache
	cache   *cache.Cache
}

// data is a migrated database with one number in it, 0 on the replica too.
type data struct {
	t        testing.TB
	servers  *stack.Stack
	database string
}

func newData(t testing.TB, servers *stack.Stack) *data {
	t.Helper()
	d := &data{t, servers, stacktest.Database(t, servers)}
	p := d.process()
	_, err := migrations.Up(stacktest.Context(t), p.main, slog.New(slog.DiscardHandler))
	stacktest.Must(t, err)
	for _, statement := range []string{`CREATE TABLE numbers (n bigint PRIMARY KEY)`, `INSERT INTO numbers VALUES (0)`} {
		_, err := p.main.PrimaryDB().Exec(statement)
		stacktest.Must(t, err)
	}
	stacktest.Applied(t, servers)
	return d
}

func (d *data) process(change ...func(*dbroute.Config)) *process {
	d.t.Helper()
	cfg := dbroute.Config{
		Name: "main", Primary: d.servers.Primary().URL(d.database), CheckTimeout: 5 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, r := range d.servers.Replicas() {
		cfg.Replicas = append(cfg.Replicas, r.URL(d.database))
	}
	for _, f := range change {
		f(&cfg)
	}
	p := &process{t: d.t}
	var err error
	p.main, err = dbroute.Open(cfg)
	stacktest.Must(d.t, err)
	d.t.Cleanup(func() { p.main.Close() })
	p.cluster, err = cache.OpenCluster(cfg, cache.DefaultConns)
	stacktest.Must(d.t, err)
	d.t.Cleanup(func() { p.cluster.Close() })
	p.cache = p.newCache(cache.Config{})
	return p
}

func (p *process) newCache(cfg cache.Config) *cache.Cache {
	p.t.Helper()
	cfg.Cluster, cfg.Data, cfg.Log = p.cluster, p.main, slog.New(slog.DiscardHandler)
	c, err := cache.New(cfg)
	stacktest.Must(p.t, err)
	return c
}

func (p *process) limiter(name string, limit cache.Limit) *cache.Limiter {
	p.t.Helper()
	l, err := cache.NewLimiter(p.cluster, name, limit)
	stacktest.Must(p.t, err)
	return l
}

// visitor is a request of somebody who wrote nothing: it reads the replica.
func (p *process) visitor() context.Context {
	ctx, scope := p.main.NewScope(stacktest.Context(p.t))
	scope.RouteByCommit(ctx, dbroute.Marker{})
	return ctx
}

// reads is how often the cache's cluster was read.
func (p *process) reads() (n uint64) {
	for _, a := range p.cluster.Counts().Accesses {
		if !a.Write {
			n += a.N
		}
	}
	return n
}

const number = "test.Number"

// remembered returns the number by way of the cache.
func (p *process) remembered(ctx context.Context) int64 {
	p.t.Helper()
	n, err := cache.Remember(ctx, p.cache, number, time.Hour, readNumber)
	stacktest.Must(p.t, err)
	return n
}

func readNumber(ctx context.Context, q dbroute.Querier) (n int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT n FROM numbers`).Scan(&n)
	return n, err
}

// increment adds 1 to the number, forgets the entry and returns the number. What
// before is runs just before the commit.
func (p *process) increment(before ...func()) (n int64) {
	p.t.Helper()
	stacktest.Must(p.t, p.main.Write(stacktest.Context(p.t), "increment", func(ctx context.Context, tx *dbroute.Tx) (err error) {
		if _, err = tx.ExecContext(ctx, `UPDATE numbers SET n = n + 1`); err != nil {
			return err
		}
		if n, err = readNumber(ctx, tx.Querier()); err != nil {
			return err
		}
		if err := cache.Forget(ctx, tx, number); err != nil {
			return err
		}
		for _, f := range before {
			f()
		}
		return nil
	}))
	return n
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func wantEqual[T any](t testing.TB, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
