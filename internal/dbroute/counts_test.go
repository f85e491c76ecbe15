package dbroute_test

import (
	"context"
	"errors"
	"testing"
	"time"

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

// Nor is what it has shown of others on a replica, when that is gone. Once all
// replicas have it, there is nothing to be told.
func TestMonotonicReadsOnReplicas(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 2)
		e := newEnvOn(t, engine, servers)
		e.watched(func(cfg *dbroute.Config) { cfg.Monotonic = true })
		page := func(m dbroute.Marker) (seen, dbroute.Outcome) {
			ctx, scope := e.request(m)
			scope.Prefer(0)
			return e.see(ctx), scope.Outcome()
		}
		ahead, behind := servers.Replicas()[0], servers.Replicas()[1]
		if engine == "mysql" {
			e.wasPrimary()
		}
		stacktest.Must(t, behind.PauseApply(stacktest.Context(t)))
		e.exec(`UPDATE notes SET text = 'by another' WHERE id = 1`)
		got, o := page(dbroute.Marker{})
		for ctx := stacktest.Context(t); got.Text == "old"; got, o = page(dbroute.Marker{}) {
			stacktest.Must(t, ctx.Err())
		}
		if got != (seen{"by another", ahead.ID(), dbroute.NoPendingCommit}) || !o.Changed || o.Marker.Unknown {
			t.Fatalf("read %+v, and the outcome is %+v", got, o)
		}
		if time.Since(o.Marker.Written) > time.Minute {
			t.Errorf("the marker is of %v: a failover that lost it would not be found out", o.Marker.Written)
		}
		if got, o := page(o.Marker); got != (seen{"by another", ahead.ID(), dbroute.CommitReached}) || o.Changed {
			t.Errorf("with the marker read %+v, and the outcome is %+v", got, o)
		}
		stacktest.Must(t, ahead.Stop(stacktest.Context(t)))
		e.wantState(1, dbroute.Down)
		if got, _ := page(o.Marker); got != (seen{"by another", 1, dbroute.CommitNotReached}) {
			t.Errorf("the next page reads %+v", got)
		}
		stacktest.Must(t, ahead.Start(stacktest.Context(t)))
		stacktest.Must(t, behind.ResumeApply(stacktest.Context(t)))
		e.applied()
		for ctx := stacktest.Context(t); o.Changed; time.Sleep(5 * time.Millisecond) {
			stacktest.Must(t, ctx.Err())
			_, o = page(dbroute.Marker{})
		}
	})
}

// wasPrimary gives the first replica, of MySQL, a transaction of its own, as one has that
// was the primary once.
func (e *env) wasPrimary() {
	e.tb.Helper()
	ctx, scope := e.request(dbroute.Marker{})
	scope.Prefer(0)
	var uuid string
	stacktest.Must(e.tb, e.Read(ctx, "uuid", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, `SELECT @@server_uuid`).Scan(&uuid)
	}))
	conn, err := e.admin().Conn(ctx)
	stacktest.Must(e.tb, err)
	defer conn.Close()
	for _, statement := range []string{`SET gtid_next = '` + uuid + `:1'`, `COMMIT`, `SET gtid_next = 'AUTOMATIC'`} {
		_, err := conn.ExecContext(ctx, statement)
		stacktest.Must(e.tb, err)
	}
	e.applied()
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

// Nor is what a transaction has shown that leaves no marker.
func TestMonotonicReadsAfterATransaction(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		for name, transact := range map[string]func(*env, context.Context) error{
			"a write that fails": func(e *env, ctx context.Context) error {
				mine := errors.New("somebody else has saved")
				err := e.Write(ctx, "w", func(ctx context.Context, _ *dbroute.Tx) error {
					e.want(ctx, "by another", 1, dbroute.InTransaction)
					return mine
				})
				if errors.Is(err, mine) {
					return nil
				}
				return err
			},
			"a touch": func(e *env, ctx context.Context) error {
				return e.Touch(ctx, "t", func(ctx context.Context, _ *dbroute.Tx) error {
					e.want(ctx, "by another", 1, dbroute.InTransaction)
					return nil
				})
			},
		} {
			t.Run(name, func(t *testing.T) {
				e := newEnv(t, engine)
				e.watched(func(cfg *dbroute.Config) { cfg.Monotonic = true })
				e.pause()
				e.exec(`UPDATE notes SET text = 'by another' WHERE id = 1`)
				ctx, scope := e.request(dbroute.Marker{})
				stacktest.Must(t, transact(e, ctx))
				next, _ := e.request(scope.Outcome().Marker)
				e.want(next, "by another", 1, dbroute.CommitNotReached)
			})
		}
	})
}
