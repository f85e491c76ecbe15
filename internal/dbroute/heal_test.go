package dbroute_test

import (
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// What an unknown marker is replaced by is newer than the last look at the primary. It is
// not lost for that.
func TestHealedMarkerIsNotLost(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.watched(func(cfg *dbroute.Config) { cfg.HealthInterval, cfg.Monotonic = 500*time.Millisecond, true })
		e.pause()
		for range 3 {
			e.exec(`UPDATE notes SET text = 'new' WHERE id = 1`)
			ctx, scope := e.request(dbroute.Marker{Written: time.Now().Add(-time.Minute), Unknown: true})
			e.want(ctx, "new", 1, dbroute.UnknownMarker)
			o := scope.Outcome()
			if !o.Healed || o.Marker.Unknown {
				t.Fatalf("outcome is %+v", o)
			}
			ctx, _ = e.request(o.Marker)
			e.want(ctx, "new", 1, dbroute.CommitNotReached)
		}
	})
}
