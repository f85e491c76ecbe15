package stale

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"gorm.io/gorm"

	"freshread/bench/peer"
	"freshread/bench/servers"
	"freshread/internal/dbroute"
)

// client is how one session gets to the servers.
type client interface {
	write(ctx context.Context, id, value int64) error
	read(ctx context.Context, id int64) (seen, error)
}

// strategy is a way to route reads.
type strategy struct {
	name      string
	newClient func() client
}

// commit is the strategy that the targets are of.
const commit = "commit"

// window is as long as that of Rails is unless one sets another.
const window = 2 * time.Second

const writeStatement = `UPDATE counters SET value = ? WHERE id = ?`

// readStatement also tells which server has run it.
var readStatement = dbroute.PerEngine{
	Postgres: `SELECT value, NOT pg_is_in_recovery() FROM counters WHERE id = ?`,
	MySQL:    `SELECT value, NOT @@GLOBAL.read_only FROM counters WHERE id = ?`,
	MariaDB:  `SELECT value, NOT @@GLOBAL.read_only FROM counters WHERE id = ?`,
}

// strategies returns all on the same servers.
func strategies(ctx context.Context, s *servers.Servers) ([]strategy, error) {
	cluster, err := s.Open(ctx, s.Config())
	if err != nil {
		return nil, err
	}
	if err := s.Watch(ctx, cluster); err != nil {
		return nil, err
	}
	primary, replica, err := s.DBs(s.Config())
	if err != nil {
		return nil, err
	}
	resolver, err := peer.Resolver(cluster.Engine(), primary, replica)
	if err != nil {
		return nil, err
	}
	routed := func(name string, decide func(context.Context, *dbroute.Scope, dbroute.Marker)) strategy {
		return strategy{name, func() client { return &routedClient{cluster: cluster, decide: decide} }}
	}
	return []strategy{
		routed("always primary", func(_ context.Context, scope *dbroute.Scope, _ dbroute.Marker) { scope.Pin() }),
		routed("always replica", func(_ context.Context, scope *dbroute.Scope, m dbroute.Marker) { scope.RouteAnywhere(m) }),
		{"gorm dbresolver", func() client { return gormClient{resolver, readStatement.For(cluster.Engine())} }},
		routed("window", func(_ context.Context, scope *dbroute.Scope, m dbroute.Marker) { scope.RouteByWindow(m, window) }),
		routed(commit, func(ctx context.Context, scope *dbroute.Scope, m dbroute.Marker) { scope.RouteByCommit(ctx, m) }),
	}, nil
}

// routedClient is a session of package dbroute: what a browser is with its cookies.
type routedClient struct {
	cluster *dbroute.Cluster
	decide  func(context.Context, *dbroute.Scope, dbroute.Marker)
	marker  dbroute.Marker
}

// request runs fn as a request of its own, and keeps the marker that it leaves.
func (c *routedClient) request(ctx context.Context, fn func(context.Context) error) error {
	ctx, scope := c.cluster.NewScope(ctx)
	c.decide(ctx, scope, c.marker)
	if err := fn(ctx); err != nil {
		return err
	}
	switch o := scope.Outcome(); {
	case o.Changed:
		c.marker = o.Marker
	case o.Settled:
		c.marker = dbroute.Marker{}
	}
	return nil
}

func (c *routedClient) write(ctx context.Context, id, value int64) error {
	return c.request(ctx, func(ctx context.Context) error {
		return c.cluster.Write(ctx, "write", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, writeStatement, value, id)
			return err
		})
	})
}

func (c *routedClient) read(ctx context.Context, id int64) (got seen, err error) {
	err = c.request(ctx, func(ctx context.Context) error {
		return c.cluster.Read(ctx, "read", func(q dbroute.Querier) error {
			return q.QueryRowContext(ctx, readStatement.For(c.cluster.Engine()), id).Scan(&got.value, &got.primary)
		})
	})
	return got, err
}

// gormClient routes by what a statement does, as it is meant to be used.
type gormClient struct {
	db        *gorm.DB
	statement string
}

func (c gormClient) write(ctx context.Context, id, value int64) error {
	return c.db.WithContext(ctx).Exec(writeStatement, value, id).Error
}

func (c gormClient) read(ctx context.Context, id int64) (got seen, err error) {
	err = c.db.WithContext(ctx).Raw(c.statement, id).Row().Scan(&got.value, &got.primary)
	return got, err
}

// oracle looks at the replica itself.
type oracle struct {
	replica   *sql.DB
	statement string
}

func newOracle(engine dbroute.Engine, replica *sql.DB) oracle {
	statement := `SELECT value FROM counters WHERE id = ?`
	if engine == dbroute.PostgreSQL {
		statement = `SELECT value FROM counters WHERE id = $1`
	}
	return oracle{replica, statement}
}

// has reports whether the replica has a write.
func (o oracle) has(ctx context.Context, id, value int64) (bool, error) {
	var there int64
	if err := o.replica.QueryRowContext(ctx, o.statement, id).Scan(&there); err != nil {
		return false, fmt.Errorf("look at the replica: %w", err)
	}
	return there >= value, nil
}
