package dbroute_test

import (
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// Whole seconds would make a window of 2 s last between 1 and 3. That a marker
// keeps its milliseconds on the way is shown in package web.
func TestWindowEndsToTheMillisecond(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		const window = 2 * time.Second
		for _, c := range []struct {
			age    time.Duration
			server int
			why    dbroute.Reason
		}{
			{0, 1, dbroute.WithinWindow},
			{window - 500*time.Millisecond, 1, dbroute.WithinWindow}, // time enough for the read itself
			{window + time.Millisecond, 2, dbroute.NoRecentWrite},
			{-time.Hour, 1, dbroute.WithinWindow}, // by the clock of a process that is ahead
		} {
			ctx, scope := e.NewScope(stacktest.Context(t))
			scope.RouteByWindow(dbroute.Marker{Written: time.Now().Add(-c.age)}, window)
			e.want(ctx, "old", c.server, c.why)
		}
	})
}

func TestStrategyNoneReadsTheReplica(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.pause()
		e.markerOf("new")
		ctx, scope := e.NewScope(stacktest.Context(t))
		scope.RouteAnywhere(dbroute.Marker{})
		e.want(ctx, "old", 2, dbroute.StrategyNone)
	})
}
