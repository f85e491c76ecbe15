package dbroute_test

import (
	"context"
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

// routed waits for a commit in a new scope, and returns how long that took.
func (e *env) routed(m dbroute.Marker, wait time.Duration) (context.Context, time.Duration) {
	ctx, scope := e.NewScope(stacktest.Context(e.tb))
	start := time.Now()
	scope.RouteByCommitWait(ctx, m, wait)
	return ctx, time.Since(start)
}

func TestCommitWait(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		resume := e.pause()
		marker := e.markerOf("new")

		const bound = 300 * time.Millisecond
		ctx, took := e.routed(marker, bound)
		e.want(ctx, "new", 1, dbroute.CommitWaitTimedOut)
		if took < bound || took > patience {
			t.Errorf("on a paused replica the wait took %v, want %v", took, bound)
		}
		for name, c := range map[string]struct {
			marker dbroute.Marker
			text   string
			server int
			why    dbroute.Reason
		}{
			"nothing to wait for": {dbroute.Marker{}, "old", 2, dbroute.NoPendingCommit},
			"unknown marker":      {dbroute.Marker{Unknown: true}, "new", 1, dbroute.UnknownMarker},
		} {
			ctx, took := e.routed(c.marker, time.Hour)
			e.want(ctx, c.text, c.server, c.why)
			if took > patience {
				t.Errorf("%s: the wait took %v", name, took)
			}
		}

		start := time.Now()
		time.AfterFunc(bound, resume)
		ctx, _ = e.routed(marker, time.Hour)
		took = time.Since(start)
		e.want(ctx, "new", 2, dbroute.CommitReached)
		if took < bound {
			t.Errorf("the replica was read after %v, before it could have the commit", took)
		}
		e.write(ctx, "newer")
		e.want(ctx, "newer", 1, dbroute.AfterWrite)
	})
}

// A job has a commit ID, and not the time of the write. The last look at the primary
// is older than the commit.
func TestCommitIDWithoutATimeIsWaitedForWhileTheServersAreWatched(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.watched()
		resume := e.pause()
		marker := dbroute.Marker{Commit: e.markerOf("new").Commit}
		time.AfterFunc(100*time.Millisecond, resume)
		ctx, _ := e.routed(marker, time.Hour)
		e.want(ctx, "new", 2, dbroute.CommitReached)
	})
}

// patience is more than a wait that does not wait takes on a busy machine.
const patience = 10 * time.Second

func TestCommitWaitEndsWithItsContext(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.pause()
		marker := e.markerOf("new")
		ctx, leave := context.WithCancel(stacktest.Context(t))
		time.AfterFunc(50*time.Millisecond, leave)
		ctx, scope := e.NewScope(ctx)
		start := time.Now()
		scope.RouteByCommitWait(ctx, marker, time.Hour)
		if took := time.Since(start); took > patience {
			t.Errorf("it took %v", took)
		}
	})
}

func TestCommitWaitForAnyReplica(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 2)
		e := newEnvOn(t, engine, servers)
		ctx := stacktest.Context(t)
		first := servers.Replicas()[0]
		stacktest.Must(t, first.PauseApply(ctx))
		for range 4 { // whichever is asked first
			marker := e.markerOf("new")
			got, _ := e.routed(marker, time.Hour)
			e.want(got, "new", 3, dbroute.CommitReached)
		}

		// No replica will have it any more, and nobody waits for one that is down.
		marker := e.markerOf("newest")
		for _, r := range servers.Replicas() {
			stacktest.Must(t, r.Kill(ctx))
		}
		got, took := e.routed(marker, time.Hour)
		e.want(got, "newest", 1, dbroute.NoReplica)
		if took > patience {
			t.Errorf("with no replica up the wait took %v", took)
		}
	})
}
