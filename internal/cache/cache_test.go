package cache_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// holds expects an entry to have a value, "" for none.
func (p *process) holds(key, value string) {
	p.t.Helper()
	got, err := p.cache.Get(stacktest.Context(p.t), key)
	if value == "" && errors.Is(err, cache.ErrMiss) {
		return
	}
	if err != nil || string(got) != value {
		p.t.Errorf("%s holds %q, %v, want %q", key, got, err, value)
	}
}

func TestEntries(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		p, other := d.process(), d.process()
		ctx := stacktest.Context(t)

		p.holds("a", "")
		stacktest.Must(t, p.cache.Put(ctx, "a", []byte("1\x00\xff"), time.Hour))
		other.holds("a", "1\x00\xff")
		stacktest.Must(t, other.cache.Put(ctx, "a", nil, time.Hour))
		value, err := p.cache.Get(ctx, "a")
		if err != nil || len(value) != 0 {
			t.Errorf("an empty value is %q, %v", value, err)
		}

		for i, want := range []bool{true, false} {
			added, err := p.cache.Add(ctx, "b", []byte{'0' + byte(i)}, time.Hour)
			if err != nil || added != want {
				t.Errorf("add %d: %v, %v", i, added, err)
			}
		}
		p.holds("b", "0")

		for _, c := range []struct{ by, want int64 }{{2, 2}, {-5, -3}, {0, -3}} {
			sum, err := p.cache.Increment(ctx, "c", c.by, time.Hour)
			if err != nil || sum != c.want {
				t.Errorf("increment by %d: %d, %v, want %d", c.by, sum, err, c.want)
			}
		}
		other.holds("c", "-3")
		if sum, err := p.cache.Increment(ctx, "b", 7, time.Hour); err != nil || sum != 7 {
			t.Errorf("increment of what is no amount: %d, %v", sum, err)
		}

		found, err := p.cache.GetMany(ctx, "a", "b", "c", "d", "a")
		stacktest.Must(t, err)
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, []string{"a", "b", "c"}) || string(found["b"]) != "7" {
			t.Errorf("of many there are %q", found)
		}
	})
}

func TestEntriesExpire(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		p := newData(t, stacktest.Pair(t, engine)).process()
		ctx := stacktest.Context(t)
		const life = 300 * time.Millisecond
		start := time.Now()
		stacktest.Must(t, p.cache.Put(ctx, "put", []byte("x"), life))
		p.cache.Increment(ctx, "count", 1, life)
		p.cache.Increment(ctx, "count", 1, time.Hour)
		if time.Since(start) < life {
			p.holds("put", "x")
		}
		time.Sleep(life)
		p.holds("put", "")
		p.holds("count", "") // its lifetime is that of the first increment
		if added, err := p.cache.Add(ctx, "put", []byte("y"), time.Hour); err != nil || !added {
			t.Errorf("add where one has expired: %v, %v", added, err)
		}
		p.holds("put", "y")
		if sum, err := p.cache.Increment(ctx, "count", 1, time.Hour); err != nil || sum != 1 {
			t.Errorf("increment where one has expired: %d, %v", sum, err)
		}
	})
}

func TestAtomicOverProcesses(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		processes := []*process{d.process(), d.process()}
		const n = 50
		var added atomic.Int64
		sums := make([]int64, n)
		var wg sync.WaitGroup
		for i := range n {
			c := processes[i%2].cache
			wg.Go(func() {
				ok, err := c.Add(stacktest.Context(t), "add", []byte("x"), time.Hour)
				if err != nil {
					t.Error(err)
				}
				if ok {
					added.Add(1)
				}
				if sums[i], err = c.Increment(stacktest.Context(t), "increment", 1, time.Hour); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		want(t, "the number of those that added", added.Load(), 1)
		slices.Sort(sums)
		for i, sum := range sums {
			want(t, "a sum", sum, int64(i+1))
		}
	})
}

func TestWhatNoEntryCanHave(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		p := newData(t, stacktest.Pair(t, engine)).process()
		ctx := stacktest.Context(t)
		for name, c := range map[string]struct {
			err  error
			want string
		}{
			"no key":      {p.cache.Put(ctx, "", nil, time.Hour), `invalid cache entry: key "": want 1 to 200 visible ASCII characters`},
			"space":       {p.cache.Put(ctx, "a b", nil, time.Hour), `invalid cache entry: key "a b": want 1 to 200 visible ASCII characters`},
			"not ASCII":   {p.cache.Put(ctx, "é", nil, time.Hour), `invalid cache entry: key "é": want 1 to 200 visible ASCII characters`},
			"long value":  {p.cache.Put(ctx, "a", make([]byte, cache.MaxValue+1), time.Hour), "invalid cache entry: value of 65537 bytes: want at most 65536"},
			"no lifetime": {p.cache.Put(ctx, "a", nil, 0), "invalid cache entry: lifetime 0s: want at least a microsecond"},
		} {
			if !errors.Is(c.err, cache.ErrInvalid) || c.err.Error() != c.want {
				t.Errorf("%s: %v, want %s", name, c.err, c.want)
			}
		}
		long := strings.Repeat("k", cache.MaxKey)
		if err := p.cache.Put(ctx, long+"k", nil, time.Hour); !errors.Is(err, cache.ErrInvalid) || len(err.Error()) > 2*cache.MaxKey {
			t.Errorf("a long key: %v", err)
		}
		largest := strings.Repeat("v", cache.MaxValue)
		stacktest.Must(t, p.cache.Put(ctx, long, []byte(largest), time.Hour))
		p.holds(long, largest)
	})
}

func TestForget(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		p, other := d.process(), d.process()
		ctx := stacktest.Context(t)
		forget := func(outcome error) error {
			return p.main.Write(ctx, "forget", func(ctx context.Context, tx *dbroute.Tx) error {
				return errors.Join(cache.Forget(ctx, tx, "b", "a", "b", "never-there"), outcome)
			})
		}
		for _, key := range []string{"a", "b", "c"} {
			stacktest.Must(t, p.cache.Put(ctx, key, []byte(key), time.Hour))
		}
		if err := forget(errors.New("roll back")); err == nil {
			t.Fatal("it was committed")
		}
		other.holds("a", "a")
		stacktest.Must(t, forget(nil))
		other.holds("a", "")
		other.holds("b", "")
		other.holds("c", "c")
		stacktest.Must(t, other.cache.Put(ctx, "a", []byte("again"), time.Hour))
		p.holds("a", "again")
	})
}

func TestClusterOfACacheHasNoReplicas(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		p := newData(t, stacktest.Pair(t, engine)).process()
		if _, err := cache.New(cache.Config{Cluster: p.main, Data: p.main}); err == nil {
			t.Error("a cache takes a cluster with replicas")
		}
		if _, err := cache.NewLimiter(p.main, "any", cache.Limit{Hits: 1, Per: time.Second}); err == nil {
			t.Error("a limiter takes a cluster with replicas")
		}
	})
}
