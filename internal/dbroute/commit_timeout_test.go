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
		backend := func() (id int) {
			stacktest.Must(t, e.Touch(stacktest.Context(t), "backend", func(ctx context.Context, tx *dbroute.Tx) error {
				return tx.QueryRowContext(ctx, `SELECT `+e.connection).Scan(&id)
			}))
			return id
		}
		before := backend()
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
		if backend() == before {
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
