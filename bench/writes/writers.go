package writes

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"freshread/bench/servers"
	"freshread/bench/trial"
	"freshread/bench/wire"
	"freshread/internal/dbroute"
)

// together is how many write at once where it is not one alone.
const together = 8

// writers write to rows of their own, in every way that is compared.
type writers struct {
	servers *servers.Servers
	cluster *dbroute.Cluster
	bare    *sql.DB
	waiting *sql.DB // its commits wait until the replica has applied them; PostgreSQL only
}

// prepare makes a row for each writer.
func prepare(ctx context.Context, s *servers.Servers) error {
	rows := make([]string, together)
	for id := range rows {
		rows[id] = fmt.Sprintf("(%d, 0)", id)
	}
	return s.Exec(ctx, `CREATE TABLE counters (id bigint PRIMARY KEY, value bigint NOT NULL)`,
		`INSERT INTO counters VALUES `+strings.Join(rows, ", "))
}

func newWriters(ctx context.Context, s *servers.Servers, cfg dbroute.Config) (w *writers, err error) {
	w = &writers{servers: s}
	if w.cluster, err = s.Open(ctx, cfg); err != nil {
		return nil, err
	}
	if w.bare, _, err = s.DBs(cfg); err != nil {
		return nil, err
	}
	if w.cluster.Engine() != dbroute.PostgreSQL {
		return w, nil
	}
	if cfg.Primary, err = with(cfg.Primary, "synchronous_commit", "remote_apply"); err != nil {
		return nil, err
	}
	w.waiting, _, err = s.DBs(cfg)
	return w, err
}

// with adds an option to a URL.
func with(rawURL, option, value string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", err
	}
	options := u.Query()
	options.Set(option, value)
	u.RawQuery = options.Encode()
	return u.String(), nil
}

// writing writes to a row once.
type writing func(ctx context.Context, id int) error

func (w *writers) bareWrite(db *sql.DB) writing {
	statement := `UPDATE counters SET value = value + 1 WHERE id = ?`
	if w.cluster.Engine() == dbroute.PostgreSQL {
		statement = `UPDATE counters SET value = value + 1 WHERE id = $1`
	}
	return func(ctx context.Context, id int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, statement, id); err != nil {
			return err
		}
		return tx.Commit()
	}
}

func (w *writers) captured(ctx context.Context, id int) error {
	ctx, scope := w.cluster.NewScope(ctx)
	err := w.cluster.Write(ctx, "write", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE id = ?`, id)
		return err
	})
	if err == nil && scope.Outcome().Marker.Commit.IsZero() {
		err = fmt.Errorf("no commit ID was captured")
	}
	return err
}

// variants returns the bare commit first.
func (w *writers) variants(clients int) []trial.Variant {
	list := []trial.Variant{
		{Name: "bare commit", Run: by(clients, w.bareWrite(w.bare))},
		{Name: "with its commit ID", Run: by(clients, w.captured)},
	}
	if w.waiting != nil {
		list = append(list, trial.Variant{Name: "synchronous (`remote_apply`)", Run: by(clients, w.bareWrite(w.waiting))})
	}
	return list
}

// by lets clients write n times in all.
func by(clients int, write writing) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		group, ctx := errgroup.WithContext(ctx)
		for id := range clients {
			group.Go(func() error {
				for range (n + id) / clients {
					if err := write(ctx, id); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return group.Wait()
	}
}

// roundTrips counts those of one write, through proxies, which what is timed does without.
func roundTrips(ctx context.Context, s *servers.Servers) (bare, captured float64, err error) {
	cfg, proxies, err := wire.Through(s.Config())
	s.OnClose(proxies.Close)
	if err != nil {
		return 0, 0, err
	}
	w, err := newWriters(ctx, s, cfg)
	if err != nil {
		return 0, 0, err
	}
	count := func(write writing) (float64, error) {
		const writes = 20
		if err := by(1, write)(ctx, 3); err != nil { // to connect and prepare
			return 0, err
		}
		before := proxies.RoundTrips()
		err := by(1, write)(ctx, writes)
		return float64(proxies.RoundTrips()-before) / writes, err
	}
	if bare, err = count(w.bareWrite(w.bare)); err == nil {
		captured, err = count(w.captured)
	}
	return bare, captured, err
}

// waitForLate returns how long one synchronous commit takes, on average, while the replica
// is late.
func (w *writers) waitForLate(ctx context.Context, n int) (time.Duration, error) {
	if err := w.servers.Replicas()[0].SetDelay(ctx, late); err != nil {
		return 0, err
	}
	start := time.Now()
	err := by(1, w.bareWrite(w.waiting))(ctx, n)
	return time.Since(start) / time.Duration(n), err
}
