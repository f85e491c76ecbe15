package cache_test

import (
	"testing"
	"testing/synctest"
	"time"

	"freshread/internal/cache"
	"freshread/internal/stack/stacktest"
)

// In the bubble of package synctest the process believes in another time, which
// begins in the year 2000 and which Sleep moves on at once. The database does not.
func TestClockOfTheProcessDoesNotCount(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		d := newData(t, stacktest.Pair(t, engine))
		sane := d.process()
		stacktest.Must(t, sane.cache.Put(stacktest.Context(t), "there", []byte("x"), time.Minute))
		limit := cache.Limit{Hits: 3, Per: time.Minute}
		for range 2 {
			hit(t, sane.limiter("log-in", limit), "me")
		}
		synctest.Test(t, func(t *testing.T) {
			d := *d
			d.t = t
			moved := d.process()
			if year := time.Now().Year(); year != 2000 {
				t.Fatalf("it is the year %d", year)
			}
			// However far its clock is behind, or has gone on meanwhile.
			moved.holds("there", "x")
			stacktest.Must(t, moved.cache.Put(stacktest.Context(t), "moved", []byte("y"), time.Minute))
			l := moved.limiter("log-in", limit)
			if allowed, _ := hit(t, l, "me"); !allowed {
				t.Error("the third of three hits is denied")
			}
			if n, err := moved.cache.Increment(stacktest.Context(t), "window", 1, time.Minute); n != 1 || err != nil {
				t.Error(n, err)
			}
			for range 2 {
				time.Sleep(time.Hour)
				moved.holds("there", "x")
				moved.holds("moved", "y")
				if n, err := moved.cache.Increment(stacktest.Context(t), "window", 0, time.Minute); n != 1 || err != nil {
					t.Errorf("a window of a minute has ended: %d, %v", n, err)
				}
				allowed, after := hit(t, l, "me")
				if allowed || after > 20*time.Second {
					t.Errorf("a fourth hit: %v, after %v", allowed, after)
				}
				if n, err := cache.CleanUpOnce(stacktest.Context(t), moved.cluster); n != 0 || err != nil {
					t.Errorf("%d are cleaned up, %v", n, err)
				}
			}
		})
		sane.holds("moved", "y")
	})
}
