// Package migrations holds the schema of each engine and brings a primary up
// to it. Replicas get it from the primary.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"freshread/internal/dbroute"
)

//go:embed postgres mysql
var files embed.FS

// lockSeconds is how long a process waits for another that migrates: as long as
// a slow migration may take.
const lockSeconds = 300

// Up applies what is missing. Several processes may run it at once: a lock in
// the database lets one do the work and the others wait. It returns the names
// of the migrations that this call applied.
func Up(ctx context.Context, cluster *dbroute.Cluster, log *slog.Logger) ([]string, error) {
	provider, locker, err := newProvider(cluster, log)
	if err != nil {
		return nil, err
	}
	unlock, err := acquire(ctx, cluster.PrimaryDB(), locker)
	if err != nil {
		return nil, fmt.Errorf("migrate: lock: %w", err)
	}
	defer unlock()
	results, err := provider.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	var applied []string
	for _, r := range results {
		applied = append(applied, r.Source.Path)
	}
	return applied, nil
}

// acquire takes the lock around all that goose does. Goose would look at its table
// before it takes a lock, and on MySQL, which commits each change of a schema at
// once, find the table of another process half made.
func acquire(ctx context.Context, db *sql.DB, locker lock.SessionLocker) (unlock func(), err error) {
	size := db.Stats().MaxOpenConnections
	if size == 1 {
		db.SetMaxOpenConns(2) // one holds the lock
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if err := locker.SessionLock(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() {
		locker.SessionUnlock(context.WithoutCancel(ctx), conn) // if it fails, the connection is gone, and the lock with it
		conn.Close()
		db.SetMaxOpenConns(size)
	}, nil
}

// Pending reports whether Up has something to do. It only reads.
func Pending(ctx context.Context, cluster *dbroute.Cluster, log *slog.Logger) (bool, error) {
	provider, _, err := newProvider(cluster, log)
	if err != nil {
		return false, err
	}
	schema := "database()"
	if cluster.Engine() == dbroute.PostgreSQL {
		schema = "current_schema()"
	}
	var tables, version int64
	db := cluster.PrimaryDB()
	err = db.QueryRowContext(ctx, `
		SELECT count(*) FROM information_schema.tables
		 WHERE table_schema = `+schema+` AND table_name = 'goose_db_version'`).Scan(&tables)
	if err == nil && tables > 0 {
		err = db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version`).Scan(&version)
	}
	if err != nil {
		return false, fmt.Errorf("migrations: read version: %w", err)
	}
	sources := provider.ListSources()
	return version < sources[len(sources)-1].Version, nil
}

func newProvider(cluster *dbroute.Cluster, log *slog.Logger) (*goose.Provider, lock.SessionLocker, error) {
	dialect, locker, err := dialectOf(cluster.Engine())
	if err != nil {
		return nil, nil, fmt.Errorf("migrations: %w", err)
	}
	dir, err := fs.Sub(files, string(dialect))
	if err != nil {
		return nil, nil, fmt.Errorf("migrations: %w", err)
	}
	p, err := goose.NewProvider(dialect, cluster.PrimaryDB(), dir, goose.WithSlog(log))
	if err != nil {
		return nil, nil, fmt.Errorf("migrations: %w", err)
	}
	return p, locker, nil
}

// dialectOf returns what is also the name of the folder.
func dialectOf(engine dbroute.Engine) (goose.Dialect, lock.SessionLocker, error) {
	if engine != dbroute.PostgreSQL {
		return goose.DialectMySQL, namedLock{}, nil
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, lockSeconds))
	return goose.DialectPostgres, locker, err
}

// namedLock is a lock of MySQL and MariaDB, which goose has none for. Its names
// are the server's, so it has the database's in it.
type namedLock struct{}

const lockName = `left(concat('migrations of ', database()), 64)`

func (namedLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	var got sql.NullBool
	err := conn.QueryRowContext(ctx, `SELECT get_lock(`+lockName+`, ?)`, lockSeconds).Scan(&got)
	if err == nil && !got.Bool {
		err = errors.New("another process has held the lock for too long")
	}
	return err
}

func (namedLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `DO release_lock(`+lockName+`)`)
	return err
}
