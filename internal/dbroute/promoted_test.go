package dbroute_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// A primary that was one before has old commits of its own, and newer ones of another.
// Until it writes again, what is not yet on the replicas is all the other's.
func TestPrimaryThatWasOneBefore(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 2)
		e := newEnvOn(t, engine, servers)
		ctx := stacktest.Context(t)
		old, promoted, follower := servers.Primary(), servers.Replicas()[0], servers.Replicas()[1]
		if engine == "mysql" {
			e.wasPrimary()
		}
		onPromoted := e.on(openCluster(t, e.config))
		proxy := newStallable(t, old.Addr())
		e.watched(func(cfg *dbroute.Config) {
			c := &cutter{listener: proxy.Listener}
			cfg.Primary, cfg.Replicas = c.url(t, cfg.Primary), cfg.Replicas[1:]
		})
		stacktest.Must(t, follower.PauseApply(ctx))
		marker := e.markerOf("new")
		request, scope := onPromoted.NewScope(ctx)
		scope.RouteAnywhere(dbroute.Marker{})
		scope.Prefer(0)
		if has, err := onPromoted.HasCommitID(request, marker.Commit, 20*time.Second); !has || err != nil {
			t.Fatalf("the replica to be promoted has the commit: %v, %v", has, err)
		}
		proxy.target.Store(promoted.Addr())
		stacktest.Must(t, old.Kill(ctx))
		e.wantState(0, dbroute.Down)
		stacktest.Must(t, promoted.Promote(ctx))
		e.wantState(0, dbroute.Up)

		marker.Written = time.Now().Add(-time.Minute)
		for range 3 {
			request, scope := e.request(marker)
			if got := e.see(request); got.Text != "new" || got.Server != promoted.ID() {
				t.Errorf("who has written before the failover reads %+v", got)
			}
			o := scope.Outcome()
			if o.Healed && e.Engine() != dbroute.PostgreSQL {
				t.Errorf("the marker is taken for lost, and is %+v", o.Marker)
			}
			marker = o.Marker
		}
		now, err := e.LastCommitID(ctx)
		stacktest.Must(t, err)
		request, _ = e.request(dbroute.Marker{Commit: now})
		if got := e.see(request); got.Text != "new" || got.Server != promoted.ID() {
			t.Errorf("who asks for all that is committed reads %+v", got)
		}
		stacktest.Must(t, follower.ResumeApply(ctx))
		e.wantEventually(marker, seen{"new", follower.ID(), dbroute.CommitReached})
	})
}

// The commit ID of a write covers what the primary has from others, and yet is as short
// as can be.
func TestCommitIDOfAPrimaryWithOthersCommits(t *testing.T) {
	stacktest.Only(t, "mysql")
	e := newEnvOn(t, "mysql", stacktest.Start(t, "mysql", 1))
	const other = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	admin := e.admin()
	admin.SetMaxOpenConns(1)
	byOther := func(gtid string) {
		t.Helper()
		for _, statement := range []string{`SET gtid_next = '` + gtid + `'`, `UPDATE notes SET text = '` + gtid + `'`, `SET gtid_next = 'AUTOMATIC'`} {
			_, err := admin.Exec(statement)
			stacktest.Must(t, err)
		}
	}
	commit := func(statement string) dbroute.CommitID {
		t.Helper()
		ctx, scope := e.request(dbroute.Marker{})
		stacktest.Must(t, e.Write(ctx, "w", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, statement)
			return err
		}))
		return scope.Outcome().Marker.Commit
	}
	byOther(other + ":1")
	e.Cluster = openCluster(t, e.config)
	if id := commit(`UPDATE notes SET text = text`); !dbroute.CoversGTID(id, other+":1") {
		t.Errorf("a write that changes nothing does not cover what it has found: %v", id)
	}
	if id := commit(`UPDATE notes SET text = 'own'`); strings.Contains(id.String(), other) {
		t.Errorf("%v has more than the last commit", id)
	}
	byOther(other + ":2")
	if id := commit(`UPDATE notes SET text = text`); !dbroute.CoversGTID(id, other+":2") {
		t.Errorf("a write that changes nothing does not cover what has come since: %v", id)
	}
}
