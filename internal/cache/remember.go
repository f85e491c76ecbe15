package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"freshread/internal/dbroute"
)

// maxFill bounds how long values may take to compute.
const maxFill = 10 * time.Second

var (
	errOff           = errors.New("the cache is off")
	errInTransaction = errors.New("the context is in a transaction")
	errRests         = errors.New("the cache has just failed")
)

// Remember returns the value of an entry, as JSON brought it back. If there is none
// it computes one on the primary and stores it: see the package on why no refill can
// leave an old value behind. Whoever finds it missing while this process computes it
// waits for that.
//
// compute reads with the Querier. It may run twice, and its context outlives the
// caller's. Where the cache cannot be used, since the primary is away or slow or ctx
// is in a transaction, compute reads Config.Data and nothing is stored: the value
// is then as fresh as whatever else is read with ctx.
//
// A T that a new version of the program changes needs a new key.
func Remember[T any](ctx context.Context, c *Cache, key string, life time.Duration, compute func(context.Context, dbroute.Querier) (T, error)) (T, error) {
	found, err := RememberMany(ctx, c, []string{key}, life, func(ctx context.Context, q dbroute.Querier, _ []string) (map[string]T, error) {
		value, err := compute(ctx, q)
		return map[string]T{key: value}, err
	})
	return found[key], err
}

// RememberMany is Remember for several entries of one kind: one look-up for all, and
// one call of compute for those that are missing. A key that compute leaves out is
// not in the result.
func RememberMany[T any](ctx context.Context, c *Cache, keys []string, life time.Duration, compute func(ctx context.Context, q dbroute.Querier, missing []string) (map[string]T, error)) (map[string]T, error) {
	if err := errors.Join(checkKeys(keys), checkLife(life)); err != nil || len(keys) == 0 {
		return nil, err
	}
	values, err := c.remember(ctx, keys, life, func(ctx context.Context, q dbroute.Querier, missing []string) (map[string][]byte, error) {
		computed, err := compute(ctx, q, missing)
		if err != nil {
			return nil, err
		}
		return encode(computed)
	})
	var found map[string]T
	if err == nil {
		if found, err = decode[T](values); err == nil {
			return found, nil
		}
	}
	if !errors.Is(err, errOff) && !errors.Is(err, errInTransaction) && !errors.Is(err, errRests) {
		c.cfg.Log.WarnContext(ctx, "cache passed by", "entries", kind(keys[0]), "cause", err)
	}
	err = c.cfg.Data.Read(ctx, kind(keys[0]), func(q dbroute.Querier) error {
		found, err = compute(ctx, q, keys)
		return err
	})
	return found, err
}

func encode[T any](values map[string]T) (map[string][]byte, error) {
	encoded := make(map[string][]byte, len(values))
	for key, value := range values {
		var err error
		if encoded[key], err = json.Marshal(value); err != nil {
			return nil, fmt.Errorf("encode cache entry %s: %w", key, err)
		}
	}
	return encoded, nil
}

func decode[T any](encoded map[string][]byte) (map[string]T, error) {
	values := make(map[string]T, len(encoded))
	for key, text := range encoded {
		var value T
		if err := json.Unmarshal(text, &value); err != nil {
			return nil, fmt.Errorf("decode cache entry %s: %w", key, err)
		}
		values[key] = value
	}
	return values, nil
}

type computeFunc func(ctx context.Context, q dbroute.Querier, missing []string) (map[string][]byte, error)

// remember fails where the cache cannot be used.
func (c *Cache) remember(ctx context.Context, keys []string, life time.Duration, compute computeFunc) (map[string][]byte, error) {
	switch {
	case c.cfg.Off:
		return nil, errOff
	case dbroute.InTx(ctx):
		// Nobody else may see what it has written, and it may hold the very slot that
		// would have to be held.
		return nil, errInTransaction
	case c.rest.isOn():
		return nil, errRests
	}
	arrived := c.turns.Add(1)
	found, err := c.GetMany(ctx, keys...)
	if err != nil {
		if ctx.Err() == nil {
			c.rest.begin()
		}
		return nil, err
	}
	missing := without(keys, found)
	if len(missing) == 0 {
		return found, nil
	}
	filled, err := c.fillOnce(ctx, missing, life, compute)
	if err == nil && filled.turn < arrived {
		// It had begun already. Whoever has since committed a change and now asks, must
		// not get a value from before.
		filled, err = c.fillOnce(ctx, missing, life, compute)
	}
	maps.Copy(found, filled.values)
	return found, err
}

func without(keys []string, found map[string][]byte) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { _, ok := found[key]; return ok })
}

// filling is what a fill has found or computed, and the turn at which it began.
type filling struct {
	values map[string][]byte
	turn   uint64
}

// fillOnce runs fill, or waits for one of the same keys that is under way. That
// goes on without whoever has begun it.
func (c *Cache) fillOnce(ctx context.Context, missing []string, life time.Duration, compute computeFunc) (filling, error) {
	flight := c.flights.DoChan(strings.Join(missing, " "), func() (_ any, err error) {
		defer func() {
			if p := recover(); p != nil { // singleflight would end the program
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxFill)
		defer cancel()
		return c.fill(ctx, missing, life, compute)
	})
	select {
	case result := <-flight:
		filled, _ := result.Val.(filling)
		return filled, result.Err
	case <-ctx.Done():
		return filling{}, context.Cause(ctx)
	}
}

// fill takes the generations, computes what is missing, and stores it if nothing was
// forgotten meanwhile.
func (c *Cache) fill(ctx context.Context, missing []string, life time.Duration, compute computeFunc) (filling, error) {
	filled := filling{turn: c.turns.Add(1)}
	var before generations
	err := c.locked(ctx, missing, func(_ context.Context, _ *dbroute.Tx, l locked) error {
		before, filled.values = l.generations, values(l.entries)
		return nil
	})
	if err != nil {
		return filling{}, err
	}
	if missing = without(missing, filled.values); len(missing) == 0 {
		return filled, nil // somebody was faster
	}
	var computed map[string][]byte
	err = c.cfg.Refill.Read(dbroute.UsePrimary(ctx), kind(missing[0]), func(q dbroute.Querier) (err error) {
		computed, err = compute(ctx, q, missing)
		return err
	})
	if err != nil {
		return filling{}, err
	}
	if err := c.storeComputed(ctx, computed, before, life); err != nil {
		c.cfg.Log.WarnContext(ctx, "computed values not stored", "entries", kind(missing[0]), "error", err)
	}
	maps.Copy(filled.values, computed)
	return filled, nil
}

func (c *Cache) storeComputed(ctx context.Context, computed map[string][]byte, before generations, life time.Duration) error {
	if len(computed) == 0 {
		return nil
	}
	keys := slices.Collect(maps.Keys(computed))
	return c.locked(ctx, keys, func(ctx context.Context, tx *dbroute.Tx, l locked) error {
		for _, key := range keys {
			if err := checkValue(computed[key]); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			_, there := l.entries[key]
			if there || l.generations.of(key) != before.of(key) {
				continue
			}
			if err := c.storeEntry(ctx, tx, key, entry{content: computed[key]}, life); err != nil {
				return err
			}
		}
		return nil
	})
}

// rest leaves a cache that has failed alone for a moment, so that pages do not all
// wait for it.
type rest struct{ until atomic.Pointer[time.Time] }

const restFor = time.Second

func (r *rest) begin() {
	until := time.Now().Add(restFor)
	r.until.Store(&until)
}

func (r *rest) isOn() bool {
	until := r.until.Load()
	return until != nil && time.Now().Before(*until)
}
