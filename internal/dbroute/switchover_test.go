package dbroute_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// A primary that was demoted applies what another writes, later: it must not answer
// what is read on the primary so as not to be stale, on no connection that it has.
func TestDemotedPrimaryIsNotRead(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		e := newEnvOn(t, engine, servers)
		for _, noIDs := range []string{"", "nobody has prepared the servers"} {
			e.watched(func(cfg *dbroute.Config) { cfg.NoCommitIDs = noIDs })
			guard := e.PrimaryOnly("guard")
			held := e.held(context.Background(), guard)
			stacktest.Must(t, servers.Primary().Demote(stacktest.Context(t)))
			e.wantState(0, dbroute.Down)
			if err := held(); !errors.Is(err, dbroute.ErrPrimaryUnavailable) {
				t.Errorf("no commit IDs: %q: a read on a connection in use: %v", noIDs, err)
			}
			for range 3 {
				if err := readText(t, guard); !errors.Is(err, dbroute.ErrPrimaryUnavailable) {
					t.Errorf("no commit IDs: %q: a read: %v", noIDs, err)
				}
			}
			stacktest.Must(t, servers.Primary().Reinstate(stacktest.Context(t)))
			e.wantState(0, dbroute.Up)
			stacktest.Must(t, readText(t, guard))
		}
	})
}

// The address of the primary leads to another, and the old one does not notice. As soon
// as one connection has found that out, no other leads to the old one.
func TestOpenConnectionsLeaveThePrimaryThatWas(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		e := newEnvOn(t, engine, servers)
		next := servers.Replicas()[0]
		proxy := newStallable(t, servers.Primary().Addr())
		cfg := e.config
		c := &cutter{listener: proxy.Listener}
		cfg.Primary, cfg.Replicas = c.url(t, cfg.Primary), nil
		e.Cluster = openCluster(t, cfg)
		held, held2 := e.held(context.Background(), e.Cluster), e.held(context.Background(), e.Cluster)
		stacktest.Must(t, next.Promote(stacktest.Context(t)))
		proxy.target.Store(next.Addr())
		stacktest.Must(t, held2()) // goes back to the pool
		stacktest.Must(t, readText(t, e.Cluster))

		e.exec(`UPDATE notes SET text = 'new'`) // on a new connection: nothing was written before
		if got, want := e.see(stacktest.Context(t)), (seen{"new", next.ID(), ""}); got != want {
			t.Errorf("read %+v, want %+v", got, want)
		}
		if err := held(); !errors.Is(err, dbroute.ErrPrimaryUnavailable) {
			t.Errorf("a read on a connection to the old one: %v", err)
		}
	})
}

// held begins a read with ctx. What it returns goes on with it.
func (e *env) held(ctx context.Context, c *dbroute.Cluster) (goOn func() error) {
	e.tb.Helper()
	begun, next, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	begin := sync.OnceFunc(func() { close(begun) })
	go func() {
		done <- c.Read(ctx, "held", func(q dbroute.Querier) error {
			if err := q.QueryRowContext(context.Background(), `SELECT text FROM notes`).Scan(new(string)); err != nil {
				return err
			}
			begin()
			<-next
			return q.QueryRowContext(context.Background(), `SELECT text FROM notes`).Scan(new(string))
		})
	}()
	select {
	case <-begun:
	case err := <-done:
		e.tb.Fatal(err)
	}
	return func() error {
		close(next)
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Second):
			return errors.New("it hangs")
		}
	}
}

func readText(t *testing.T, c *dbroute.Cluster) error {
	return c.Read(stacktest.Context(t), "notes.Text", func(q dbroute.Querier) error {
		return q.QueryRowContext(context.Background(), `SELECT text FROM notes`).Scan(new(string))
	})
}
