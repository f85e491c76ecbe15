package dbroute_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// A driver gives up connecting by a deadline of its own. That is no impatience of
// whoever reads or writes.
func TestServerThatCannotBeDialedIsGone(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)

		e.Cluster = openCluster(t, e.config)
		stacktest.Must(t, e.BlackHole(dbroute.Replica, e.config.Replicas[0]+e.dialing))
		ctx, _ := e.request(dbroute.Marker{})
		e.want(ctx, "old", 1, dbroute.ReplicaFailed)

		e.Cluster = openCluster(t, e.config)
		stacktest.Must(t, e.BlackHole(dbroute.Primary, e.config.Primary+e.dialing))
		nothing := func(context.Context, *dbroute.Tx) error { return nil }
		if err := e.Write(ctx, "w", nothing); !errors.Is(err, dbroute.ErrPrimaryUnavailable) {
			t.Errorf("write: %v", err)
		}
		err := e.Read(dbroute.UsePrimary(ctx), "r", func(dbroute.Querier) error { return nil })
		if !errors.Is(err, dbroute.ErrPrimaryUnavailable) {
			t.Errorf("read: %v", err)
		}

		impatient, leave := context.WithTimeout(ctx, 50*time.Millisecond)
		defer leave()
		if err := e.Write(impatient, "w", nothing); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, dbroute.ErrPrimaryUnavailable) {
			t.Errorf("write of who does not wait that long: %v", err)
		}
	})
}

// A server that hangs still takes connections, and says nothing on them from some point
// on. Who has no deadline waits for that no longer than an attempt to connect may take.
func TestServerThatFallsSilentWhileConnecting(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		nothing := func(dbroute.Querier) error { return nil }
		for n := 1; ; n++ {
			e.Cluster = openCluster(t, e.config)
			mend, err := e.BreakReplica(e.config.Replicas[0]+e.dialing, n, true)
			stacktest.Must(t, err)
			ctx, scope := e.NewScope(context.Background())
			scope.RouteAnywhere(dbroute.Marker{})
			e.mustSoon(func() error { return e.Read(ctx, "nothing", nothing) })
			mend()
			server := scope.Accesses()[0].ServerID
			if n > 1 && server == 2 {
				break // it takes fewer writes to connect
			}
			if server != 1 {
				t.Fatalf("silent at write %d: read on server %d", n, server)
			}
		}

		silent, err := net.Listen("tcp", "127.0.0.1:0")
		stacktest.Must(t, err)
		defer silent.Close()
		cfg := e.config
		cfg.Primary = (&cutter{listener: silent}).url(t, cfg.Primary+e.dialing)
		e.Cluster = openCluster(t, cfg)
		e.mustSoon(func() error {
			err := e.Read(context.Background(), "nothing", nothing)
			if !errors.Is(err, dbroute.ErrPrimaryUnavailable) {
				t.Errorf("got %v", err)
			}
			return nil
		})
	})
}

// mustSoon fails the test if f fails or hangs.
func (e *env) mustSoon(f func() error) {
	e.tb.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		stacktest.Must(e.tb, err)
	case <-time.After(patience):
		e.tb.Fatal("it hangs")
	}
}

// Who asks for the primary's position and cannot wait has not found the primary gone.
func TestLastCommitIDOfWhoDoesNotWait(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		gone, leave := context.WithCancel(stacktest.Context(t))
		leave()
		if _, err := e.LastCommitID(gone); !errors.Is(err, context.Canceled) || errors.Is(err, dbroute.ErrPrimaryUnavailable) {
			t.Errorf("a client that left: %v", err)
		}

		cfg := e.config
		cfg.MaxOpenConns, cfg.CommitTimeout = 1, 100*time.Millisecond
		full := openCluster(t, cfg)
		ctx := dbroute.UsePrimary(stacktest.Context(t))
		stacktest.Must(t, full.Read(ctx, "r", func(dbroute.Querier) error {
			if _, err := full.LastCommitID(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, dbroute.ErrPrimaryUnavailable) {
				t.Errorf("a pool that is full: %v", err)
			}
			return nil
		}))

		stacktest.Must(t, e.BlackHole(dbroute.Primary, e.config.Primary+e.dialing))
		if _, err := e.LastCommitID(ctx); !errors.Is(err, dbroute.ErrPrimaryUnavailable) {
			t.Errorf("a primary that is gone: %v", err)
		}
	})
}
