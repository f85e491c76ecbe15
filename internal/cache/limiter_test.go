package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"freshread/internal/cache"
	"freshread/internal/stack/stacktest"
)

// hit reports whether a hit was allowed, and if not, when the next one is.
func hit(t testing.TB, l *cache.Limiter, subject string) (allowed bool, after time.Duration) {
	t.Helper()
	err := l.Hit(stacktest.Context(t), subject)
	var limited *cache.LimitedError
	if errors.As(err, &limited) {
		return false, limited.RetryAfter()
	}
	stacktest.Must(t, err)
	return true, 0
}

// Three a minute. Sixteen requests come, two a second, to two processes, while the
// replica does not see any.
func TestThreeAMinuteAreThreeOverProcessesWhateverTheLag(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		stacktest.Pause(t, d.servers)
		limit := cache.Limit{Hits: 3, Per: time.Minute}
		limiters := []*cache.Limiter{d.process().limiter("log-in", limit), d.process().limiter("log-in", limit)}
		var answers []bool
		for i := range 16 {
			allowed, _ := hit(t, limiters[i%2], "192.0.2.1")
			answers = append(answers, allowed)
			time.Sleep(500 * time.Millisecond)
		}
		want := make([]bool, 16)
		want[0], want[1], want[2] = true, true, true
		wantEqual(t, answers, want)
	})
}

func TestHundredAtOnceAgainstTenAreTen(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		limit := cache.Limit{Hits: 10, Per: time.Hour}
		limiters := []*cache.Limiter{d.process().limiter("log-in", limit), d.process().limiter("log-in", limit)}
		for _, subject := range []string{"new", "new as well", "192.0.2.1"} {
			var allowed atomic.Int64
			var ready, done sync.WaitGroup
			start := make(chan struct{})
			for i := range 100 {
				ready.Add(1)
				done.Go(func() {
					ready.Done()
					<-start
					if ok, _ := hit(t, limiters[i%2], subject); ok {
						allowed.Add(1)
					}
				})
			}
			ready.Wait()
			close(start)
			done.Wait()
			want(t, "the number allowed", allowed.Load(), 10)
		}
	})
}

// Who waits as long as he was told is allowed, however often he has asked meanwhile.
func TestRetryAfterIsExact(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		l := newData(t, stacktest.Pair(t, engine)).process().limiter("writes", cache.Limit{Hits: 2, Per: 8 * time.Second})
		for range 2 {
			if allowed, _ := hit(t, l, "me"); !allowed {
				t.Fatal("a hit within the limit is denied")
			}
		}
		_, first := hit(t, l, "me")
		told := time.Now()
		if first <= 0 || first > 4*time.Second {
			t.Errorf("the third hit may come again after %v, want at most 4s", first)
		}
		for time.Until(told.Add(first/2)) > 0 {
			if allowed, after := hit(t, l, "me"); allowed || after >= first {
				t.Fatalf("a denied hit puts the next one off: %v, %v after %v", allowed, after, first)
			}
		}
		time.Sleep(time.Until(told.Add(first)))
		if allowed, after := hit(t, l, "me"); !allowed {
			t.Errorf("after the time that was told it is %v too early", after)
		}
		if allowed, _ := hit(t, l, "me"); allowed {
			t.Error("more than one hit has come back")
		}
		if allowed, _ := hit(t, l, "somebody else"); !allowed {
			t.Error("somebody else has no hits")
		}
	})
}

func TestUsage(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		l := newData(t, stacktest.Pair(t, engine)).process().limiter("sign-up", cache.Limit{Hits: 4, Per: 4 * time.Hour})
		for used := range 6 {
			got, err := l.Usage(stacktest.Context(t), "me")
			stacktest.Must(t, err)
			used = min(used, 4)
			interval := time.Hour * time.Duration(used)
			if got.Used != used || got.AllIn > interval || got.AllIn < interval-time.Minute || used > 0 && (got.NextIn <= 59*time.Minute || got.NextIn > time.Hour) {
				t.Errorf("after %d hits: %+v", used, got)
			}
			hit(t, l, "me")
		}
	})
}

// Subjects come from outside.
func TestSubjectsMayBeAnything(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		p := newData(t, stacktest.Pair(t, engine)).process()
		l, other := p.limiter("a", cache.Limit{Hits: 1, Per: time.Hour}), p.limiter("b", cache.Limit{Hits: 1, Per: time.Hour})
		for _, subject := range []string{"", " ", "x", "x ", "X", "\x00", "\xff", string(make([]byte, 100_000))} {
			for _, want := range []bool{true, false} {
				if allowed, _ := hit(t, l, subject); allowed != want {
					t.Errorf("%.10q: %v", subject, allowed)
				}
			}
			if allowed, _ := hit(t, other, subject); !allowed {
				t.Errorf("%.10q: two limits are one", subject)
			}
		}
	})
}

// A process dies in the middle of the very first hit of a subject. As many as are
// allowed wait for it, and are then counted in any order: one that began earlier may
// come after one that began later.
func TestHitThatIsRolledBackHarmsNoOther(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Pair(t, engine)
		p := newData(t, servers).process()
		l := p.limiter("log-in", cache.Limit{Hits: cache.DefaultConns, Per: time.Hour})
		for subject := range 8 {
			subject := fmt.Sprint(subject)
			dying, err := p.main.PrimaryDB().Begin()
			stacktest.Must(t, err)
			_, err = dying.Exec(bare(p, cache.HitSQL(p.cluster.Engine())), l.Row(subject), 1, 1, 1, 1)
			stacktest.Must(t, err)
			var denied atomic.Int64
			var others sync.WaitGroup
			for range cache.DefaultConns {
				time.Sleep(5 * time.Millisecond)
				others.Go(func() {
					if allowed, _ := hit(t, l, subject); !allowed {
						denied.Add(1)
					}
				})
			}
			stacktest.LocksAwaited(t, servers, cache.DefaultConns)
			stacktest.Must(t, dying.Rollback())
			others.Wait()
			want(t, "the number denied", denied.Load(), 0)
		}
	})
}

// What cannot be counted is not allowed.
func TestHitWithoutThePrimaryFails(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		l := newData(t, servers).process().limiter("log-in", cache.Limit{Hits: 3, Per: time.Minute})
		stacktest.Must(t, servers.Primary().Stop(stacktest.Context(t)))
		err := l.Hit(stacktest.Context(t), "me")
		var limited *cache.LimitedError
		if err == nil || errors.As(err, &limited) {
			t.Errorf("without the primary: %v", err)
		}
		stacktest.Must(t, servers.Primary().Start(stacktest.Context(t)))
	})
}

func TestLimitTexts(t *testing.T) {
	for text, want := range map[string]cache.Limit{
		"10/1m": {10, time.Minute}, "1/1h": {1, time.Hour}, "5/10s": {5, 10 * time.Second}, "7/1h30m": {7, 90 * time.Minute},
		"3/1.5s": {3, 1500 * time.Millisecond}, "20/10m": {20, 10 * time.Minute}, "1000000/1s": {1_000_000, time.Second},
	} {
		var got cache.Limit
		stacktest.Must(t, got.UnmarshalText([]byte(text)))
		if got != want || got.String() != text {
			t.Errorf("%s is %+v, written %s", text, got, got)
		}
	}
	for _, text := range []string{"", "10", "/1m", "10/", "0/1m", "-1/1m", "10/0s", "10/-1m", "10/m", "ten/1m", "10/1m/1m", "2000000/1h", "1000000/1ms"} {
		var got cache.Limit
		if err := got.UnmarshalText([]byte(text)); err == nil || err.Error() != fmt.Sprintf("%q: want hits and a time, as in 10/1m", text) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestCleanUpByManyAtOnce(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		p := d.process()
		ctx := stacktest.Context(t)
		const n = 450 // several batches
		for i := range n {
			_, err := p.main.PrimaryDB().Exec(fmt.Sprintf(`INSERT INTO cache_entries (name, expires_at) VALUES ('old-%d', %d)`, i, i))
			stacktest.Must(t, err)
		}
		stacktest.Must(t, p.cache.Put(ctx, "new", []byte("x"), time.Hour))
		short, long := p.limiter("short", cache.Limit{Hits: 1, Per: time.Millisecond}), p.limiter("long", cache.Limit{Hits: 1, Per: time.Hour})
		hit(t, short, "me")
		hit(t, long, "me")
		time.Sleep(5 * time.Millisecond)

		var removed atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			cluster := d.process().cluster
			wg.Go(func() {
				n, err := cache.CleanUpOnce(ctx, cluster)
				if err != nil {
					t.Error(err)
				}
				removed.Add(n)
			})
		}
		wg.Wait()
		want(t, "the number removed", removed.Load(), n+1)
		p.holds("new", "x")
		if allowed, _ := hit(t, long, "me"); allowed {
			t.Error("a limit was cleaned up before its time")
		}
		if allowed, _ := hit(t, short, "me"); !allowed {
			t.Error("a limit that was cleaned up allows nothing")
		}
	})
}

func TestCleanUpEnds(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		p := newData(t, stacktest.Pair(t, engine)).process()
		stacktest.Must(t, p.cache.Put(stacktest.Context(t), "old", nil, time.Microsecond))
		ctx, cancel := context.WithCancel(stacktest.Context(t))
		ended := make(chan struct{})
		go func() { cache.CleanUp(ctx, p.cluster, p.main.Config().Logger); close(ended) }()
		for rows := 1; rows > 0; time.Sleep(5 * time.Millisecond) {
			stacktest.Must(t, p.main.PrimaryDB().QueryRowContext(ctx, `SELECT count(*) FROM cache_entries`).Scan(&rows))
		}
		cancel()
		<-ended
	})
}
