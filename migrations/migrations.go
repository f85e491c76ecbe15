// Package migrations holds the schema of each engine and brings a primary up
// to it. Replicas get it from the primary.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed postgres
var files embed.FS

// Up applies what is missing. Several processes may run it at once: a lock in
// the database lets one do the work and the others wait. It returns the names
// of the migrations that this call applied.
func Up(ctx context.Context, primary *sql.DB, log *slog.Logger) ([]string, error) {
	provider, err := provider(primary, log)
	if err != nil {
		return nil, err
	}
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

// Pending reports whether Up has something to do. It only reads.
func Pending(ctx context.Context, primary *sql.DB, log *slog.Logger) (bool, error) {
	provider, err := provider(primary, log)
	if err != nil {
		return false, err
	}
	var tables, version int64
	err = primary.QueryRowContext(ctx, `SELECT count(*) FROM information_schema.tables WHERE table_name = 'goose_db_version'`).Scan(&tables)
	if err == nil && tables > 0 {
		err = primary.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version`).Scan(&version)
	}
	if err != nil {
		return false, fmt.Errorf("migrations: read version: %w", err)
	}
	sources := provider.ListSources()
	return version < sources[len(sources)-1].Version, nil
}

func provider(primary *sql.DB, log *slog.Logger) (*goose.Provider, error) {
	dir, err := fs.Sub(files, "postgres")
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	// Ask for the lock every second for five minutes, as long as a slow
	// migration of another process may take.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, primary, dir,
		goose.WithSessionLocker(locker), goose.WithSlog(log))
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	return p, nil
}
