package dbroute_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net"
	"net/url"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
)

func TestReplicaGoneInMidRead(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		e := newEnvOn(t, engine, servers)
		ctx, scope := e.request(dbroute.Marker{})
		runs := 0
		var text string
		stacktest.Must(t, e.Read(ctx, "notes.Text", func(q dbroute.Querier) error {
			if runs++; runs == 1 {
				stacktest.Must(t, servers.Replicas()[0].Kill(ctx))
			}
			return q.QueryRowContext(ctx, `SELECT text FROM notes WHERE id = 1`).Scan(&text)
		}))
		if runs != 2 || text != "old" {
			t.Errorf("read %q in %d runs", text, runs)
		}
		e.want(ctx, "old", 1, dbroute.ReplicaFailed)
		if n := len(scope.Accesses()); n != 2 {
			t.Errorf("%d accesses are shown, want the 2 that answered", n)
		}
		down, _ := e.request(dbroute.Marker{})
		e.want(down, "old", 1, dbroute.NoReplica)

		stacktest.Must(t, servers.Replicas()[0].Start(stacktest.Context(t)))
		e.wantEventually(dbroute.Marker{}, seen{"old", 2, dbroute.NoPendingCommit})
	})
}

// The connection that is to tell the primary's position may be the first to find it
// gone.
func TestLastCommitIDWithoutThePrimary(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.Cluster = openCluster(t, e.config)
		e.Spy().FailCapture.Store(true)
		if _, err := e.LastCommitID(stacktest.Context(t)); !errors.Is(err, dbroute.ErrPrimaryUnavailable) {
			t.Errorf("got %v", err)
		}
	})
}

// wantEventually sends requests until one sees want.
func (e *env) wantEventually(m dbroute.Marker, want seen) {
	e.tb.Helper()
	var got seen
	for ctx := stacktest.Context(e.tb); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		request, _ := e.request(m)
		if got = e.see(request); got == want {
			return
		}
	}
	e.tb.Fatalf("read %+v, want %+v", got, want)
}

// Wherever a new connection breaks, up to its first query, it is the replica that has
// failed, and not the read.
func TestReplicaGoneInMidConnect(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		for n := 1; ; n++ {
			e.Cluster = openCluster(t, e.config)
			mend, err := e.BreakReplica(e.config.Replicas[0], n, false)
			stacktest.Must(t, err)
			ctx, _ := e.request(dbroute.Marker{})
			got := e.see(ctx)
			mend()
			if n > 1 && got == (seen{"old", 2, dbroute.NoPendingCommit}) {
				break // it takes fewer writes to connect and to read
			}
			if want := (seen{"old", 1, dbroute.ReplicaFailed}); got != want {
				t.Fatalf("broken at write %d: read %+v, want %+v", n, got, want)
			}
		}
	})
}

func TestReplicationStoppedForGood(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		e := newEnvOn(t, engine, servers)
		e.watched()
		e.stopReplication(servers.Replicas()[0])
		marker := e.markerOf("new")
		for ctx := stacktest.Context(t); e.Status()[1].Lag == 0; time.Sleep(time.Millisecond) {
			stacktest.Must(t, ctx.Err())
		}
		for range 3 {
			ctx, _ := e.request(marker)
			e.want(ctx, "new", 1, dbroute.CommitNotReached)
			other, _ := e.request(dbroute.Marker{})
			e.want(other, "old", 2, dbroute.NoPendingCommit)
		}
		ctx, _ := e.routed(marker, 100*time.Millisecond)
		e.want(ctx, "new", 1, dbroute.CommitWaitTimedOut)
		if s := e.Status()[1]; s.State != dbroute.Up {
			t.Errorf("the replica is %+v", s)
		}
	})
}

// stopReplication makes a replica receive from nobody, and apply nothing.
func (e *env) stopReplication(replica *stack.Server) {
	e.tb.Helper()
	u, err := url.Parse(replica.AdminURL(""))
	stacktest.Must(e.tb, err)
	if e.Engine() != dbroute.PostgreSQL {
		db, err := sql.Open("mysql", u.User.String()+"@tcp("+u.Host+")/")
		stacktest.Must(e.tb, err)
		defer db.Close()
		_, err = db.Exec(`STOP REPLICA`)
		stacktest.Must(e.tb, err)
		return
	}
	db, err := sql.Open("pgx", replica.AdminURL("postgres"))
	stacktest.Must(e.tb, err)
	defer db.Close()
	for _, statement := range []string{`ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`} {
		_, err := db.Exec(statement)
		stacktest.Must(e.tb, err)
	}
	for ctx := stacktest.Context(e.tb); count(e.tb, db, `SELECT count(*) FROM pg_stat_wal_receiver`) > 0; time.Sleep(time.Millisecond) {
		stacktest.Must(e.tb, ctx.Err())
	}
}

func TestReachedIsAskedOnce(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		c := openCluster(t, e.config)
		spy := c.Spy()
		e.Cluster = c
		marker := e.markerOf("new")
		e.applied()
		for range 10 {
			ctx, _ := e.request(marker)
			e.want(ctx, "new", 2, dbroute.CommitReached)
		}
		if n := spy.Asked.Load(); n != 1 {
			t.Errorf("the replica was asked %d times", n)
		}
		other, _ := e.request(dbroute.Marker{})
		e.want(other, "new", 2, dbroute.NoPendingCommit)
		if n := spy.Asked.Load(); n != 1 {
			t.Error("a client that wrote nothing has cost a question")
		}
	})
}

// A standby that restarts may come back at an earlier position. One that
// crashes restarts in the same postmaster.
func TestRestartedReplicaHasToBeAskedAgain(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		e := newEnvOn(t, engine, servers)
		e.Cluster = openCluster(t, e.config)
		spy := e.Spy()
		marker := e.markerOf("new")
		e.applied()
		restarts := map[string]func(){
			"restart": func() { stacktest.Must(t, servers.Replicas()[0].Restart(stacktest.Context(t))) },
		}
		if e.Engine() == dbroute.PostgreSQL {
			restarts["crash"] = func() { e.crashBackend(servers.Replicas()[0]) }
		}
		for name, restart := range restarts {
			t.Run(name, func(t *testing.T) {
				e.wantEventually(marker, seen{"new", 2, dbroute.CommitReached})
				restart()
				asked := spy.Asked.Load()
				ctx, _ := e.request(marker)
				if got := e.see(ctx); got.Text != "new" || got.Server != 1 {
					t.Errorf("decided by what the replica had reached before: %+v", got)
				}
				e.wantEventually(marker, seen{"new", 2, dbroute.CommitReached})
				if spy.Asked.Load() == asked {
					t.Error("the replica was not asked again")
				}
			})
		}
	})
}

// crashBackend kills a process of a server, and returns when the server has
// restarted the others and streams again.
func (e *env) crashBackend(s *stack.Server) {
	e.tb.Helper()
	db, err := sql.Open("pgx", s.AdminURL("postgres"))
	stacktest.Must(e.tb, err)
	defer db.Close()
	var before, now string
	var streaming bool
	const query = `
		SELECT (SELECT backend_start::text FROM pg_stat_activity WHERE backend_type = 'checkpointer'),
		       EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')`
	stacktest.Must(e.tb, db.QueryRow(query).Scan(&before, &streaming))
	stacktest.Must(e.tb, syscall.Kill(count(e.tb, db, `SELECT pg_backend_pid()`), syscall.SIGKILL))
	for ctx := stacktest.Context(e.tb); ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if err := db.QueryRow(query).Scan(&now, &streaming); err == nil && now != before && streaming {
			return
		}
	}
	e.tb.Fatal("the server does not recover")
}

func TestCheckThatFailsMeansPrimary(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		marker := e.markerOf("new")
		e.applied()
		cfg := e.config
		cfg.CheckTimeout = time.Nanosecond
		e.Cluster = openCluster(t, cfg)
		ctx, _ := e.request(marker)
		e.want(ctx, "new", 1, dbroute.CheckFailed)
	})
}

func TestFailedCaptureMeansUnknown(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.Cluster = openCluster(t, e.config)
		spy := e.Spy()
		resume := e.pause()
		spy.FailCapture.Store(true)
		ctx, scope := e.request(dbroute.Marker{})
		e.write(ctx, "new")
		unknown := scope.Outcome().Marker
		if !unknown.Unknown || unknown.Written.IsZero() {
			t.Fatalf("marker is %+v", unknown)
		}

		still, scope := e.request(unknown) // the primary's position cannot be had yet
		e.want(still, "new", 1, dbroute.UnknownMarker)
		if o := scope.Outcome(); o.Changed || o.Settled {
			t.Errorf("outcome is %+v", o)
		}
		spy.FailCapture.Store(false)
		e.wantHealed(unknown, resume)
	})
}

// wantHealed expects one request with an unknown marker to replace it by one
// that is pending, and then reached like any other.
func (e *env) wantHealed(unknown dbroute.Marker, resume func()) {
	e.tb.Helper()
	ctx, scope := e.request(unknown)
	e.want(ctx, "new", 1, dbroute.UnknownMarker)
	o := scope.Outcome()
	if !o.Changed || o.Marker.Unknown || o.Marker.Commit.IsZero() {
		e.tb.Fatalf("outcome is %+v", o)
	}
	ctx, _ = e.request(o.Marker)
	e.want(ctx, "new", 1, dbroute.CommitNotReached)
	resume()
	e.applied()
	ctx, _ = e.request(o.Marker)
	e.want(ctx, "new", 2, dbroute.CommitReached)
}

func TestCommitOfUnknownOutcome(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		proxy := newCutter(t, e.stack.Primary().Addr())
		cfg := e.config
		cfg.Primary = proxy.url(t, cfg.Primary)
		e.Cluster = openCluster(t, cfg)
		resume := e.pause()

		proxy.armed.Store(true)
		ctx, scope := e.request(dbroute.Marker{})
		err := e.Write(ctx, "w", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE notes SET text = 'new' WHERE id = 1`)
			return err
		})
		if !errors.Is(err, dbroute.ErrCommitUnknown) {
			t.Fatalf("got %v", err)
		}
		e.want(ctx, "new", 1, dbroute.AfterWrite)
		e.wantHealed(scope.Outcome().Marker, resume)
	})
}

// cutter is a proxy that, once armed, lets the next COMMIT pass and cuts the
// connection before its answer, or only keeps that to itself if it is mute.
type cutter struct {
	listener    net.Listener
	armed, mute atomic.Bool
}

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	stacktest.Must(t, err)
	t.Cleanup(func() { l.Close() })
	c := &cutter{listener: l}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(client, target)
		}
	}()
	return c
}

func (c *cutter) url(t *testing.T, direct string) string {
	t.Helper()
	u, err := url.Parse(direct)
	stacktest.Must(t, err)
	u.Host = c.listener.Addr().String()
	return u.String()
}

func (c *cutter) serve(client net.Conn, target string) {
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	var cut atomic.Bool
	go func() {
		defer client.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			switch {
			case err != nil, cut.Load() && !c.mute.Load():
				return // the answer to COMMIT has come, so it has happened
			case !cut.Load():
				client.Write(buffer[:n])
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.HasSuffix(bytes.ToLower(bytes.TrimRight(buffer[:n], "\x00")), []byte("commit")) && c.armed.CompareAndSwap(true, false) {
			cut.Store(true)
		}
		server.Write(buffer[:n])
	}
}

// After a failover that lost commits, the same position is another commit.
func TestOtherTimelineIsUnknown(t *testing.T) {
	stacktest.Only(t, "postgres")
	servers := stacktest.Start(t, "postgres", 2)
	e := newEnvOn(t, "postgres", servers)
	ctx := stacktest.Context(t)
	old, promoted := servers.Primary(), servers.Replicas()[0]
	for _, r := range servers.Replicas() {
		stacktest.Must(t, r.Stop(ctx))
	}
	lost := e.markerOf("lost")
	stacktest.Must(t, old.Kill(ctx))
	for _, r := range servers.Replicas() {
		stacktest.Must(t, r.Start(ctx))
	}
	stacktest.Must(t, promoted.Promote(ctx))

	cfg, database := e.config, databaseOf(t, e)
	follower := servers.Replicas()[0]
	cfg.Primary, cfg.Replicas = promoted.URL(database), []string{follower.URL(database)}
	e.Cluster = openCluster(t, cfg)
	e.exec(`INSERT INTO notes (text) SELECT repeat('x', 100) FROM generate_series(1, 1000)`) // past the lost position
	e.applied()
	now, err := e.LastCommitID(ctx)
	stacktest.Must(t, err)
	if merged, err := e.MergeCommitIDs(now, lost.Commit); err == nil {
		t.Errorf("%v and %v were merged to %v", now, lost.Commit, merged)
	}

	request, scope := e.request(lost)
	e.want(request, "old", promoted.ID(), dbroute.UnknownMarker)
	o := scope.Outcome()
	if !o.Changed || o.Marker.Unknown {
		t.Fatalf("outcome is %+v", o)
	}
	e.wantEventually(o.Marker, seen{"old", follower.ID(), dbroute.CommitReached})
}

// An older copy can be loaded into a replica of MySQL or MariaDB while it runs.
func TestReplicaRebuiltInPlaceHasToCatchUp(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		var position, load string
		switch engine {
		case "mysql":
			position, load = `@@GLOBAL.gtid_executed`, `RESET REPLICA; SET GLOBAL super_read_only = OFF; RESET BINARY LOGS AND GTIDS; SET GLOBAL gtid_purged = `
		case "mariadb":
			position, load = `@@GLOBAL.gtid_slave_pos`, `RESET MASTER; SET GLOBAL gtid_slave_pos = `
		default:
			t.Skip("PostgreSQL has to be stopped for that")
		}
		servers := stacktest.Start(t, engine, 1)
		e := newEnvOn(t, engine, servers)
		e.watched()
		u, err := url.Parse(servers.Replicas()[0].AdminURL(""))
		stacktest.Must(t, err)
		db, err := sql.Open("mysql", u.User.String()+"@tcp("+u.Host+")/"+databaseOf(t, e)+"?multiStatements=true")
		stacktest.Must(t, err)
		defer db.Close()
		db.SetMaxOpenConns(1)
		var before string
		stacktest.Must(t, db.QueryRow(`SELECT `+position).Scan(&before))
		m := e.markerOf("new")
		e.wantEventually(m, seen{"new", 2, dbroute.CommitReached})
		_, err = db.Exec(`STOP REPLICA; ` + load + `'` + before + `'; SET sql_log_bin = OFF; UPDATE notes SET text = 'old' WHERE id = 1`)
		stacktest.Must(t, err)
		e.wantState(1, dbroute.Joining)
		ctx, _ := e.request(m)
		e.want(ctx, "new", 1, dbroute.NoReplica)
		_, err = db.Exec(`START REPLICA`)
		stacktest.Must(t, err)
		e.wantEventually(m, seen{"new", 2, dbroute.CommitReached})
	})
}

// PostgreSQL that waits by itself has the commit at once, and cannot say so without its
// source: it does not know on which timeline it is.
func TestReplicaThatCannotSayWhatItHasIsNotAskedWithoutPause(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		e := newEnvOn(t, engine, servers)
		e.Cluster = openCluster(t, e.config)
		spy := e.Spy()
		m := e.markerOf("new")
		e.applied()
		e.stopReplication(servers.Replicas()[0])
		ctx, scope := e.NewScope(stacktest.Context(t))
		scope.RouteAnywhere(dbroute.Marker{})
		_, err := e.HasCommitID(ctx, m.Commit, 500*time.Millisecond)
		stacktest.Must(t, err)
		if n := spy.Waited.Load(); n > 20 {
			t.Errorf("in half a second it is told to wait %d times", n)
		}
	})
}
