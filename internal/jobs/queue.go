/*
Package jobs queues work in the transaction that makes it due and does it later,
reading where that transaction can be seen.

# Queueing

The caller writes one line inside cluster.Write:

	return queue.Enqueue(ctx, tx, jobs.SummarisePost{PostID: id})

A transaction that is rolled back leaves no job, and one that commits slowly is not
overtaken by its own job. Arguments are ids and not entities: what a job works on, it
loads.

The queue is River, which keeps its jobs in PostgreSQL. If the application's own
database is PostgreSQL, River's tables are there, and the job is inserted in the
transaction. Else the queue has a PostgreSQL of its own, no transaction spans the
two, and the transaction writes the job into an outbox, from which it is relayed once
it has committed: see outbox.go.

# Reading

A job has no session, hence no marker: right after a write, a replica shows it the
old row, or none. River middleware gives each run a scope, which ends with the run,
and routes it by the [Mode] of the kind of job: see wait.go.
*/
package jobs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"freshread/internal/dbroute"
	"freshread/internal/posts"
)

// Config is what a queue needs. Cluster and Log are required.
type Config struct {
	Cluster *dbroute.Cluster
	Log     *slog.Logger
	// URL is of the PostgreSQL database that the queue has for itself. If it is empty
	// the queue is in the cluster's database, which has to be PostgreSQL then.
	URL string
	// Name keeps apart queues that share a database. "default" if empty.
	Name string
	// Workers is how many jobs this process works at once. With 0 it only queues.
	Workers int
	// Reads says where jobs of a kind read; Commit if it does not name the kind.
	Reads map[string]Mode
	// CommitWait bounds a job's wait for a replica. 2 s if zero.
	CommitWait time.Duration
	// Delay is how long a job waits that can wait: longer than the replicas are behind.
	// 10 s if zero.
	Delay time.Duration
	// StopTimeout is how long jobs under way may go on when Run is told to end. Then
	// their contexts end, and they are queued again. 10 s if zero.
	StopTimeout time.Duration
	// Register adds workers of further kinds.
	Register func(*river.Workers)
}

const (
	// DefaultCommitWait is longer than a healthy replica is behind.
	DefaultCommitWait  = 2 * time.Second
	defaultDelay       = 10 * time.Second
	defaultStopTimeout = 10 * time.Second

	jobTimeout = 30 * time.Second
	// lostAfter is when a job whose worker has died is worked by another. It is more
	// than a job that is alive can take.
	lostAfter = 2 * time.Minute
	// abandonTimeout is how long a job may ignore that its context has ended.
	abandonTimeout = 5 * time.Second
	// retryInterval is how often a queue is tried that cannot be reached.
	retryInterval = time.Second
)

// Queue queues jobs and works them. It is safe for concurrent use.
type Queue struct {
	cfg    Config
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	inTx   *river.Client[*sql.Tx] // nil if the queue has a database of its own
	outbox *outbox
	runs   *Runs
	waits  *prometheus.HistogramVec
}

// Open prepares a queue without connecting to it.
func Open(cfg Config) (*Queue, error) {
	cfg.Name = cmp.Or(cfg.Name, river.QueueDefault)
	cfg.CommitWait = cmp.Or(cfg.CommitWait, DefaultCommitWait)
	cfg.Delay = cmp.Or(cfg.Delay, defaultDelay)
	cfg.StopTimeout = cmp.Or(cfg.StopTimeout, defaultStopTimeout)
	if cfg.URL == "" && cfg.Cluster.Engine() != dbroute.PostgreSQL {
		return nil, fmt.Errorf("jobs: a queue beside %s needs a PostgreSQL of its own", cfg.Cluster.Engine())
	}
	pool, err := openPool(cmp.Or(cfg.URL, cfg.Cluster.Config().Primary))
	if err != nil {
		return nil, fmt.Errorf("jobs: open queue: %w", err)
	}
	q := &Queue{cfg: cfg, pool: pool, runs: &Runs{cfg.Cluster}, waits: newWaits()}
	if err := q.newClients(); err != nil {
		pool.Close()
		return nil, fmt.Errorf("jobs: open queue: %w", err)
	}
	q.outbox = newOutbox(cfg, q.client)
	return q, nil
}

func openPool(url string) (*pgxpool.Pool, error) {
	if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		return nil, errors.New("want a URL that begins with postgres://")
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse URL: %w", err) // pgx leaves the password out
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 2 * time.Second
	}
	return pgxpool.NewWithConfig(context.Background(), cfg)
}

func (q *Queue) newClients() error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &summariser{posts: posts.NewStore(q.cfg.Cluster, nil, nil)})
	if q.cfg.Register != nil {
		q.cfg.Register(workers)
	}
	cfg := river.Config{Logger: q.cfg.Log, Workers: workers}
	if q.cfg.URL == "" {
		insertOnly := cfg
		var err error
		if q.inTx, err = river.NewClient(riverdatabasesql.New(nil), &insertOnly); err != nil {
			return err
		}
	}
	if q.cfg.Workers > 0 {
		cfg.Queues = map[string]river.QueueConfig{q.cfg.Name: {MaxWorkers: q.cfg.Workers}}
	}
	cfg.Middleware = []rivertype.Middleware{&commitWait{queue: q}}
	cfg.JobTimeout, cfg.RescueStuckJobsAfter = jobTimeout, lostAfter+q.cfg.CommitWait
	cfg.SoftStopTimeout = q.cfg.StopTimeout
	cfg.SkipUnknownJobCheck = true // an outbox may hold what a newer version has queued
	var err error
	q.client, err = river.NewClient(riverpgxv5.New(q.pool), &cfg)
	return err
}

// Runs are the latest runs of jobs.
func (q *Queue) Runs() *Runs { return q.runs }

// Close closes the queue's connections. Run must have returned.
func (q *Queue) Close() { q.pool.Close() }

// Enqueue queues a job that is due once the transaction has committed.
func (q *Queue) Enqueue(ctx context.Context, tx *dbroute.Tx, args river.JobArgs) error {
	if q.inTx == nil {
		return q.outbox.add(ctx, tx, args, time.Time{})
	}
	if _, err := q.inTx.InsertTx(ctx, tx.SQL(), args, &river.InsertOpts{Queue: q.cfg.Name}); err != nil {
		return fmt.Errorf("jobs: enqueue %s: %w", args.Kind(), err)
	}
	return nil
}

// EnqueueAfter queues a job that can wait. If the delay is longer than the replicas
// are behind, the job finds one that has reached the commit and waits for none.
//
// For that it has to know the commit, so it takes the way of the outbox in any case.
// The position at pick-up, which is all that a job of InsertTx has, would not do: on
// the primary that is ahead of the replicas by whatever was written last, and be it
// by River, which has just noted the pick-up.
func (q *Queue) EnqueueAfter(ctx context.Context, tx *dbroute.Tx, args river.JobArgs, delay time.Duration) error {
	return q.outbox.add(ctx, tx, args, time.Now().Add(delay))
}

// Run relays the outbox and works jobs until ctx ends, and returns when the jobs
// under way have ended too. Any number of processes may do so side by side.
func (q *Queue) Run(ctx context.Context) error {
	var relay sync.WaitGroup
	relay.Go(func() { q.outbox.relay(ctx) })
	defer relay.Wait()
	if q.cfg.Workers == 0 || !q.start(ctx) {
		<-ctx.Done()
		return nil
	}
	<-ctx.Done()
	select {
	case <-q.client.Stopped():
		return nil
	case <-time.After(q.cfg.StopTimeout + abandonTimeout):
		return errors.New("jobs: a job does not end")
	}
}

// start starts the workers as soon as the queue can be reached. It reports false if
// ctx ended before.
func (q *Queue) start(ctx context.Context) bool {
	for said := false; ; said = true {
		err := q.client.Start(ctx)
		if err == nil {
			return true
		}
		if !said && ctx.Err() == nil {
			q.cfg.Log.WarnContext(ctx, "no jobs are worked until the queue can be reached", "error", err)
		}
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
			return false
		}
	}
}

// migrateLock is a number that nothing else locks.
const migrateLock = 0x72697665725f6d67

// Migrate brings River's tables up to date and returns the names of the migrations
// that this call applied. Several processes may call it at once.
func (q *Queue) Migrate(ctx context.Context) (applied []string, err error) {
	conn, err := q.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("jobs: migrate: %w", err)
	}
	defer conn.Release()
	// River's migrator locks nothing.
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, migrateLock); err != nil {
		return nil, fmt.Errorf("jobs: migrate: lock: %w", err)
	}
	defer func() {
		_, unlockErr := conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, migrateLock)
		err = errors.Join(err, unlockErr)
	}()
	migrator, err := q.migrator()
	if err != nil {
		return nil, err
	}
	result, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	if err != nil {
		return nil, fmt.Errorf("jobs: migrate: %w", err)
	}
	for _, v := range result.Versions {
		applied = append(applied, fmt.Sprintf("river %03d: %s", v.Version, v.Name))
	}
	return applied, nil
}

// Pending reports whether Migrate has something to do. It only reads.
func (q *Queue) Pending(ctx context.Context) (bool, error) {
	migrator, err := q.migrator()
	if err != nil {
		return false, err
	}
	result, err := migrator.Validate(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("jobs: look at River's tables: %w", err)
	}
	return !result.OK, nil
}

func (q *Queue) migrator() (*rivermigrate.Migrator[pgx.Tx], error) {
	m, err := rivermigrate.New(riverpgxv5.New(q.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("jobs: migrations: %w", err)
	}
	return m, nil
}
