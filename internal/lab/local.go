package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/jobs"
	"freshread/internal/site"
	"freshread/internal/stack"
	"freshread/migrations"
)

// LocalConfig says which servers to start.
type LocalConfig struct {
	Engine string
	Delays []time.Duration // one replica each, which applies that late
	Dir    string          // where the servers keep their files; empty: a temporary folder
	Log    *slog.Logger
	Seed   bool // fill the database with people and posts
	// OwnQueue gives the queue a database of its own also where it need not have one.
	OwnQueue bool
	NoQueue  bool // there are no jobs
	// Settings are further settings of the servers; see stack.Options.
	Settings map[string]string
}

// Local is real servers on this machine with the site's database on them.
type Local struct {
	Stack   *stack.Stack
	Cluster *dbroute.Cluster
	Cache   *dbroute.Cluster // of the cache and the limits
	// Queue has one server, the queue's. It is nil, and QueueURL is empty, if the queue
	// is on the primary, or if there is none.
	Queue    *stack.Stack
	QueueURL string

	stopWatching func()
}

const localDatabase = "freshread"

// StartLocal starts servers and returns once every replica has the site's
// database. The delays begin only then, so that nobody has to wait for them.
func StartLocal(ctx context.Context, cfg LocalConfig) (_ *Local, err error) {
	servers, err := stack.Start(ctx, stack.Options{
		Engine: cfg.Engine, Replicas: make([]time.Duration, len(cfg.Delays)), Dir: cfg.Dir, Settings: cfg.Settings,
	})
	if err != nil {
		return nil, err
	}
	l := &Local{Stack: servers, stopWatching: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if err := servers.CreateDatabase(ctx, localDatabase); err != nil {
		return nil, err
	}
	if l.Cluster, err = OpenCluster(servers, localDatabase, cfg.Log); err != nil {
		return nil, err
	}
	if l.Cache, err = cache.OpenCluster(l.Cluster.Config(), cache.DefaultConns); err != nil {
		return nil, err
	}
	if _, err := migrations.Up(ctx, l.Cluster, cfg.Log); err != nil {
		return nil, err
	}
	if !cfg.NoQueue {
		if err := l.makeQueue(ctx, cfg); err != nil {
			return nil, err
		}
	}
	if cfg.Seed {
		if err := site.Seed(ctx, l.Cluster); err != nil {
			return nil, err
		}
	}
	if err := servers.WaitApplied(ctx); err != nil {
		return nil, err
	}
	if err := l.Cluster.Check(ctx); err != nil {
		return nil, err
	}
	if err := l.watch(ctx); err != nil {
		return nil, err
	}
	for i, replica := range servers.Replicas() {
		if err := replica.SetDelay(ctx, cfg.Delays[i]); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *Local) makeQueue(ctx context.Context, cfg LocalConfig) error {
	if cfg.OwnQueue || l.Cluster.Engine() != dbroute.PostgreSQL {
		if err := l.startQueue(ctx, cfg.Dir); err != nil {
			return err
		}
	}
	return l.migrateQueue(ctx, cfg.Log)
}

func (l *Local) startQueue(ctx context.Context, dir string) (err error) {
	if l.Queue, err = stack.Start(ctx, stack.Options{Engine: string(dbroute.PostgreSQL), Dir: dir}); err != nil {
		return fmt.Errorf("start the queue's server: %w", err)
	}
	l.QueueURL = l.Queue.Primary().URL(localDatabase)
	return l.Queue.CreateDatabase(ctx, localDatabase)
}

func (l *Local) migrateQueue(ctx context.Context, log *slog.Logger) error {
	queue, err := jobs.Open(jobs.Config{Cluster: l.Cluster, Log: log, URL: l.QueueURL})
	if err != nil {
		return err
	}
	defer queue.Close()
	_, err = queue.Migrate(ctx)
	return err
}

// watch returns once all replicas are read.
func (l *Local) watch(ctx context.Context) error {
	watchCtx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { l.Cluster.Watch(watchCtx) })
	watching.Go(func() { l.Cache.Watch(watchCtx) })
	watching.Go(func() { cache.CleanUp(watchCtx, l.Cache, l.Cache.Config().Logger) })
	l.stopWatching = func() { cancel(); watching.Wait() }
	for !l.allUp() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for the replicas: %w", ctx.Err())
		}
	}
	return nil
}

func (l *Local) allUp() bool {
	for _, s := range l.Cluster.Status() {
		if s.State != dbroute.Up || s.Position.IsZero() {
			return false
		}
	}
	return true
}

// Close stops the servers and removes their files.
func (l *Local) Close() error {
	l.stopWatching()
	var errs []error
	for _, cluster := range []*dbroute.Cluster{l.Cluster, l.Cache} {
		if cluster != nil {
			errs = append(errs, cluster.Close())
		}
	}
	if l.Queue != nil {
		errs = append(errs, l.Queue.Close())
	}
	return errors.Join(append(errs, l.Stack.Close())...)
}

// localCheckTimeout is generous: these servers may share a core with a build.
const localCheckTimeout = 2 * time.Second

// OpenCluster opens a cluster on a database of a stack.
func OpenCluster(servers *stack.Stack, database string, log *slog.Logger) (*dbroute.Cluster, error) {
	cfg := dbroute.Config{
		Name: "main", Primary: servers.Primary().URL(database),
		CheckTimeout: localCheckTimeout, Logger: log,
	}
	for _, replica := range servers.Replicas() {
		cfg.Replicas = append(cfg.Replicas, replica.URL(database))
	}
	cluster, err := dbroute.Open(cfg)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", database, err)
	}
	return cluster, nil
}
