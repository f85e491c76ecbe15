package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"freshread/internal/auth"
	"freshread/internal/dbroute"
	"freshread/internal/jobs"
	"freshread/internal/posts"
	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
	"freshread/migrations"
)

func TestMain(m *testing.M) {
	if told := os.Getenv(childVariable); told != "" {
		var c child
		err := json.Unmarshal([]byte(told), &c)
		if err == nil {
			err = c.run()
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(stacktest.Main(m))
}

// env is a migrated cluster with one author, and a queue.
type env struct {
	t       *testing.T
	servers *stack.Stack
	cluster *dbroute.Cluster
	queues  *stack.Stack // the servers of the queue's database
	river   *pgxpool.Pool
	config  jobs.Config
	author  auth.User
}

// each runs a test on every engine, and on each with every set-up of the queue
// that it has: in the primary's database, and off it.
func each(t *testing.T, test func(e *env)) {
	t.Helper()
	stacktest.Each(t, func(t *testing.T, engine string) {
		if engine == "postgres" {
			t.Run("queue on the primary", func(t *testing.T) {
				test(newEnv(t, stacktest.Pair(t, engine), nil))
			})
		}
		t.Run("queue of its own", func(t *testing.T) {
			test(newEnv(t, stacktest.Pair(t, engine), stacktest.Queue(t)))
		})
	})
}

// newEnv uses the servers of queues for the queue, or the cluster's if it is nil.
func newEnv(t *testing.T, servers, queues *stack.Stack) *env {
	t.Helper()
	e := &env{t: t, servers: servers, queues: servers}
	database := stacktest.Database(t, servers)
	cluster := dbroute.Config{
		Name: "test", Primary: servers.Primary().URL(database),
		CheckTimeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
		HealthInterval: 50 * time.Millisecond, HealthTimeout: 5 * time.Second,
	}
	for _, r := range servers.Replicas() {
		cluster.Replicas = append(cluster.Replicas, r.URL(database))
	}
	var err error
	e.cluster, err = dbroute.Open(cluster)
	stacktest.Must(t, err)
	t.Cleanup(func() { stacktest.Must(t, e.cluster.Close()) })
	e.config = jobs.Config{Cluster: e.cluster, Log: slog.New(slog.DiscardHandler), Workers: 4}
	url := servers.Primary().URL(database)
	if queues != nil {
		e.queues = queues
		url = stacktest.DatabaseURL(t, queues)
		e.config.URL = url
	}
	e.river, err = pgxpool.New(context.Background(), url)
	stacktest.Must(t, err)
	t.Cleanup(e.river.Close)

	ctx := stacktest.Context(t)
	_, err = migrations.Up(ctx, e.cluster, e.config.Log)
	stacktest.Must(t, err)
	_, err = e.open().Migrate(ctx)
	stacktest.Must(t, err)
	stacktest.Must(t, e.cluster.Write(ctx, "author", func(ctx context.Context, tx *dbroute.Tx) error {
		e.author.ID, err = tx.InsertID(ctx, `INSERT INTO users (name, email) VALUES ('Mara', 'mara@example.com')`)
		return err
	}))
	e.applied()
	e.watch()
	return e
}

// watch watches the servers until the test ends, as every process does. It returns
// once all are up.
func (e *env) watch() {
	e.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { e.cluster.Watch(ctx); close(ended) }()
	e.t.Cleanup(func() { stop(); <-ended })
	e.eventually("all servers are up", func() bool {
		for _, s := range e.cluster.Status() {
			if s.State != dbroute.Up || s.Position.IsZero() {
				return false
			}
		}
		return true
	})
}

// open opens a queue as each process has one; change may change its configuration.
func (e *env) open(change ...func(*jobs.Config)) *jobs.Queue {
	e.t.Helper()
	cfg := e.config
	for _, f := range change {
		f(&cfg)
	}
	q, err := jobs.Open(cfg)
	stacktest.Must(e.t, err)
	e.t.Cleanup(q.Close)
	return q
}

// run runs a queue until stop is called or the test ends.
func (e *env) run(q *jobs.Queue) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-ended; err != nil {
				e.t.Errorf("the queue ended with %v", err)
			}
		}
	}
	e.t.Cleanup(stop)
	return stop
}

func (e *env) pause() (resume func()) { e.t.Helper(); return stacktest.Pause(e.t, e.servers) }
func (e *env) applied()               { e.t.Helper(); stacktest.Applied(e.t, e.servers) }

// create saves a post whose summaries a queue makes.
func (e *env) create(q *jobs.Queue, title string) int64 {
	e.t.Helper()
	id, err := posts.NewStore(e.cluster, nil, q).Create(stacktest.Context(e.t), e.author.ID, posts.Draft{Title: title, Body: "One two three."})
	stacktest.Must(e.t, err)
	return id
}

// comment comments on a post.
func (e *env) comment(q *jobs.Queue, post int64) {
	e.t.Helper()
	_, err := posts.NewStore(e.cluster, nil, q).AddComment(stacktest.Context(e.t), post, e.author.ID, "A comment.")
	stacktest.Must(e.t, err)
}

// runs waits until there have been at least n runs, and returns all, the newest first.
func (e *env) runs(q *jobs.Queue, n int) []jobs.Run {
	e.t.Helper()
	var got []jobs.Run
	e.eventually("enough runs have ended", func() bool {
		var err error
		got, err = q.Runs().Latest(dbroute.UsePrimary(stacktest.Context(e.t)), 10_000)
		stacktest.Must(e.t, err)
		return len(got) >= n
	})
	return got
}

// summary is what the primary has.
func (e *env) summary(post int64) (posts.Summary, bool) {
	e.t.Helper()
	sum, pending, err := posts.NewStore(e.cluster, nil, nil).SummaryOf(dbroute.UsePrimary(stacktest.Context(e.t)), post)
	stacktest.Must(e.t, err)
	return sum, pending
}

func (e *env) eventually(what string, so func() bool) {
	e.t.Helper()
	for ctx := stacktest.Context(e.t); !so(); time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil {
			e.t.Fatalf("it is still not so that %s", what)
		}
	}
}

// exec changes the primary by hand.
func (e *env) exec(statement string, args ...any) {
	e.t.Helper()
	stacktest.Must(e.t, e.cluster.Write(stacktest.Context(e.t), "exec", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, statement, args...)
		return err
	}))
}

// count counts rows of the primary.
func (e *env) count(query string) (n int) {
	e.t.Helper()
	stacktest.Must(e.t, e.cluster.PrimaryDB().QueryRow(query).Scan(&n))
	return n
}

// queued counts jobs in the queue, those that are done too.
func (e *env) queued() (n int) {
	e.t.Helper()
	stacktest.Must(e.t, e.river.QueryRow(stacktest.Context(e.t), `SELECT count(*) FROM river_job`).Scan(&n))
	return n
}
