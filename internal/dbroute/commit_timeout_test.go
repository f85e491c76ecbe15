package dbroute_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// The primary may wait for a standby that does not answer, or hang.
func TestCommitThatIsNotAnsweredInTime(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		proxy := newCutter(t, e.stack.Primary().Addr())
		proxy.mute.Store(true)
		cfg := e.config
		cfg.Primary = proxy.url(t, cfg.Primary)
		cfg.CommitTimeout = 300 * time.Millisecond
		e.Cluster = openCluster(t, cfg)
		before := e.backend()
		resume := e.pause()

		proxy.armed.Store(true)
		ctx, scope := e.request(dbroute.Marker{})
		outcome := make(chan error, 1)
		start := time.Now()
		go func() {
			outcome <- e.Write(ctx, "w", func(ctx context.Context, tx *dbroute.Tx) error {
				_, err := tx.ExecContext(ctx, `UPDATE notes SET text = 'new' WHERE id = 1`)
				return err
			})
		}()
		select {
		case err := <-outcome:
			if took := time.Since(start); !errors.Is(err, dbroute.ErrCommitUnknown) || took < cfg.CommitTimeout {
				t.Errorf("after %v: %v", took, err)
			}
		case <-time.After(patience):
			proxy.listener.Close()
			t.Fatal("COMMIT is waited for for ever")
		}
		if e.backend() == before {
			t.Error("the connection is used again")
		}
		e.want(ctx, "new", 1, dbroute.AfterWrite)
		e.wantHealed(scope.Outcome().Marker, resume)
	})
}

// A transaction that is still open must not get back into the pool.
func TestCommitThatIsTooLateToBeSent(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		conn, err := e.PrimaryDB().Conn(stacktest.Context(t))
		stacktest.Must(t, err)
		defer conn.Close()
		conn.Raw(func(raw any) error {
			ctx, end := context.WithCancel(stacktest.Context(t))
			tx, err := raw.(driver.ConnBeginTx).BeginTx(ctx, driver.TxOptions{})
			stacktest.Must(t, err)
			end()
			if err := tx.Commit(); !errors.Is(err, context.Canceled) {
				t.Errorf("commit: %v", err)
			}
			if err := raw.(driver.SessionResetter).ResetSession(stacktest.Context(t)); !errors.Is(err, driver.ErrBadConn) {
				t.Errorf("the connection can be used again: %v", err)
			}
			return nil
		})
	})
}

// Nobody waits for ever for a ROLLBACK, and who has a deadline waits no longer than that.
func TestRollbackThatIsNotAnsweredInTime(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		proxy := newStallable(t, e.stack.Primary().Addr())
		cfg := e.config
		cfg.Primary = (&cutter{listener: proxy.Listener}).url(t, cfg.Primary)
		direct := e.on(e.Cluster)
		mine := errors.New("not to my taste")
		refuse := func(ctx context.Context) error {
			return e.Write(ctx, "w", func(ctx context.Context, tx *dbroute.Tx) error {
				_, err := tx.ExecContext(ctx, `UPDATE notes SET text = 'new' WHERE id = 1`)
				stacktest.Must(t, err)
				proxy.gate.Lock()
				return mine
			})
		}
		for name, c := range map[string]struct{ commit, deadline time.Duration }{
			"no deadline":  {300 * time.Millisecond, time.Hour},
			"own deadline": {time.Hour, time.Second},
		} {
			t.Run(name, func(t *testing.T) {
				cfg.CommitTimeout = c.commit
				e.Cluster = openCluster(t, cfg)
				before := e.backend()
				ctx, cancel := context.WithTimeout(context.Background(), c.deadline)
				defer cancel()
				outcome := make(chan error, 1)
				go func() { outcome <- refuse(ctx) }()
				select {
				case err := <-outcome:
					if !errors.Is(err, mine) {
						t.Errorf("got %v", err)
					}
				case <-time.After(patience):
					t.Error("ROLLBACK is waited for for ever")
				}
				proxy.gate.Unlock()
				if e.backend() == before {
					t.Error("the connection is used again")
				}
			})
		}
		direct.want(dbroute.UsePrimary(context.Background()), "old", 1, "")
	})
}

// backend returns which connection a transaction gets.
func (e *env) backend() (id int) {
	e.tb.Helper()
	stacktest.Must(e.tb, e.Touch(stacktest.Context(e.tb), "backend", func(ctx context.Context, tx *dbroute.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT `+e.connection).Scan(&id)
	}))
	return id
}
