package cache_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// An entry is forgotten by an update and refilled by somebody who reads the
// replica, before the replica has applied the update.
func TestRefillWithinTheLagCachesTheNewValue(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		writer, other := d.process(), d.process()
		resume := stacktest.Pause(t, d.servers)
		want(t, "the first value", other.remembered(other.visitor()), 0)
		want(t, "the number written", writer.increment(), 1)

		want(t, "the refill", other.remembered(other.visitor()), 1)
		want(t, "what is cached", writer.remembered(writer.visitor()), 1)
		resume()
		stacktest.Applied(t, d.servers)
		want(t, "what is cached after the lag", other.remembered(other.visitor()), 1)
	})
}

// The value is computed, then a change commits, then the value would be stored.
func TestValueComputedBeforeTheCommitIsNotStoredAfterIt(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		reader, writer := d.process(), d.process()
		for _, name := range []string{"no row", "a forgotten entry", "an expired entry"} {
			switch name {
			case "a forgotten entry":
				writer.increment()
			case "an expired entry":
				stacktest.Must(t, writer.cache.Put(stacktest.Context(t), number, []byte("-1"), time.Microsecond))
			}
			var before, now int64
			got, err := cache.Remember(stacktest.Context(t), reader.cache, number, time.Hour, func(ctx context.Context, q dbroute.Querier) (int64, error) {
				n, err := readNumber(ctx, q)
				before, now = n, writer.increment()
				return n, err
			})
			if err != nil || got != before || before == now {
				t.Errorf("%s: %d, %v, of %d and %d", name, got, err, before, now)
			}
			reader.holds(number, "")
			want(t, name+": the next value", reader.remembered(reader.visitor()), now)
		}
	})
}

// The entry is forgotten, then a value is computed and stored, then the change
// commits.
func TestValueComputedBetweenForgetAndCommitIsTheNewOne(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		reader, writer := d.process(), d.process()
		for _, name := range []string{"no row", "a forgotten entry"} {
			if name != "no row" {
				writer.increment()
			}
			got := make(chan int64, 1)
			now := writer.increment(func() {
				go func() { got <- reader.remembered(reader.visitor()) }()
				select {
				case n := <-got: // too early
					got <- n
				case <-time.After(300 * time.Millisecond):
				}
			})
			want(t, name+": the value", <-got, now)
			want(t, name+": what is cached", reader.remembered(reader.visitor()), now)
		}
	})
}

// InnoDB lets transactions that wait to insert a row end in a deadlock if whoever was
// first takes it back.
func TestChangeThatIsRolledBackHarmsNoOther(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Pair(t, engine)
		p := newData(t, servers).process()
		forget := func(then func() error) error {
			return p.main.Write(stacktest.Context(t), "forget", func(ctx context.Context, tx *dbroute.Tx) error {
				if err := cache.Forget(ctx, tx, "a", "b"); err != nil {
					return err
				}
				return then()
			})
		}
		var others sync.WaitGroup
		err := forget(func() error {
			for range 5 {
				others.Go(func() {
					if err := forget(func() error { return nil }); err != nil {
						t.Error(err)
					}
				})
				others.Go(func() {
					if err := p.cache.Put(stacktest.Context(t), "a", nil, time.Hour); err != nil {
						t.Error(err)
					}
				})
			}
			stacktest.LocksAwaited(t, servers, 10)
			return errRollBack
		})
		if !errors.Is(err, errRollBack) {
			t.Fatal(err)
		}
		others.Wait()
	})
}

func TestChangeThatIsRolledBackForgetsNothing(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		reader, writer := d.process(), d.process()
		want(t, "the value", reader.remembered(reader.visitor()), 0)
		err := writer.main.Write(stacktest.Context(t), "increment", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE numbers SET n = n + 1`)
			if err := errors.Join(err, cache.Forget(ctx, tx, number)); err != nil {
				return err
			}
			reader.holds(number, "0")
			return errRollBack
		})
		if !errors.Is(err, errRollBack) {
			t.Fatal(err)
		}
		reader.holds(number, "0")
	})
}

var errRollBack = errors.New("roll back")

// Whoever has committed sees that, and what is later, by way of every process.
func TestWritersReadTheirWritesUnderLoad(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		stacktest.Pause(t, d.servers)
		processes := []*process{d.process(), d.process()}
		const writers, writes = 4, 25
		var wg sync.WaitGroup
		var done atomic.Bool
		for i := range 2 {
			p := processes[i]
			wg.Go(func() {
				for !done.Load() {
					p.remembered(p.visitor())
				}
			})
		}
		var writing sync.WaitGroup
		for range writers {
			writing.Go(func() {
				for range writes {
					written := processes[0].increment()
					for _, p := range processes {
						if got := p.remembered(p.visitor()); got < written {
							t.Errorf("wrote %d and then reads %d", written, got)
						}
					}
				}
			})
		}
		writing.Wait()
		done.Store(true)
		wg.Wait()
		for _, p := range processes {
			want(t, "in the end the value", p.remembered(p.visitor()), writers*writes)
			p.holds(number, "100")
		}
	})
}

func TestRememberComputesOnce(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		p := newData(t, stacktest.Pair(t, engine)).process()
		var computed atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				got, err := cache.Remember(p.visitor(), p.cache, number, time.Hour, func(context.Context, dbroute.Querier) (string, error) {
					computed.Add(1)
					return "value", nil
				})
				if err != nil || got != "value" {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
		wg.Wait()
		want(t, "the number of computations", computed.Load(), 1)
	})
}

// A computation is under way. Somebody commits a change, and then wants the value:
// not that of the computation.
func TestWriterDoesNotWaitForAValueFromBefore(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		p, writer := d.process(), d.process()
		began, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		compute := func(ctx context.Context, q dbroute.Querier) (int64, error) {
			n, err := readNumber(ctx, q)
			once.Do(func() { close(began); <-goOn })
			return n, err
		}
		var wg sync.WaitGroup
		remember := func(least int64) {
			wg.Go(func() {
				if n, err := cache.Remember(p.visitor(), p.cache, number, time.Hour, compute); err != nil || n < least {
					t.Errorf("%d, %v, want %d", n, err, least)
				}
			})
		}
		remember(0)
		<-began
		written := writer.increment()
		before := p.reads()
		remember(written)
		for p.reads() == before {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond) // it has found nothing, and waits
		close(goOn)
		wg.Wait()
	})
}

func TestRememberMany(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		p, writer := d.process(), d.process()
		var asked [][]string
		remember := func(keys ...string) map[string]int {
			found, err := cache.RememberMany(p.visitor(), p.cache, keys, time.Hour, func(_ context.Context, _ dbroute.Querier, missing []string) (map[string]int, error) {
				asked = append(asked, missing)
				lengths := map[string]int{}
				for _, key := range missing {
					if key != "none" {
						lengths[key] = len(key)
					}
				}
				return lengths, nil
			})
			stacktest.Must(t, err)
			return found
		}
		wantEqual(t, remember("cc", "none", "a"), map[string]int{"a": 1, "cc": 2})
		wantEqual(t, remember("a", "bbb", "cc"), map[string]int{"a": 1, "bbb": 3, "cc": 2})
		stacktest.Must(t, writer.main.Write(stacktest.Context(t), "forget", func(ctx context.Context, tx *dbroute.Tx) error {
			return cache.Forget(ctx, tx, "a")
		}))
		wantEqual(t, remember("a", "bbb", "cc"), map[string]int{"a": 1, "bbb": 3, "cc": 2})
		wantEqual(t, asked, [][]string{{"cc", "none", "a"}, {"bbb"}, {"a"}})
		wantEqual(t, remember(), nil)
	})
}

// The page's scope shows what the cache was asked, and its own reads stay where
// they are.
func TestRefillIsNoReadOfThePage(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		p := newData(t, stacktest.Pair(t, engine)).process()
		ctx, scope := p.cluster.NewScope(p.visitor())
		p.remembered(ctx)
		p.remembered(ctx)
		var got []string
		for _, a := range scope.Accesses() {
			got = append(got, a.Name+" "+string(a.Role)+" "+string(a.Reason))
		}
		wantEqual(t, got, []string{
			"cache.test.Number primary primary-only", // nothing there
			"cache.test.Number primary touch",        // the version
			"test.Number primary primary-only",       // the value
			"cache.test.Number primary touch",        // stored
			"cache.test.Number primary primary-only",
		})
		if n := len(p.main.Scope(ctx).Accesses()); n > 0 {
			t.Errorf("there are %d accesses of the main cluster", n)
		}
	})
}

func TestRememberInATransactionSeesTheTransaction(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		p := newData(t, stacktest.Pair(t, engine)).process()
		want(t, "the value", p.remembered(p.visitor()), 0)
		err := p.main.Write(stacktest.Context(t), "increment", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE numbers SET n = n + 1`)
			stacktest.Must(t, errors.Join(err, cache.Forget(ctx, tx, number)))
			want(t, "the value in the transaction", p.remembered(ctx), 1)
			return errRollBack
		})
		if !errors.Is(err, errRollBack) {
			t.Fatal(err)
		}
		p.holds(number, "0")
	})
}

func TestFailureAndPanicOfAComputation(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		p := newData(t, stacktest.Pair(t, engine)).process()
		failed := errors.New("failed")
		fail := func(context.Context, dbroute.Querier) (int, error) { return 0, failed }
		if _, err := cache.Remember(p.visitor(), p.cache, number, time.Hour, fail); !errors.Is(err, failed) {
			t.Errorf("the error is %v", err)
		}
		func() {
			defer func() { want(t, "the panic", recover(), any("boom")) }()
			cache.Remember(p.visitor(), p.cache, number, time.Hour, func(context.Context, dbroute.Querier) (int, error) { panic("boom") })
		}()
		want(t, "the value", p.remembered(p.visitor()), 0)
	})
}

// An entry that an older program has stored may not decode. A value may be too long.
func TestWhatCannotBeKeptIsComputed(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		p := newData(t, stacktest.Pair(t, engine)).process()
		stacktest.Must(t, p.cache.Put(stacktest.Context(t), number, []byte(`{"not":"a number"}`), time.Hour))
		want(t, "the value", p.remembered(p.visitor()), 0)
		for range 2 {
			long, err := cache.Remember(p.visitor(), p.cache, "long", time.Hour, func(context.Context, dbroute.Querier) ([]byte, error) {
				return make([]byte, cache.MaxValue), nil
			})
			if err != nil || len(long) != cache.MaxValue {
				t.Errorf("a value of %d bytes, %v", len(long), err)
			}
		}
		p.holds("long", "")
	})
}

// Who waits for a value may go away. The computation goes on for the others.
func TestComputationOutlivesWhoBeganIt(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		p := newData(t, stacktest.Pair(t, engine)).process()
		ctx, goAway := context.WithCancel(p.visitor())
		goOn := make(chan struct{})
		_, err := cache.Remember(ctx, p.cache, number, time.Hour, func(ctx context.Context, q dbroute.Querier) (int64, error) {
			goAway()
			<-goOn
			return readNumber(ctx, q)
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		close(goOn)
		for wait := stacktest.Context(t); wait.Err() == nil; time.Sleep(5 * time.Millisecond) {
			if _, err := p.cache.Get(wait, number); err == nil {
				return
			}
		}
		t.Error("nothing is stored")
	})
}

// Without the primary, pages that can do without it go on.
func TestCacheThatCannotBeUsedIsPassedBy(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		d := newData(t, servers)
		p := d.process(func(cfg *dbroute.Config) { cfg.CheckTimeout = 200 * time.Millisecond })
		want(t, "the value", p.remembered(p.visitor()), 0)
		wantReplica := func(state string) {
			t.Helper()
			ctx := p.visitor()
			want(t, state+": the value", p.remembered(ctx), 0)
			accesses := p.main.Scope(ctx).Accesses()
			if len(accesses) != 1 || accesses[0].Role != dbroute.Replica || accesses[0].Name != number {
				t.Errorf("%s: the accesses are %+v", state, accesses)
			}
		}
		primary := servers.Primary()
		stacktest.Must(t, primary.Hang())
		start := time.Now()
		for range 50 {
			wantReplica("it hangs")
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("fifty pages took %v", took)
		}
		stacktest.Must(t, primary.Continue())
		stacktest.Must(t, primary.Kill(stacktest.Context(t)))
		wantReplica("it is down")
		stacktest.Must(t, primary.Start(stacktest.Context(t)))
	})
}

// Not even where the data is the only reason to wait.
func TestCacheThatIsOff(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		p, on := d.process(), d.process()
		p.cache = p.newCache(cache.Config{Off: true})
		want(t, "the value", on.remembered(on.visitor()), 0)
		stacktest.Must(t, on.cache.Put(stacktest.Context(t), number, []byte("7"), time.Hour))
		want(t, "the value without the cache", p.remembered(p.visitor()), 0)
		p.increment()
		on.holds(number, "") // forgotten all the same
	})
}
