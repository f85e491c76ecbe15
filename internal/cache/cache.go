package cache

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"freshread/internal/dbroute"
)

// The longest key and value, in bytes.
const (
	MaxKey   = 200
	MaxValue = 64 << 10
)

// ClusterName is the name of the cluster that OpenCluster opens.
const ClusterName = "cache"

// DefaultConns is enough for one process: what runs here takes no time.
const DefaultConns = 5

var (
	// ErrMiss is an entry that is not there, or no longer.
	ErrMiss = errors.New("no such cache entry")
	// ErrInvalid is a key, a value or a lifetime that no entry can have.
	ErrInvalid = errors.New("invalid cache entry")
)

// OpenCluster opens the primary of a cluster once more, with at most conns
// connections for reads and as many for writes, and without replicas: for New and
// NewLimiter. A cache that hangs, or a flood of log-ins, then takes no connection
// from the pages, and a hit in the middle of a transaction none from the pool that
// the transaction is from.
func OpenCluster(main dbroute.Config, conns int) (*dbroute.Cluster, error) {
	main.Name, main.Replicas, main.MaxOpenConns = ClusterName, nil, conns
	return dbroute.Open(main)
}

// Config is what a cache needs.
type Config struct {
	// Cluster is where the entries are; see OpenCluster. An answer that takes
	// longer than its CheckTimeout is not waited for.
	Cluster *dbroute.Cluster
	// Data is where the values come from. Remember reads it, on whichever server
	// the scope in the context reads, when it cannot use the cache.
	Data dbroute.Router
	// Refill is what Remember computes through, under dbroute.UsePrimary. Cluster if
	// nil, so that a value which is slow to compute takes no connection from the
	// pages, and the reads of a page stay on one server.
	Refill dbroute.Router
	// Off makes Remember read Data and nothing else. Forget does what it always
	// does, for the other processes.
	Off bool
	Log *slog.Logger
}

// Cache keeps values in the table cache_entries.
//
// A key says what the entry holds and, after a colon, of which thing: posts.Counts,
// posts.Tally:42. It has up to MaxKey visible ASCII characters; pages show the part
// before the colon. A value has up to MaxValue bytes. Lifetimes are counted by the
// database's clock.
//
// Any number of processes may use the same entries. Inside a transaction, only
// Forget and Remember are of use: the others neither see what it has done nor wait
// for it.
type Cache struct {
	cfg     Config
	sql     statements
	flights singleflight.Group
	turns   atomic.Uint64
	rest    rest
}

// New returns a cache on a migrated database.
func New(cfg Config) (*Cache, error) {
	if n := cfg.Cluster.Replicas(); n > 0 {
		return nil, fmt.Errorf("cache: cluster %s has %d replicas: want one that has none", cfg.Cluster.Name(), n)
	}
	if cfg.Refill == nil {
		cfg.Refill = cfg.Cluster
	}
	return &Cache{cfg: cfg, sql: newStatements(cfg.Cluster.Engine())}, nil
}

// Get returns the value of an entry, or ErrMiss. The value of one that Increment
// has made is its amount in decimal.
func (c *Cache) Get(ctx context.Context, key string) ([]byte, error) {
	found, err := c.GetMany(ctx, key)
	if err != nil {
		return nil, err
	}
	value, ok := found[key]
	if !ok {
		return nil, fmt.Errorf("%s: %w", key, ErrMiss)
	}
	return value, nil
}

// GetMany returns the values of those entries that are there, by key.
func (c *Cache) GetMany(ctx context.Context, keys ...string) (map[string][]byte, error) {
	if err := checkKeys(keys); err != nil || len(keys) == 0 {
		return nil, err
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	var found map[string]entry
	err := c.cfg.Cluster.Read(ctx, accessName(keys), func(q dbroute.Querier) (err error) {
		found, err = c.findEntries(ctx, q, keys)
		return err
	})
	return values(found), err
}

// Put stores a value, whatever is there. What was computed from the database is
// for Remember, which knows whether it still holds.
func (c *Cache) Put(ctx context.Context, key string, value []byte, life time.Duration) error {
	if err := errors.Join(checkValue(value), checkLife(life)); err != nil {
		return err
	}
	return c.locked(ctx, []string{key}, func(ctx context.Context, tx *dbroute.Tx, _ locked) error {
		return c.storeEntry(ctx, tx, key, entry{content: value}, life)
	})
}

// Add stores a value if there is none, and reports whether it did. Of any number
// that do so at once, one does.
func (c *Cache) Add(ctx context.Context, key string, value []byte, life time.Duration) (added bool, err error) {
	if err := errors.Join(checkValue(value), checkLife(life)); err != nil {
		return false, err
	}
	err = c.locked(ctx, []string{key}, func(ctx context.Context, tx *dbroute.Tx, found locked) error {
		if _, there := found.entries[key]; there {
			return nil
		}
		added = true
		return c.storeEntry(ctx, tx, key, entry{content: value}, life)
	})
	return added && err == nil, err
}

// Increment adds to the amount of an entry and returns the sum. An entry that is
// not there, or is no amount, begins with 0 and gets the lifetime; one that is
// there keeps the lifetime that it has.
func (c *Cache) Increment(ctx context.Context, key string, by int64, life time.Duration) (sum int64, err error) {
	if err := checkLife(life); err != nil {
		return 0, err
	}
	err = c.locked(ctx, []string{key}, func(ctx context.Context, tx *dbroute.Tx, found locked) error {
		amount := found.entries[key].amount
		sum = amount.V + by
		if !amount.Valid {
			return c.storeEntry(ctx, tx, key, entry{amount: sql.Null[int64]{V: sum, Valid: true}}, life)
		}
		_, err := tx.ExecContext(ctx, `UPDATE cache_entries SET amount = ? WHERE name = ?`, sum, key)
		return err
	})
	return sum, err
}

// Forget removes entries, in the transaction that changes what they were made of:
// see the package on why there. It must be a transaction of the database that the
// entries are in, and Forget the last that it does.
func Forget(ctx context.Context, tx *dbroute.Tx, keys ...string) error {
	if err := checkKeys(keys); err != nil || len(keys) == 0 {
		return err
	}
	if err := advance(ctx, tx, keys); err != nil {
		return fmt.Errorf("forget cache entries: %w", err)
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(`DELETE FROM cache_entries WHERE name IN (%s)`, dbroute.Placeholders(len(keys))), anys(keys)...); err != nil {
		return fmt.Errorf("forget cache entries: %w", err)
	}
	return nil
}

// locked are entries that nobody else can change up to the end of a transaction.
type locked struct {
	generations generations
	entries     map[string]entry // those that are there
}

// locked runs fn in a transaction in which nobody else can change the entries.
func (c *Cache) locked(ctx context.Context, keys []string, fn func(context.Context, *dbroute.Tx, locked) error) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	return c.cfg.Cluster.Touch(ctx, accessName(keys), func(ctx context.Context, tx *dbroute.Tx) (err error) {
		var l locked
		if l.generations, err = hold(ctx, tx, keys); err != nil {
			return err
		}
		if l.entries, err = c.findEntries(ctx, tx.Querier(), keys); err != nil {
			return err
		}
		return fn(ctx, tx, l)
	})
}

func (c *Cache) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.cfg.Cluster.Config().CheckTimeout)
}
