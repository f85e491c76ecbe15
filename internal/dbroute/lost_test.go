package dbroute_test

import (
	"fmt"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// After a failover that lost commits, no replica ever reaches them. Whoever made
// them must not be kept on the primary for good.
func TestLostCommitIsUnknown(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 2)
		e := newEnvOn(t, engine, servers)
		ctx := stacktest.Context(t)
		promoted := servers.Replicas()[0]
		for _, r := range servers.Replicas() {
			stacktest.Must(t, r.Stop(ctx))
		}
		var lost dbroute.Marker
		for n := range 20 { // more than the new primary will write
			lost = e.markerOf(fmt.Sprint("lost ", n))
		}
		stacktest.Must(t, servers.Primary().Kill(ctx))
		for _, r := range servers.Replicas() {
			stacktest.Must(t, r.Start(ctx))
		}
		stacktest.Must(t, promoted.Promote(ctx))

		database := databaseOf(t, e)
		follower := servers.Replicas()[0]
		e.config.Primary, e.config.Replicas = promoted.URL(database), []string{follower.URL(database)}
		e.watched()
		e.exec(`UPDATE notes SET text = 'kept' WHERE id = 1`)
		e.applied()
		e.wantEventually(dbroute.Marker{}, seen{"kept", follower.ID(), dbroute.NoPendingCommit})

		lost.Written = time.Now() // a moment ago, it may only not have been seen yet
		if e.Engine() != dbroute.PostgreSQL {
			request, _ := e.request(lost)
			e.want(request, "kept", promoted.ID(), dbroute.CommitNotReached)
		}
		lost.Written = time.Now().Add(-time.Minute)
		request, scope := e.request(lost)
		e.want(request, "kept", promoted.ID(), dbroute.UnknownMarker)
		o := scope.Outcome()
		if !o.Healed || o.Marker.Unknown {
			t.Fatalf("outcome is %+v", o)
		}
		e.wantEventually(o.Marker, seen{"kept", follower.ID(), dbroute.CommitReached})
	})
}
