package cache

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"freshread/internal/dbroute"
)

// entry is what a row of cache_entries holds: an amount, or else content.
type entry struct {
	content []byte
	amount  sql.Null[int64]
}

func (e entry) value() []byte {
	if e.amount.Valid {
		return strconv.AppendInt(nil, e.amount.V, 10)
	}
	return e.content
}

// statements are those on cache_entries, as one engine has them.
type statements struct{ find, store string }

func newStatements(e dbroute.Engine) statements {
	return statements{
		find: dialect(e, `SELECT name, content, amount FROM cache_entries WHERE expires_at > {now} AND name IN (%s)`),
		store: dialect(e, `
			INSERT INTO cache_entries (name, content, amount, expires_at) VALUES (?, ?, ?, {now} + ?)
			{or update} content = ?, amount = ?, expires_at = {now} + ?`),
	}
}

// findEntries returns those that are there.
func (c *Cache) findEntries(ctx context.Context, q dbroute.Querier, keys []string) (map[string]entry, error) {
	rows, err := q.QueryContext(ctx, fmt.Sprintf(c.sql.find, dbroute.Placeholders(len(keys))), anys(keys)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := make(map[string]entry, len(keys))
	for rows.Next() {
		var key string
		var e entry
		if err := rows.Scan(&key, &e.content, &e.amount); err != nil {
			return nil, err
		}
		found[key] = e
	}
	return found, rows.Err()
}

// storeEntry stores an entry whose slot is held.
func (c *Cache) storeEntry(ctx context.Context, tx *dbroute.Tx, key string, e entry, life time.Duration) error {
	micros := life.Microseconds()
	_, err := tx.ExecContext(ctx, c.sql.store, key, e.content, e.amount, micros, e.content, e.amount, micros)
	return err
}

func values(found map[string]entry) map[string][]byte {
	values := make(map[string][]byte, len(found))
	for key, e := range found {
		values[key] = e.value()
	}
	return values
}

var keyForm = regexp.MustCompile(fmt.Sprintf(`^[!-~]{1,%d}$`, MaxKey))

func checkKeys(keys []string) error {
	for _, key := range keys {
		if !keyForm.MatchString(key) {
			return fmt.Errorf("%w: key %.*q: want 1 to %d visible ASCII characters", ErrInvalid, MaxKey, key, MaxKey)
		}
	}
	return nil
}

func checkValue(value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("%w: value of %d bytes: want at most %d", ErrInvalid, len(value), MaxValue)
	}
	return nil
}

func checkLife(life time.Duration) error {
	if life < time.Microsecond {
		return fmt.Errorf("%w: lifetime %v: want at least a microsecond", ErrInvalid, life)
	}
	return nil
}

// kind is what the entry holds, without of which thing.
func kind(key string) string {
	kind, _, _ := strings.Cut(key, ":")
	return kind
}

// accessName is what pages show for an access to entries, which are of one kind.
func accessName(keys []string) string { return "cache." + kind(keys[0]) }
