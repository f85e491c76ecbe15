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
	for _, t := range []table{{"cache_entries", "expires_at"}, {"rate_limits", "free_at"}} {
		for more := true; more; {
			names, err := t.expired(ctx, cluster)
			if err != nil {
				return removed, err
			}
			n, err := t.remove(ctx, cluster, names)
			if err != nil {
				return removed, err
			}
			removed += n
			more = len(names) == cleanUpBatch
		}
	}
	return removed, nil
}

// table is one whose rows have a time at which they may go.
type table struct{ name, column string }

// expired names the rows of one batch. It locks nothing: InnoDB would lock rows
// that nobody wants to remove.
func (t table) expired(ctx context.Context, cluster *dbroute.Cluster) (names []string, err error) {
	statement := dialect(cluster.Engine(), fmt.Sprintf(`SELECT name FROM %s WHERE %s <= {now} LIMIT %d`, t.name, t.column, cleanUpBatch))
	err = cluster.Read(ctx, "cache.Expired", func(q dbroute.Querier) error {
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

// remove removes those that have still expired, one by one and in the order in which
// everybody locks rows: a statement for all of them would lock in its own order, and
// a hit that came between could end as the victim of a deadlock.
func (t table) remove(ctx context.Context, cluster *dbroute.Cluster, names []string) (removed int64, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	statement := dialect(cluster.Engine(), fmt.Sprintf(`DELETE FROM %s WHERE name = ? AND %s <= {now}`, t.name, t.column))
	err = cluster.Touch(ctx, "cache.CleanUp", func(ctx context.Context, tx *dbroute.Tx) error {
		removed = 0
		for _, name := range slices.Sorted(slices.Values(names)) {
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
