package cache

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"freshread/internal/dbroute"
)

// entry is a row of cache_entries. It holds content, or an amount, or nothing:
// then its version is what it is there for.
type entry struct {
	key     string
	version int64
	content sql.Null[[]byte]
	amount  sql.Null[int64]
	alive   bool // not expired
}

// value is not ok if the entry holds nothing, or has expired.
func (e entry) value() (value []byte, ok bool) {
	switch {
	case !e.alive:
		return nil, false
	case e.amount.Valid:
		return strconv.AppendInt(nil, e.amount.V, 10), true
	}
	return e.content.V, e.content.Valid
}

func (e entry) holding(value []byte) entry {
	e.content, e.amount = sql.Null[[]byte]{V: append([]byte{}, value...), Valid: true}, sql.Null[int64]{}
	return e
}

func (e entry) counting(amount int64) entry {
	e.content, e.amount = sql.Null[[]byte]{}, sql.Null[int64]{V: amount, Valid: true}
	return e
}

func values(found map[string]entry) map[string][]byte {
	values := make(map[string][]byte, len(found))
	for key, e := range found {
		if value, ok := e.value(); ok {
			values[key] = value
		}
	}
	return values
}

// statements are those on cache_entries, as one engine has them.
type statements struct{ findSQL, lockSQL, storeSQL string }

func newStatements(e dbroute.Engine) statements {
	return statements{
		findSQL: dialect(e, `
			SELECT name, version, content, amount, expires_at > {now}
			  FROM cache_entries
			 WHERE name IN (%s)`),
		// Its update changes nothing: it is there for the lock.
		lockSQL: dialect(e, `
			INSERT INTO cache_entries (name, version, expires_at) VALUES %s
			{or update} version = cache_entries.version`),
		storeSQL: dialect(e, `
			UPDATE cache_entries SET version = ?, content = ?, amount = ?, expires_at = {now} + ?
			 WHERE name = ? AND version = ?`),
	}
}

// find returns the entries whose rows there are, expired ones too.
func (s *statements) find(ctx context.Context, q dbroute.Querier, keys []string) (map[string]entry, error) {
	args := make([]any, len(keys))
	for i, key := range keys {
		args[i] = key
	}
	rows, err := q.QueryContext(ctx, fmt.Sprintf(s.findSQL, times(len(keys), "?")), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := make(map[string]entry, len(keys))
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.key, &e.version, &e.content, &e.amount, &e.alive); err != nil {
			return nil, err
		}
		found[e.key] = e
	}
	return found, rows.Err()
}

// lock locks the entries' rows. It makes those that there are none of, for the
// clean-up to take away again if nobody stores anything.
func (s *statements) lock(ctx context.Context, tx *dbroute.Tx, keys []string) error {
	rows := newRows(keys, "(?, ?, 0)")
	_, err := tx.ExecContext(ctx, fmt.Sprintf(s.lockSQL, rows.text), rows.args...)
	return err
}

// store stores what an entry holds, unless its version is another by now.
func (s *statements) store(ctx context.Context, tx *dbroute.Tx, e entry, life time.Duration) error {
	_, err := tx.ExecContext(ctx, s.storeSQL, newVersion(), e.content, e.amount, life.Microseconds(), e.key, e.version)
	return err
}

// forgottenFor is how long it can be seen that an entry was forgotten. See
// filling.olderThan.
const forgottenFor = time.Minute

// forget makes a row where there is none, since its lock is what Remember waits
// for.
func forget(ctx context.Context, tx *dbroute.Tx, keys []string) error {
	until := fmt.Sprintf("{now} + %d", forgottenFor.Microseconds())
	rows := newRows(keys, "(?, ?, "+until+")")
	_, err := tx.ExecContext(ctx, dialect(tx.Engine(), `
		INSERT INTO cache_entries (name, version, expires_at) VALUES `+rows.text+`
		{or update} version = ?, content = NULL, amount = NULL, expires_at = `+until), append(rows.args, newVersion())...)
	return err
}

// rows are what an INSERT inserts.
type rows struct {
	text string
	args []any
}

// newRows makes a row with a new version for each key. The order of the rows is
// that of the keys, so that of two transactions which lock the same rows none waits
// for a row of the other while that waits for one of its own.
func newRows(keys []string, row string) rows {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	r := rows{text: times(len(keys), row)}
	for _, key := range keys {
		r.args = append(r.args, key, newVersion())
	}
	return r
}

// newVersion is random, since a row that was cleaned up and made again must not
// have a version of its predecessor.
func newVersion() int64 { return rand.Int64() }

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
