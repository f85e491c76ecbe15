package dbroute_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// Whoever does not look whether a lock was to be had commits nothing, wherever the error
// comes: with a SELECT … FOR UPDATE of MySQL and MariaDB it comes with the rows.
func TestWaitForALockThatNobodyLooksAtUndoesTheWrite(t *testing.T) {
	const lock = `SELECT id FROM notes WHERE id >= 1 ORDER BY id FOR UPDATE`
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.exec(`INSERT INTO notes (text) VALUES ('second')`)
		cfg := e.config
		cfg.Primary += e.impatient
		impatient := openCluster(t, cfg)
		insert := func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO notes (text) VALUES ('undone')`)
			return err
		}
		stacktest.Must(t, e.Write(stacktest.Context(t), "owner", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE notes SET text = 'locked' WHERE id = 2`)
			stacktest.Must(t, err)
			for name, wait := range map[string]func(context.Context, *dbroute.Tx) error{
				"rows": func(ctx context.Context, tx *dbroute.Tx) error {
					rows, err := tx.QueryContext(ctx, lock)
					if err != nil {
						return nil
					}
					for rows.Next() {
					}
					insert(ctx, tx)
					return nil
				},
				"rows that are not read": func(ctx context.Context, tx *dbroute.Tx) error {
					if rows, err := tx.QueryContext(ctx, lock); err == nil {
						rows.Close()
					}
					return nil
				},
				"a row": func(ctx context.Context, tx *dbroute.Tx) error {
					tx.QueryRowContext(ctx, `SELECT id FROM notes WHERE id >= 2 ORDER BY id FOR UPDATE`).Scan(new(int))
					insert(ctx, tx)
					return nil
				},
				"a statement before a query": func(ctx context.Context, tx *dbroute.Tx) error {
					tx.ExecContext(ctx, `UPDATE notes SET text = 'new' WHERE id = 2`)
					return tx.QueryRowContext(ctx, `SELECT 1`).Scan(new(int))
				},
				"the library's own": func(ctx context.Context, tx *dbroute.Tx) error {
					tx.SQL().ExecContext(ctx, `UPDATE notes SET text = 'new' WHERE id = 2`)
					return nil
				},
			} {
				err := impatient.Write(stacktest.Context(t), "w", func(ctx context.Context, tx *dbroute.Tx) error {
					stacktest.Must(t, insert(ctx, tx))
					return wait(ctx, tx)
				})
				contended := errors.Is(err, dbroute.ErrContended) || e.Engine() == dbroute.PostgreSQL // says only that the transaction was aborted
				if err == nil || !contended || errors.Is(err, context.Canceled) || errors.Is(err, dbroute.ErrCommitUnknown) {
					t.Errorf("%s: error %v", name, err)
				}
			}
			return nil
		}))
		if n := count(t, e.PrimaryDB(), `SELECT count(*) FROM notes WHERE text = 'undone'`); n != 0 {
			t.Errorf("%d rows were kept of the writes that have waited", n)
		}
		stacktest.Must(t, impatient.Write(stacktest.Context(t), "w", insert))
	})
}

// The rest of a write whose beginning a deadlock has undone must not be kept.
func TestDeadlockAmongRowsUndoesTheWrite(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.exec(`INSERT INTO notes (text) VALUES ('second')`)
		held, other := make(chan struct{}), make(chan error, 1)
		hold := sync.OnceFunc(func() { close(held) })
		err := e.Write(stacktest.Context(t), "reader", func(ctx context.Context, tx *dbroute.Tx) error {
			if _, err := tx.ExecContext(ctx, `UPDATE notes SET text = 'undone' WHERE id = 1`); err != nil {
				return err
			}
			go func() {
				defer hold()
				other <- e.Write(stacktest.Context(t), "other", func(ctx context.Context, tx *dbroute.Tx) error {
					for _, statement := range []string{
						`INSERT INTO notes (text) SELECT 'kept' FROM notes a, notes b, notes c`, // InnoDB ends who has changed fewer rows
						`UPDATE notes SET text = 'kept' WHERE id = 2`,
					} {
						if _, err := tx.ExecContext(ctx, statement); err != nil {
							return err
						}
					}
					hold()
					_, err := tx.ExecContext(ctx, `UPDATE notes SET text = 'kept' WHERE id = 1`)
					return err
				})
			}()
			<-held
			stacktest.LockAwaited(t, e.stack)
			rows, err := tx.QueryContext(ctx, `SELECT id FROM notes WHERE id <= 2 ORDER BY id FOR UPDATE`)
			if err == nil {
				for rows.Next() {
				}
			}
			tx.ExecContext(ctx, `INSERT INTO notes (text) VALUES ('undone')`)
			return nil
		})
		otherErr := <-other
		if (err == nil) == (otherErr == nil) {
			t.Errorf("one of two has to be the victim: %v, %v", err, otherErr)
		}
		if n := count(t, e.PrimaryDB(), `SELECT count(*) FROM notes WHERE text = 'undone'`); err != nil && n != 0 {
			t.Errorf("%d rows of the victim's were kept", n)
		}
	})
}

func TestLockTimeoutAmongTheOptionsOfTheURL(t *testing.T) {
	stacktest.Only(t, "postgres")
	e := newEnv(t, "postgres")
	cfg := e.config
	cfg.Primary += "&options=-c%20lock_timeout%3D2s"
	if n := count(t, openCluster(t, cfg).PrimaryDB(), `SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'`); n != 2000 {
		t.Errorf("a lock is waited for for %d ms", n)
	}
}
