package cache

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"freshread/internal/dbroute"
)

const (
	cleanUpEvery = time.Minute
	cleanUpBatch = 100 // rows in a transaction
)

// CleanUp removes expired entries, and limits that have all their hits back, until
// ctx ends. It may run in every process.
func CleanUp(ctx context.Context, cluster *dbroute.Cluster, log *slog.Logger) {
	ticker := time.NewTicker(cleanUpEvery)
	defer ticker.Stop()
	for {
		if _, err := cleanUp(ctx, cluster); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "cache not cleaned up", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// cleanUp removes what has expired by now.
func cleanUp(ctx context.Context, cluster *dbroute.Cluster) (removed int64, err error) {
	for _, t := range []expiring{
		{cluster, "cache_entries", "expires_at", true}, {cluster, "rate_limits", "free_at", false},
	} {
		for more := true; more; {
			names, err := t.find(ctx)
			if err != nil {
				return removed, err
			}
			n, err := t.remove(ctx, names)
			if err != nil {
				return removed, err
			}
			removed += n
			more = len(names) == cleanUpBatch
		}
	}
	return removed, nil
}

// expiring is a table whose rows have a time from which they may go.
type expiring struct {
	cluster     *dbroute.Cluster
	name, until string
	slots       bool // its rows belong to slots
}

// find names the rows of one batch. It locks nothing, since InnoDB might lock rows
// that are not to go.
func (t expiring) find(ctx context.Context) (names []string, err error) {
	statement := dialect(t.cluster.Engine(), fmt.Sprintf(`SELECT name FROM %s WHERE %s <= {now} LIMIT %d`, t.name, t.until, cleanUpBatch))
	err = t.cluster.Read(ctx, "cache.Expired", func(q dbroute.Querier) error {
		names = nil
		rows, err := q.QueryContext(ctx, statement)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names = append(names, name)
		}
		return rows.Err()
	})
	return names, err
}

// remove removes those that have still expired. It takes one row after the other, in
// the same order as whoever else cleans up: one statement for all of them would lock
// them in an order of its own.
func (t expiring) remove(ctx context.Context, names []string) (removed int64, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	slices.Sort(names)
	statement := dialect(t.cluster.Engine(), fmt.Sprintf(`DELETE FROM %s WHERE name = ? AND %s <= {now}`, t.name, t.until))
	err = t.cluster.Touch(ctx, "cache.CleanUp", func(ctx context.Context, tx *dbroute.Tx) error {
		removed = 0
		if t.slots {
			if _, err := hold(ctx, tx, names); err != nil {
				return err
			}
		}
		for _, name := range names {
			result, err := tx.ExecContext(ctx, statement, name)
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			removed += n
		}
		return nil
	})
	return removed, err
}
