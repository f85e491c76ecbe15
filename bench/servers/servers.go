// Package servers starts the real servers that are measured, and opens them: by package
// dbroute, and by database/sql alone.
package servers

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"freshread/bench/measure"
	"freshread/internal/dbroute"
	"freshread/internal/stack"
)

// Engines are all that is measured.
func Engines() []string { return []string{"postgres", "mysql", "mariadb"} }

const database = "bench"

// Servers is a primary and its replicas with one empty database.
type Servers struct {
	*stack.Stack
	Engine string

	mu    sync.Mutex
	close []func() error // what was opened, in order
}

// Start starts servers whose replicas apply at once.
func Start(ctx context.Context, o measure.Options, engine string, replicas int, settings map[string]string) (*Servers, error) {
	o.Log.Info("starting", "engine", engine, "replicas", replicas)
	started, err := stack.Start(ctx, stack.Options{
		Engine: engine, Replicas: make([]time.Duration, replicas), Settings: settings, Dir: o.Dir,
	})
	if err != nil {
		return nil, err
	}
	s := &Servers{Stack: started, Engine: engine}
	if err = started.CreateDatabase(ctx, database); err == nil {
		err = started.WaitApplied(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes what was opened, and ends the servers.
func (s *Servers) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for i := len(s.close) - 1; i >= 0; i-- {
		errs = append(errs, s.close[i]())
	}
	s.close = nil
	return errors.Join(append(errs, s.Stack.Close())...)
}

// OnClose lets Close call f, before what was opened earlier is closed.
func (s *Servers) OnClose(f func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close = append(s.close, f)
}

// Name is the product and its version.
func (s *Servers) Name() string {
	name := map[string]string{"postgres": "PostgreSQL", "mysql": "MySQL", "mariadb": "MariaDB"}[s.Engine]
	return name + " " + s.Primary().Version()
}

// Config is for a cluster on these servers.
func (s *Servers) Config() dbroute.Config {
	cfg := dbroute.Config{
		Name: "main", Primary: s.Primary().URL(database), Logger: slog.New(slog.DiscardHandler),
		CheckTimeout: 2 * time.Second, // a busy machine is no reason to read the primary
	}
	for _, r := range s.Replicas() {
		cfg.Replicas = append(cfg.Replicas, r.URL(database))
	}
	return cfg
}

// Open opens a cluster, which is closed with the servers.
func (s *Servers) Open(ctx context.Context, cfg dbroute.Config) (*dbroute.Cluster, error) {
	cluster, err := dbroute.Open(cfg)
	if err != nil {
		return nil, err
	}
	s.OnClose(cluster.Close)
	if err := cluster.Check(ctx); err != nil {
		return nil, err
	}
	return cluster, nil
}

// Watch watches the servers of a cluster until they are closed, and returns once all
// replicas are read.
func (s *Servers) Watch(ctx context.Context, cluster *dbroute.Cluster) error {
	watchCtx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { cluster.Watch(watchCtx) })
	s.OnClose(func() error { stop(); watching.Wait(); return nil })
	for !allUp(cluster) {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for the replicas: %w", ctx.Err())
		}
	}
	return nil
}

func allUp(cluster *dbroute.Cluster) bool {
	for _, s := range cluster.Status() {
		if s.State != dbroute.Up || s.Position.IsZero() {
			return false
		}
	}
	return true
}

// DBs opens the primary and a replica of a cluster by database/sql alone, with the drivers
// as package dbroute sets them up, and pools of the same size.
func (s *Servers) DBs(cfg dbroute.Config) (primary, replica *sql.DB, err error) {
	connectors := map[dbroute.Role]driver.Connector{}
	cfg.WrapConnector = func(role dbroute.Role, _ string, inner driver.Connector) driver.Connector {
		connectors[role] = inner // the last of the primary's is the one that writes
		return inner
	}
	cluster, err := dbroute.Open(cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := cluster.Close(); err != nil {
		return nil, nil, err
	}
	size := cluster.Config().MaxOpenConns
	return s.pool(connectors[dbroute.Primary], size), s.pool(connectors[dbroute.Replica], size), nil
}

func (s *Servers) pool(c driver.Connector, size int) *sql.DB {
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	s.OnClose(db.Close)
	return db
}

// Exec runs statements on the primary and returns once the replicas have applied them.
func (s *Servers) Exec(ctx context.Context, statements ...string) error {
	primary, _, err := s.DBs(s.Config())
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := primary.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return s.WaitApplied(ctx)
}
