package dbroute_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

func TestCounts(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.Cluster = openCluster(t, e.config)
		e.pause()
		marker := e.markerOf("new")
		for range 2 {
			ctx, _ := e.request(dbroute.Marker{})
			e.want(ctx, "old", 2, dbroute.NoPendingCommit)
		}
		ctx, _ := e.request(marker)
		e.want(ctx, "new", 1, dbroute.CommitNotReached)
		e.want(ctx, "new", 1, dbroute.CommitNotReached)

		want := dbroute.Counts{
			Accesses: []dbroute.AccessCount{
				{ServerID: 1, Role: dbroute.Primary, Reason: dbroute.CommitNotReached, N: 2},
				{ServerID: 1, Role: dbroute.Primary, Reason: dbroute.Written, Write: true, N: 1},
				{ServerID: 2, Role: dbroute.Replica, Reason: dbroute.NoPendingCommit, N: 2},
			},
			Checks:    map[string]uint64{"not reached": 1},
			Decisions: map[dbroute.Reason]uint64{dbroute.NoPendingCommit: 2, dbroute.CommitNotReached: 1},
		}
		if diff := cmp.Diff(want, e.Counts()); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	})
}

// What a page has shown of others on the primary is not unread on the next.
func TestMonotonicReads(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		for monotonic, want := range map[bool]seen{
			true:  {"by another", 1, dbroute.CommitNotReached},
			false: {"old", 2, dbroute.CommitReached},
		} {
			e := newEnv(t, engine)
			cfg := e.config
			cfg.Monotonic = monotonic
			e.Cluster = openCluster(t, cfg)
			own := e.markerOf("old") // of a write that the replica will have
			e.applied()
			resume := e.pause()
			e.exec(`UPDATE notes SET text = 'by another' WHERE id = 1`)

			ctx, scope := e.request(own)
			scope.Pin()
			e.want(ctx, "by another", 1, dbroute.PrimaryAskedFor)
			next, _ := e.request(e.MergeMarkers(own, scope.Outcome().Marker))
			if got := e.see(next); got != want {
				t.Errorf("monotonic %v: the next page reads %+v, want %+v", monotonic, got, want)
			}
			resume()
			e.applied()
			last, _ := e.request(scope.Outcome().Marker)
			e.want(last, "by another", 2, dbroute.CommitReached)
		}
	})
}

func TestClustersKeepToThemselves(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		cfg := e.config
		cfg.Name = "reports"
		reports := e.on(openCluster(t, cfg))
		e.pause()
		ctx, scope := e.request(dbroute.Marker{})
		ctx, reportScope := reports.NewScope(ctx)
		reportScope.RouteByCommit(ctx, dbroute.Marker{})
		e.write(ctx, "new")
		e.want(ctx, "new", 1, dbroute.AfterWrite)
		reports.want(ctx, "old", 2, dbroute.NoPendingCommit)
		if !scope.Outcome().Changed || reportScope.Outcome().Changed {
			t.Errorf("outcomes are %+v and %+v", scope.Outcome(), reportScope.Outcome())
		}
		only := e.on(e.PrimaryOnly("only"))
		ctx, _ = only.NewScope(stacktest.Context(t))
		only.want(ctx, "new", 1, dbroute.PrimaryOnly)
	})
}
