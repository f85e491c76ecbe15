package dbroute_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"freshread/internal/dbroute"
	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
)

// watched opens a cluster that is watched closely, and waits until its replicas
// are up.
func (e *env) watched(change ...func(*dbroute.Config)) {
	e.tb.Helper()
	e.watch(change...)
	begun := stacktest.Context(e.tb)
	for e.Status()[0].Position.IsZero() && e.Config().NoCommitIDs == "" { // Watch has not begun
		time.Sleep(time.Millisecond)
		stacktest.Must(e.tb, begun.Err())
	}
	for i := range e.Replicas() {
		e.wantState(i+1, dbroute.Up)
	}
}

// watch is watched for who does not wait.
func (e *env) watch(change ...func(*dbroute.Config)) {
	e.tb.Helper()
	cfg := e.config
	cfg.HealthInterval, cfg.HealthTimeout = 20*time.Millisecond, time.Second
	for _, f := range change {
		f(&cfg)
	}
	e.Cluster = openCluster(e.tb, cfg)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { e.Watch(ctx); close(done) }()
	e.tb.Cleanup(func() { stop(); <-done })
}

// wantState waits until the server, the primary being 0, is in a state.
func (e *env) wantState(server int, want dbroute.State) {
	e.tb.Helper()
	var got dbroute.ServerStatus
	for ctx := stacktest.Context(e.tb); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if got = e.Status()[server]; got.State == want {
			return
		}
	}
	e.tb.Fatalf("server is %+v, want it %s", got, want)
}

// On servers on which nothing was ever committed there is nothing that a replica has to
// reach before it is read.
func TestReplicaOfAFreshPrimaryIsRead(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		if strings.HasPrefix(engine, "postgres") {
			t.Skip("PostgreSQL has a position from its beginning")
		}
		servers := stacktest.Start(t, engine, 1)
		e := &env{dialect: dialectOf(engine), tb: t, stack: servers, config: dbroute.Config{
			Name: "test", Primary: servers.Primary().AdminURL(""), Replicas: []string{servers.Replicas()[0].AdminURL("")},
			CheckTimeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
		}}
		e.watch()
		ctx := stacktest.Context(t)
		for len(e.Status()[1].Lags) == 0 { // it has not been looked at
			time.Sleep(time.Millisecond)
			stacktest.Must(t, ctx.Err())
		}
		e.wantState(1, dbroute.Up)
		wantDatabases := func(m dbroute.Marker, want ...any) {
			t.Helper()
			ctx, scope := e.request(m)
			var n, server int
			stacktest.Must(t, e.Read(ctx, "databases", func(q dbroute.Querier) error {
				return q.QueryRowContext(ctx, `SELECT count(*), `+e.serverID+` FROM information_schema.schemata WHERE schema_name = 'fresh'`).Scan(&n, &server)
			}))
			if diff := cmp.Diff(want, []any{n, server, scope.Accesses()[0].Reason}); diff != "" {
				t.Errorf("databases, server and reason (-want +got):\n%s", diff)
			}
		}
		wantDatabases(dbroute.Marker{}, 0, 2, dbroute.NoPendingCommit)
		nothing, err := e.LastCommitID(ctx)
		if has, hasErr := e.HasCommitID(ctx, nothing, 0); !nothing.IsZero() || !has || err != nil || hasErr != nil {
			t.Fatalf("the primary is at %q, %v, which is reached: %v, %v", nothing, err, has, hasErr)
		}

		resume := e.pause()
		writer, scope := e.request(dbroute.Marker{})
		stacktest.Must(t, e.Write(writer, "first", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `CREATE DATABASE fresh`)
			return err
		}))
		first := scope.Outcome().Marker
		if merged, err := e.MergeCommitIDs(nothing, first.Commit); merged != first.Commit || first.Commit.IsZero() || err != nil {
			t.Errorf("merged with the first commit: %q, %v", merged, err)
		}
		wantDatabases(first, 1, 1, dbroute.CommitNotReached)
		wantDatabases(dbroute.Marker{}, 0, 2, dbroute.NoPendingCommit)
		resume()
		e.applied()
		wantDatabases(first, 1, 2, dbroute.CommitReached)
		anywhere, scope := e.NewScope(ctx)
		scope.RouteAnywhere(dbroute.Marker{})
		if has, err := e.HasCommitID(anywhere, first.Commit, 0); !has || err != nil {
			t.Errorf("the replica has the first commit: %v, %v", has, err)
		}
	})
}

// A failover leaves behind the position that a replica had to reach before it is read.
func TestReplicaJoinsAcrossAFailover(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		e := newEnvOn(t, engine, servers)
		ctx := stacktest.Context(t)
		primary, replica := servers.Primary(), servers.Replicas()[0]
		// So slow that the replica is on the new timeline when it is looked at again.
		e.watched(func(cfg *dbroute.Config) { cfg.HealthInterval = 2 * time.Second })
		stacktest.Must(t, replica.SetDelay(ctx, time.Hour))
		e.exec(`UPDATE notes SET text = 'new' WHERE id = 1`)
		stacktest.Must(t, replica.Restart(ctx))
		e.wantState(1, dbroute.Joining)
		time.Sleep(2 * e.Config().HealthInterval) // for the poll that says what it has to reach
		stacktest.Must(t, primary.Demote(ctx))
		stacktest.Must(t, primary.Reinstate(ctx))
		e.wantState(0, dbroute.Up)
		stacktest.Must(t, replica.SetDelay(ctx, 0))
		e.wantState(1, dbroute.Up)
	})
}

// traffic reads without pause, as anonymous clients do, until stopped. Any error
// fails the test.
func (e *env) traffic() (stop func()) {
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !done.Load() {
				ctx, scope := e.NewScope(context.Background())
				scope.RouteByCommit(ctx, dbroute.Marker{})
				err := e.Read(ctx, "notes.Text", func(q dbroute.Querier) error {
					return q.QueryRowContext(ctx, `SELECT text FROM notes WHERE id = 1`).Scan(new(string))
				})
				if err != nil {
					e.tb.Error(err)
				}
			}
		})
	}
	return func() { done.Store(true); wg.Wait() }
}

func TestReplicaKilledUnderTraffic(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 2)
		e := newEnvOn(t, engine, servers)
		e.watched()
		stop := e.traffic()
		e.wantMoreReadsBy(2)
		e.wantMoreReadsBy(3)
		stacktest.Must(t, servers.Replicas()[0].Kill(stacktest.Context(t)))
		e.wantState(1, dbroute.Down)
		e.wantMoreReadsBy(3)
		stacktest.Must(t, servers.Replicas()[0].Start(stacktest.Context(t)))
		e.wantState(1, dbroute.Up)
		e.wantMoreReadsBy(2)
		stop()
	})
}

// wantMoreReadsBy waits until a server has run another read of the traffic.
func (e *env) wantMoreReadsBy(server int) {
	e.tb.Helper()
	reads := func() (n uint64) {
		for _, a := range e.Counts().Accesses {
			if a.ServerID == server && !a.Write {
				n += a.N
			}
		}
		return n
	}
	before := reads()
	for ctx := stacktest.Context(e.tb); reads() == before; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			e.tb.Fatalf("server %d is not read", server)
		}
	}
}

// stallable is a proxy whose connections can be made to hang, be slow, and lead
// elsewhere.
type stallable struct {
	net.Listener
	gate   sync.RWMutex
	delay  atomic.Int64 // nanoseconds, of all that is sent either way
	target atomic.Value // of string, for new connections
}

func newStallable(t *testing.T, target string) *stallable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	stacktest.Must(t, err)
	t.Cleanup(func() { l.Close() })
	p := &stallable{Listener: l}
	p.target.Store(target)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", p.target.Load().(string))
			if err != nil {
				client.Close()
				continue
			}
			go p.pump(client, server)
			go p.pump(server, client)
		}
	}()
	return p
}

func (p *stallable) pump(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		time.Sleep(time.Duration(p.delay.Load()))
		p.gate.RLock()
		_, err = to.Write(buffer[:n])
		p.gate.RUnlock()
		if err != nil {
			return
		}
	}
}

func TestHangingReplicaCostsOneShortTimeout(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		proxy := newStallable(t, e.stack.Replicas()[0].Addr())
		e.watched(func(cfg *dbroute.Config) {
			c := &cutter{listener: proxy.Listener}
			cfg.Replicas = []string{c.url(t, cfg.Replicas[0])}
		})
		ctx, _ := e.request(dbroute.Marker{})
		e.want(ctx, "old", 2, dbroute.NoPendingCommit)

		proxy.gate.Lock()
		start := time.Now()
		hanging, _ := e.request(dbroute.Marker{})
		e.want(hanging, "old", 1, dbroute.ReplicaFailed)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("the read took %v", took)
		}
		e.wantState(1, dbroute.Down)
		next, _ := e.request(dbroute.Marker{})
		e.want(next, "old", 1, dbroute.NoReplica)
		proxy.gate.Unlock()
		e.wantState(1, dbroute.Up)
		e.wantEventually(dbroute.Marker{}, seen{"old", 2, dbroute.NoPendingCommit})
	})
}

// Nor does it cost the page of a client that has written more, however much that reads.
func TestHangingReplicaCostsAPendingMarkerOneCheckTimeout(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		cfg := e.config
		cfg.CheckTimeout = time.Second
		e.Cluster = openCluster(t, cfg)
		ctx, _ := e.request(dbroute.Marker{})
		e.want(ctx, "old", 2, dbroute.NoPendingCommit) // and leaves a connection
		resume := e.pause()
		marker := e.markerOf("new")
		replica := e.stack.Replicas()[0]
		stacktest.Must(t, replica.Hang())
		t.Cleanup(func() { stacktest.Must(t, replica.Continue()) })

		start := time.Now()
		page, _ := e.request(marker)
		const reads = 6
		for range reads {
			e.want(page, "new", 1, dbroute.CheckFailed)
		}
		if took := time.Since(start); took < cfg.CheckTimeout || took > reads/2*cfg.CheckTimeout {
			t.Errorf("%d reads took %v, want one check timeout of %v", reads, took, cfg.CheckTimeout)
		}
		stacktest.Must(t, replica.Continue())
		resume()
		e.applied()
		e.wantEventually(marker, seen{"new", 2, dbroute.CommitReached})
	})
}

// Anybody may ask for the state of the servers, and as often as they like.
func TestFloodOfPingsTakesNoServerOut(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		primary, replica := newStallable(t, e.stack.Primary().Addr()), newStallable(t, e.stack.Replicas()[0].Addr())
		e.watched(func(cfg *dbroute.Config) {
			cfg.Primary = (&cutter{listener: primary.Listener}).url(t, cfg.Primary)
			cfg.Replicas = []string{(&cutter{listener: replica.Listener}).url(t, cfg.Replicas[0])}
		})
		// So one connection answers fifty pings a second, and many more are sent.
		primary.delay.Store(int64(10 * time.Millisecond))
		replica.delay.Store(int64(10 * time.Millisecond))
		ctx, stop := context.WithCancel(stacktest.Context(t))
		var flood sync.WaitGroup
		for range 200 {
			flood.Go(func() {
				for ctx.Err() == nil {
					for _, s := range e.Ping(ctx) {
						if s.Err != nil {
							t.Errorf("server %d: %v", s.ID, s.Err)
							return
						}
					}
				}
			})
		}
		defer flood.Wait()
		defer stop()
		for begun := time.Now(); time.Since(begun) < 3*e.Config().HealthTimeout; {
			for _, s := range e.Status() {
				if s.State != dbroute.Up {
					t.Fatalf("server %d is %s: %s", s.ID, s.State, s.Cause)
				}
			}
			request, _ := e.request(dbroute.Marker{})
			e.want(request, "old", 2, dbroute.NoPendingCommit)
		}
	})
}

func TestReplicaTooFarBehindIsTakenOut(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.watched(func(cfg *dbroute.Config) { cfg.MaxReplicaLag = 200 * time.Millisecond })
		resume := e.pause()
		e.exec(`UPDATE notes SET text = 'new' WHERE id = 1`)
		e.wantState(1, dbroute.Behind)
		if s := e.Status()[1]; s.Lag < 200*time.Millisecond || s.Behind <= 0 {
			t.Errorf("status is %+v", s)
		}
		ctx, _ := e.request(dbroute.Marker{})
		e.want(ctx, "new", 1, dbroute.NoReplica)
		resume()
		e.wantState(1, dbroute.Up)
		ctx, _ = e.request(dbroute.Marker{})
		e.want(ctx, "new", 2, dbroute.NoPendingCommit)
		caughtUp := func() bool { s := e.Status()[1]; return s.Lag == 0 && s.Behind == 0 }
		for ctx := stacktest.Context(t); !caughtUp(); time.Sleep(5 * time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatalf("status is %+v", e.Status()[1])
			}
		}
	})
}

// A replica that comes back with older data, as a rebuilt one may, is not read
// before it has reached what the primary had when it was found.
func TestReplicaThatComesBackOldHasToCatchUp(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		e := newEnvOn(t, engine, servers)
		e.watched()
		replica := servers.Replicas()[0]
		stacktest.Must(t, replica.Stop(stacktest.Context(t)))
		e.wantState(1, dbroute.Down)
		e.exec(`UPDATE notes SET text = 'new' WHERE id = 1`)
		stacktest.Must(t, replica.SetDelay(stacktest.Context(t), time.Hour))
		stacktest.Must(t, replica.Start(stacktest.Context(t)))
		e.wantState(1, dbroute.Joining)
		for range 20 {
			ctx, _ := e.request(dbroute.Marker{})
			e.want(ctx, "new", 1, dbroute.NoReplica)
		}
		stacktest.Must(t, replica.SetDelay(stacktest.Context(t), 0))
		e.wantState(1, dbroute.Up)
		ctx, _ := e.request(dbroute.Marker{})
		e.want(ctx, "new", 2, dbroute.NoPendingCommit)
	})
}

func TestPrimaryThatRestartedIsRedialled(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		e := newEnvOn(t, engine, servers)
		e.watched()
		pool := func() { // as many connections as there are goroutines, and idle afterwards
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					err := e.Write(context.Background(), "w", func(ctx context.Context, tx *dbroute.Tx) error {
						_, err := tx.ExecContext(ctx, e.sleeping(0.05))
						return err
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		pool()
		pool() // the driver pings a connection before its first reuse, and not before the next
		stacktest.Must(t, servers.Primary().Stop(stacktest.Context(t)))
		e.wantState(0, dbroute.Down)
		stacktest.Must(t, servers.Primary().Start(stacktest.Context(t)))
		e.wantState(0, dbroute.Up)
		pool()
	})
}

// One replica is current and one is paused.
func TestOneOfTwoReplicasIsLate(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 2)
		e := newEnvOn(t, engine, servers)
		e.watched()
		stacktest.Must(t, servers.Replicas()[1].PauseApply(stacktest.Context(t)))
		marker := e.markerOf("new")
		e.wantEventually(marker, seen{"new", 2, dbroute.CommitReached})
		for n := range uint64(20) { // whichever replica is its own
			ctx, scope := e.request(marker)
			scope.Prefer(n)
			e.want(ctx, "new", 2, dbroute.CommitReached)
		}
		other, scope := e.request(dbroute.Marker{})
		scope.Prefer(1)
		e.want(other, "old", 3, dbroute.NoPendingCommit)
	})
}

func TestAtMostTwoReplicasAreAsked(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 3)
		e := newEnvOn(t, engine, servers)
		e.Cluster = openCluster(t, e.config)
		spy := e.Spy()
		e.pause()
		marker := e.markerOf("new")
		ctx, _ := e.request(marker)
		e.want(ctx, "new", 1, dbroute.CommitNotReached)
		if n := spy.Asked.Load(); n != 2 {
			t.Errorf("%d replicas were asked", n)
		}
	})
}

func TestClientKeepsToItsReplica(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 2)
		e := newEnvOn(t, engine, servers)
		for n := range uint64(4) {
			for range 3 {
				ctx, scope := e.request(dbroute.Marker{})
				scope.Prefer(n)
				e.want(ctx, "old", int(2+n%2), dbroute.NoPendingCommit)
			}
		}
		stopReplica(t, servers, 0)
		for range 3 { // its own is gone, so all of its reads are on the other
			ctx, scope := e.request(dbroute.Marker{})
			scope.Prefer(0)
			if got := e.see(ctx); got.Text != "old" || got.Server == 2 {
				t.Errorf("read %+v", got)
			}
		}
		ctx, scope := e.request(dbroute.Marker{})
		scope.Prefer(0)
		e.want(ctx, "old", 3, dbroute.NoPendingCommit)
	})
}

func stopReplica(t *testing.T, servers *stack.Stack, i int) {
	t.Helper()
	stacktest.Must(t, servers.Replicas()[i].Stop(stacktest.Context(t)))
}

// A replica that was promoted has a history of its own, and no lag to tell it by.
func TestPromotedReplicaIsTakenOut(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		e := newEnvOn(t, engine, servers)
		e.watched()
		ctx, _ := e.request(dbroute.Marker{})
		e.want(ctx, "old", 2, dbroute.NoPendingCommit)
		stacktest.Must(t, servers.Replicas()[0].Promote(stacktest.Context(t)))
		e.wantState(1, dbroute.Down)
		if cause := e.Status()[1].Cause; !strings.Contains(cause, "is a primary, not a replica") {
			t.Errorf("the cause is %q", cause)
		}
		ctx, _ = e.request(dbroute.Marker{})
		e.want(ctx, "old", 1, dbroute.NoReplica)
	})
}

// A primary that hangs ends no request by itself. After a while its connections
// are closed, and whoever waits is told.
func TestHangingPrimaryFailsWhoWaits(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		proxy := newStallable(t, e.stack.Primary().Addr())
		e.watched(func(cfg *dbroute.Config) {
			c := &cutter{listener: proxy.Listener}
			cfg.Primary = c.url(t, cfg.Primary)
		})
		ctx, _ := e.request(dbroute.Marker{})
		e.write(ctx, "new")
		proxy.gate.Lock()
		start := time.Now()
		err := e.Write(ctx, "w", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `SELECT 1`)
			return err
		})
		if took := time.Since(start); !errors.Is(err, dbroute.ErrPrimaryUnavailable) || took > 20*time.Second {
			t.Errorf("got %v after %v", err, took)
		}
		reader, _ := e.request(dbroute.Marker{})
		if got := e.see(reader); got.Server != 2 {
			t.Errorf("a reader without a marker reads %+v", got)
		}
		proxy.gate.Unlock()
		e.wantState(0, dbroute.Up)
		e.write(ctx, "newer")
	})
}

// The address of the primary leads to a standby, which is then promoted.
func TestAnotherPrimaryAtTheSameAddress(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		e := newEnvOn(t, engine, servers)
		proxy := newStallable(t, servers.Primary().Addr())
		e.watched(func(cfg *dbroute.Config) {
			c := &cutter{listener: proxy.Listener}
			cfg.Primary, cfg.Replicas = c.url(t, cfg.Primary), nil
		})
		write := func(text string) error {
			return e.Write(stacktest.Context(t), "notes.Set", func(ctx context.Context, tx *dbroute.Tx) error {
				_, err := tx.ExecContext(ctx, `UPDATE notes SET text = ? WHERE id = 1`, text)
				return err
			})
		}
		stacktest.Must(t, write("before"))
		e.applied()
		old, next := servers.Primary(), servers.Replicas()[0]
		proxy.target.Store(next.Addr())
		stacktest.Must(t, old.Kill(stacktest.Context(t)))
		e.wantState(0, dbroute.Down)
		if err := write("to a standby"); !errors.Is(err, dbroute.ErrPrimaryUnavailable) {
			t.Errorf("a write to a standby: %v", err)
		}
		stacktest.Must(t, next.Promote(stacktest.Context(t)))
		e.wantState(0, dbroute.Up)
		stacktest.Must(t, write("after"))
		if got, want := e.see(stacktest.Context(t)), (seen{"after", next.ID(), ""}); got != want {
			t.Errorf("read %+v, want %+v", got, want)
		}
	})
}
