package routing

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"freshread/bench/memory"
	"freshread/bench/peer"
	"freshread/bench/trial"
	"freshread/internal/dbroute"
)

// The places of some variants in their list.
const (
	inScope    = 1
	withMarker = 3
	firstPeer  = 4
)

// post is what is read.
type post struct {
	ID    int64
	Title string
}

// statement is what all read with; gorm's own form of a read makes the same of it, with
// a limit.
const statement = `SELECT id, title FROM posts WHERE id = ?`

// variants returns database/sql first, which the others are compared to. All read through
// one pool, that of the cluster's replica.
func variants(ctx context.Context) ([]trial.Variant, error) {
	cluster, err := memory.Open(dbroute.PostgreSQL, 1, "")
	if err != nil {
		return nil, err
	}
	if err := cluster.Settle(ctx); err != nil {
		return nil, err
	}
	reached, err := cluster.ParseCommitID("postgres:1:1/0")
	if err != nil {
		return nil, err
	}
	pool := cluster.ReplicaPool()
	alone, err := peer.Gorm(dbroute.PostgreSQL, pool)
	if err != nil {
		return nil, err
	}
	resolver, err := peer.Resolver(dbroute.PostgreSQL, cluster.PrimaryDB(), pool)
	if err != nil {
		return nil, err
	}
	return []trial.Variant{
		{Name: "`database/sql`", Run: each(bare(pool))},
		{Name: "`dbroute`, in a scope", Run: readInOneScope(cluster.Cluster)},
		{Name: "`dbroute`, a whole request", Run: each(readInNewScope(cluster.Cluster, dbroute.Marker{}))},
		{Name: "`dbroute`, a whole request with a marker", Run: each(readInNewScope(cluster.Cluster, dbroute.Marker{Commit: reached, Written: time.Now()}))},
		{Name: "gorm, same statement", Run: each(gormRaw(alone))},
		{Name: "gorm `dbresolver`, same statement", Run: each(gormRaw(resolver))},
		{Name: "gorm `dbresolver`, `Take`", Run: each(gormTake(resolver))},
	}, nil
}

// reading reads the post once.
type reading func(context.Context) (post, error)

func each(read reading) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		for range n {
			if p, err := read(ctx); err != nil || p.ID != 1 || p.Title == "" {
				return fmt.Errorf("read %+v: %w", p, err)
			}
		}
		return nil
	}
}

func bare(db *sql.DB) reading {
	return func(ctx context.Context) (p post, err error) {
		err = db.QueryRowContext(ctx, `SELECT id, title FROM posts WHERE id = $1`, 1).Scan(&p.ID, &p.Title)
		return p, err
	}
}

func routed(cluster *dbroute.Cluster) reading {
	return func(ctx context.Context) (p post, err error) {
		err = cluster.Read(ctx, "posts.ByID", func(q dbroute.Querier) error {
			return q.QueryRowContext(ctx, statement, 1).Scan(&p.ID, &p.Title)
		})
		return p, err
	}
}

// readInOneScope is a read as the others of its request are: the scope is there.
func readInOneScope(cluster *dbroute.Cluster) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		ctx, scope := cluster.NewScope(ctx)
		scope.RouteByCommit(ctx, dbroute.Marker{})
		return each(routed(cluster))(ctx, n)
	}
}

// readInNewScope is all of a request with one read.
func readInNewScope(cluster *dbroute.Cluster, m dbroute.Marker) reading {
	read := routed(cluster)
	return func(ctx context.Context) (post, error) {
		ctx, scope := cluster.NewScope(ctx)
		scope.RouteByCommit(ctx, m)
		p, err := read(ctx)
		scope.Outcome()
		return p, err
	}
}

func gormRaw(db *gorm.DB) reading {
	return func(ctx context.Context) (p post, err error) {
		err = db.WithContext(ctx).Raw(statement, 1).Row().Scan(&p.ID, &p.Title)
		return p, err
	}
}

func gormTake(db *gorm.DB) reading {
	return func(ctx context.Context) (p post, err error) {
		err = db.WithContext(ctx).Take(&p, 1).Error
		return p, err
	}
}

func microseconds(d time.Duration) string { return fmt.Sprintf("%.2f µs", float64(d)/1e3) }

// plain is a name without the marks of code.
func plain(name string) string { return strings.ReplaceAll(name, "`", "") }
