package dbroute_test

import (
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// A replica may be taken out between two reads of a scope.
func TestScopeLeavesAReplicaThatIsTakenOut(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.watched(func(cfg *dbroute.Config) { cfg.MaxReplicaLag = 200 * time.Millisecond })
		ctx, _ := e.request(dbroute.Marker{})
		e.want(ctx, "old", 2, dbroute.NoPendingCommit)
		resume := e.pause()
		e.exec(`UPDATE notes SET text = 'new' WHERE id = 1`)
		e.wantState(1, dbroute.Behind)
		e.want(ctx, "new", 1, dbroute.ReplicaFailed)
		resume()
		e.wantState(1, dbroute.Up)
		e.want(ctx, "new", 1, dbroute.ReplicaFailed) // and does not come back
	})
}

// A replica that hangs when it is already taken out for its lag still has reads in
// flight.
func TestReplicaBehindThatHangsEndsItsReads(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		proxy := newStallable(t, e.stack.Replicas()[0].Addr())
		e.watched(func(cfg *dbroute.Config) {
			c := &cutter{listener: proxy.Listener}
			cfg.MaxReplicaLag, cfg.Replicas = 200*time.Millisecond, []string{c.url(t, cfg.Replicas[0])}
		})
		ctx, scope := e.request(dbroute.Marker{})
		goOn := e.held(ctx, e.Cluster)
		e.pause()
		e.exec(`UPDATE notes SET text = 'new' WHERE id = 1`)
		e.wantState(1, dbroute.Behind)
		proxy.gate.Lock()
		defer proxy.gate.Unlock()
		if err := goOn(); err != nil {
			t.Error(err)
		}
		if a := scope.Accesses(); len(a) != 1 || a[0].ServerID != 1 || a[0].Reason != dbroute.ReplicaFailed {
			t.Errorf("accesses are %+v", a)
		}
	})
}
