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

// maxFill bounds how long values may take to compute. It is shorter than
// forgottenFor.
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
		// Nobody else may see what it has written, and it may hold the very row that
		// would have to be locked.
		return nil, errInTransaction
	case c.rest.isOn():
		return nil, errRests
	}
	found, err := c.find(ctx, keys)
	if err != nil {
		if ctx.Err() == nil {
			c.rest.begin()
		}
		return nil, err
	}
	remembered := values(found)
	missing := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { _, ok := remembered[key]; return ok })
	if len(missing) == 0 {
		return remembered, nil
	}
	filled, err := c.fillOnce(ctx, missing, life, compute)
	if err == nil && filled.olderThan(found) {
		filled, err = c.fillOnce(ctx, missing, life, compute)
	}
	maps.Copy(remembered, filled.values)
	return remembered, err
}

// filling is what a fill has found or computed, as of which versions.
type filling struct {
	values   map[string][]byte
	versions map[string]int64
}

// olderThan reports whether an entry was forgotten after the fill took its version
// and before it was found missing: perhaps by the very client that waits for it
// now, who must not get a value from before. A row that is not there was not
// forgotten for as long as a fill takes, so it does not count.
func (f filling) olderThan(found map[string]entry) bool {
	for key, version := range f.versions {
		if e, ok := found[key]; ok && e.version != version {
			return true
		}
	}
	return false
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

// fill takes the versions of the entries, computes their values, and stores them if
// the versions are the same by then.
func (c *Cache) fill(ctx context.Context, missing []string, life time.Duration, compute computeFunc) (filling, error) {
	var found map[string]entry
	err := c.locked(ctx, missing, func(_ context.Context, _ *dbroute.Tx, rows map[string]entry) error {
		found = rows
		return nil
	})
	if err != nil {
		return filling{}, err
	}
	filled := filling{values: values(found), versions: map[string]int64{}}
	for key, e := range found {
		filled.versions[key] = e.version
	}
	missing = slices.DeleteFunc(slices.Clone(missing), func(key string) bool { _, ok := filled.values[key]; return ok })
	if len(missing) == 0 {
		return filled, nil // another process was faster
	}
	var computed map[string][]byte
	err = c.cfg.Refill.Read(dbroute.UsePrimary(ctx), kind(missing[0]), func(q dbroute.Querier) (err error) {
		computed, err = compute(ctx, q, missing)
		return err
	})
	if err != nil {
		return filling{}, err
	}
	maps.Copy(filled.values, computed)
	if err := c.storeComputed(ctx, found, computed, life); err != nil {
		c.cfg.Log.WarnContext(ctx, "computed values not stored", "entries", kind(missing[0]), "error", err)
	}
	return filled, nil
}

func (c *Cache) storeComputed(ctx context.Context, found map[string]entry, computed map[string][]byte, life time.Duration) error {
	keys := slices.Sorted(maps.Keys(computed)) // in the order of lock
	if len(keys) == 0 {
		return nil
	}
	for _, key := range keys {
		if err := checkValue(computed[key]); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	return c.cfg.Cluster.Touch(ctx, accessName(keys), func(ctx context.Context, tx *dbroute.Tx) error {
		for _, key := range keys {
			if err := c.sql.store(ctx, tx, found[key].holding(computed[key]), life); err != nil {
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
