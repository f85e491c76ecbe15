package dbroute_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

func TestTransactionUsesOneConnection(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.pause()
		ctx, scope := e.request(dbroute.Marker{})
		backends := map[int]bool{}
		stacktest.Must(t, e.Write(ctx, "family", func(ctx context.Context, tx *dbroute.Tx) error {
			parent, err := tx.InsertID(ctx, `INSERT INTO notes (text) VALUES (?)`, "parent")
			if err != nil {
				return err
			}
			err = e.Read(ctx, "notes.Parent", func(q dbroute.Querier) error {
				var backend int
				err := q.QueryRowContext(ctx, `SELECT id, `+e.connection+` FROM notes WHERE text = ?`, "parent").Scan(&parent, &backend)
				backends[backend] = true
				return err
			})
			if err != nil {
				return err
			}
			return e.Write(ctx, "notes.Child", func(ctx context.Context, tx *dbroute.Tx) error {
				var backend int
				if err := tx.QueryRowContext(ctx, `SELECT `+e.connection).Scan(&backend); err != nil {
					return err
				}
				backends[backend] = true
				_, err := tx.ExecContext(ctx, `INSERT INTO notes (parent, text) VALUES (?, ?)`, parent, "child")
				return err
			})
		}))
		if len(backends) != 1 {
			t.Errorf("the transaction used %d connections", len(backends))
		}
		if n := count(t, e.PrimaryDB(), `SELECT count(*) FROM notes p JOIN notes c ON c.parent = p.id`); n != 1 {
			t.Errorf("%d children, want 1", n)
		}
		if a := scope.Accesses(); a[0].Reason != dbroute.InTransaction || a[0].ServerID != 1 {
			t.Errorf("the read in the transaction is %+v", a[0])
		}
	})
}

func TestWriteThatFailsLeavesNothing(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		mine := errors.New("second thoughts")
		set := func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE notes SET text = 'new' WHERE id = 1`)
			return err
		}
		for name, attempt := range map[string]func(context.Context) error{
			"error": func(ctx context.Context) error {
				return e.Write(ctx, "w", func(ctx context.Context, tx *dbroute.Tx) error {
					return errors.Join(set(ctx, tx), mine)
				})
			},
			"panic": func(ctx context.Context) (err error) {
				defer func() { err = recover().(error) }()
				return e.Write(ctx, "w", func(ctx context.Context, tx *dbroute.Tx) error {
					stacktest.Must(t, set(ctx, tx))
					panic(mine)
				})
			},
			"an error of a nested write that the outer one ignores": func(ctx context.Context) error {
				return e.Write(ctx, "outer", func(ctx context.Context, tx *dbroute.Tx) error {
					e.Write(ctx, "inner", func(context.Context, *dbroute.Tx) error { return mine })
					return set(ctx, tx)
				})
			},
			"client gone before COMMIT": func(ctx context.Context) error {
				ctx, leave := context.WithCancelCause(ctx)
				return e.Write(ctx, "w", func(ctx context.Context, tx *dbroute.Tx) error {
					defer leave(mine)
					return set(ctx, tx)
				})
			},
		} {
			t.Run(name, func(t *testing.T) {
				ctx, scope := e.request(dbroute.Marker{})
				if err := attempt(ctx); !errors.Is(err, mine) {
					t.Errorf("got %v, want %v", err, mine)
				}
				if o := scope.Outcome(); o.Changed {
					t.Errorf("outcome is %+v", o)
				}
				e.want(dbroute.UsePrimary(ctx), "old", 1, dbroute.PrimaryAskedFor)
				if name == "panic" {
					e.want(ctx, "old", 2, dbroute.NoPendingCommit)
				} else {
					e.want(ctx, "old", 1, dbroute.AfterWrite)
				}
			})
		}
	})
}

func TestClientGoneAfterCommitLosesNothing(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		hold := e.commitHolder()
		e.applied()
		e.pause()
		ctx, scope := e.request(dbroute.Marker{})
		gone, leave := context.WithCancel(ctx)
		defer leave()
		stacktest.Must(t, e.Write(gone, "w", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE notes SET text = 'new' WHERE id = 1`)
			hold(leave)
			return err
		}))
		if gone.Err() == nil {
			t.Fatal("the client was to leave during COMMIT")
		}
		marker := scope.Outcome().Marker
		if marker.Unknown || marker.Commit.IsZero() {
			t.Errorf("marker is %+v", marker)
		}
		next, _ := e.request(marker)
		e.want(next, "new", 1, dbroute.CommitNotReached)
	})
}

// Whether a row was there must not depend on whether it was changed.
func TestRowThatIsUpdatedToWhatItWasCounts(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		stacktest.Must(t, e.Write(stacktest.Context(t), "w", func(ctx context.Context, tx *dbroute.Tx) error {
			result, err := tx.ExecContext(ctx, `UPDATE notes SET text = ? WHERE id = ?`, "old", 1)
			if err != nil {
				return err
			}
			if n, err := result.RowsAffected(); n != 1 || err != nil {
				t.Errorf("%d rows, %v", n, err)
			}
			return nil
		}))
	})
}

func TestTouchLeavesNoMarker(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.pause()
		touch := func(ctx context.Context, text string) {
			stacktest.Must(t, e.Touch(ctx, "notes.Touch", func(ctx context.Context, tx *dbroute.Tx) error {
				_, err := tx.ExecContext(ctx, `UPDATE notes SET text = ? WHERE id = 1`, text)
				return err
			}))
		}
		ctx, scope := e.request(dbroute.Marker{})
		touch(ctx, "touched")
		e.want(ctx, "old", 2, dbroute.NoPendingCommit)
		e.want(dbroute.UsePrimary(ctx), "touched", 1, dbroute.PrimaryAskedFor)
		if o := scope.Outcome(); o.Changed {
			t.Errorf("outcome is %+v", o)
		}
		if a := scope.Accesses()[0]; !a.Write || a.Reason != dbroute.Touched || a.ServerID != 1 {
			t.Errorf("access is %+v", a)
		}

		t.Run("unless it has a write inside", func(t *testing.T) {
			ctx, _ := e.request(dbroute.Marker{})
			stacktest.Must(t, e.Touch(ctx, "outer", func(ctx context.Context, _ *dbroute.Tx) error {
				e.write(ctx, "written")
				return nil
			}))
			e.want(ctx, "written", 1, dbroute.AfterWrite)
		})
	})
}

func TestOnWriteRunsInEachWriteOfTheScope(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		ctx, scope := e.request(dbroute.Marker{})
		var got []dbroute.Marker
		fail := errors.New("no room for it")
		var first error
		scope.OnWrite(func(ctx context.Context, tx *dbroute.Tx) error {
			tx.AfterCommit(func(_ context.Context, m dbroute.Marker) { got = append(got, m) })
			_, err := tx.ExecContext(ctx, `INSERT INTO notes (text) VALUES ('by the hook')`)
			return errors.Join(err, first)
		})
		kept := func() int {
			return count(t, e.PrimaryDB(), `SELECT count(*) FROM notes WHERE text = 'by the hook'`)
		}
		e.write(ctx, "new")
		if n := kept(); n != 1 || len(got) != 1 || got[0] != scope.Outcome().Marker {
			t.Errorf("after a write: %d rows, markers %+v", n, got)
		}
		stacktest.Must(t, e.Touch(ctx, "touch", func(context.Context, *dbroute.Tx) error { return nil }))
		if n := kept(); n != 1 || len(got) != 1 {
			t.Errorf("after a touch: %d rows, markers %+v", n, got)
		}
		first = fail
		err := e.Write(ctx, "w", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE notes SET text = 'not kept' WHERE id = 1`)
			return err
		})
		if n := kept(); !errors.Is(err, fail) || n != 1 || len(got) != 1 {
			t.Errorf("after a failed hook: %v, %d rows, markers %+v", err, n, got)
		}
		e.want(ctx, "new", 1, dbroute.AfterWrite)
	})
}

func TestAfterCommit(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		cfg := e.config
		cfg.MaxOpenConns = 1 // what runs then may need the write's own connection
		e.Cluster = openCluster(t, cfg)
		var got []dbroute.Marker
		register := func(ctx context.Context, tx *dbroute.Tx) {
			tx.AfterCommit(func(ctx context.Context, m dbroute.Marker) {
				got = append(got, m)
				stacktest.Must(t, e.Touch(ctx, "touch", func(context.Context, *dbroute.Tx) error { return nil }))
			})
		}

		ctx, scope := e.request(dbroute.Marker{})
		gone, leave := context.WithCancel(ctx)
		stacktest.Must(t, e.Write(gone, "outer", func(ctx context.Context, tx *dbroute.Tx) error {
			register(ctx, tx)
			tx.AfterCommit(func(context.Context, dbroute.Marker) { leave() })
			return e.Write(ctx, "inner", func(ctx context.Context, tx *dbroute.Tx) error {
				register(ctx, tx)
				return nil
			})
		}))
		if m := scope.Outcome().Marker; len(got) != 2 || got[0] != m || got[1] != m || m.Commit.IsZero() {
			t.Errorf("after a write: markers %+v, want twice %+v", got, m)
		}

		got = nil
		fail := errors.New("second thoughts")
		err := e.Write(stacktest.Context(t), "w", func(ctx context.Context, tx *dbroute.Tx) error {
			register(ctx, tx)
			return fail
		})
		if !errors.Is(err, fail) || len(got) != 0 {
			t.Errorf("after a rollback: %v, markers %+v", err, got)
		}
		stacktest.Must(t, e.Touch(stacktest.Context(t), "t", func(ctx context.Context, tx *dbroute.Tx) error {
			register(ctx, tx)
			return nil
		}))
		if want := (dbroute.Marker{Unknown: true}); len(got) != 1 || got[0] != want {
			t.Errorf("after a touch: markers %+v, want %+v", got, want)
		}
	})
}

func TestInTxKnowsTransactionsOfEveryCluster(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		outside, _ := e.request(dbroute.Marker{})
		for name, write := range map[string]func(context.Context, string, func(context.Context, *dbroute.Tx) error) error{
			"write": e.Write, "touch": e.Touch, "touch of another": e.PrimaryOnly("other").Touch,
		} {
			stacktest.Must(t, write(outside, name, func(ctx context.Context, _ *dbroute.Tx) error {
				if !dbroute.InTx(ctx) || dbroute.InTx(outside) {
					t.Errorf("%s: inside %v, outside %v", name, dbroute.InTx(ctx), dbroute.InTx(outside))
				}
				return nil
			}))
		}
	})
}

// A lock that somebody keeps holds up nobody for ever, and all of the write that waits
// for it is undone.
func TestLocksAreNotWaitedForForEver(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		stacktest.Must(t, e.Read(t.Context(), "patience", func(q dbroute.Querier) error {
			var rows, tables int
			err := q.QueryRowContext(t.Context(), e.patience).Scan(&rows, &tables)
			if rows != 10 || tables != 10 {
				t.Errorf("a row's lock is waited for for %d s, a table's for %d s", rows, tables)
			}
			return err
		}))
		cfg := e.config
		cfg.Primary += e.impatient
		impatient := e.on(openCluster(t, cfg))
		update := func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE notes SET text = 'new' WHERE id = 1`)
			return err
		}
		stacktest.Must(t, e.Write(stacktest.Context(t), "owner", func(ctx context.Context, tx *dbroute.Tx) error {
			stacktest.Must(t, update(ctx, tx))
			err := impatient.Write(stacktest.Context(t), "w", func(ctx context.Context, tx *dbroute.Tx) error {
				_, err := tx.ExecContext(ctx, `INSERT INTO notes (text) VALUES ('undone')`)
				stacktest.Must(t, err)
				update(ctx, tx) // and does not look whether it failed
				return nil
			})
			if err == nil || errors.Is(err, dbroute.ErrCommitUnknown) {
				t.Errorf("error %v", err)
			}
			if err := impatient.Write(stacktest.Context(t), "w", update); !errors.Is(err, dbroute.ErrContended) {
				t.Errorf("error %v", err)
			}
			return nil
		}))
		stacktest.Must(t, impatient.Write(stacktest.Context(t), "w", update))
		if n := count(t, e.PrimaryDB(), `SELECT count(*) FROM notes WHERE text = 'undone'`); n != 0 {
			t.Error("the write that has waited is there")
		}
	})
}

func TestVictimOfADeadlockCanBeTold(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.exec(`INSERT INTO notes (text) VALUES ('second')`)
		var both sync.WaitGroup
		both.Add(2)
		outcome := make(chan error, 2)
		for _, order := range [][]int{{1, 2}, {2, 1}} {
			go func() {
				outcome <- e.Write(stacktest.Context(t), "w", func(ctx context.Context, tx *dbroute.Tx) error {
					for i, id := range order {
						if i == 1 {
							both.Done()
							both.Wait()
						}
						if _, err := tx.ExecContext(ctx, `UPDATE notes SET text = 'locked' WHERE id = ?`, id); err != nil {
							return err
						}
					}
					return nil
				})
			}()
		}
		errs := []error{<-outcome, <-outcome}
		if err := errors.Join(errs...); (errs[0] == nil) == (errs[1] == nil) || !errors.Is(err, dbroute.ErrContended) {
			t.Errorf("one of two has to be the victim: %v", errs)
		}
	})
}

// What the hook keeps of a write that a Touch has inside must not be missing because the
// Touch does not look whether it failed.
func TestOnWriteThatFailsInsideATouchRollsBack(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		ctx, scope := e.request(dbroute.Marker{})
		fail := errors.New("no room for it")
		hook := func() error { return fail }
		scope.OnWrite(func(context.Context, *dbroute.Tx) error { return hook() })
		touch := func() error {
			return e.Touch(ctx, "outer", func(ctx context.Context, tx *dbroute.Tx) error {
				func() {
					defer func() { recover() }()
					e.Write(ctx, "inner", func(context.Context, *dbroute.Tx) error { return nil })
				}()
				_, err := tx.ExecContext(ctx, `UPDATE notes SET text = 'new' WHERE id = 1`)
				return err
			})
		}
		if err := touch(); !errors.Is(err, fail) {
			t.Errorf("got %v, want %v", err, fail)
		}
		hook = func() error { panic(fail) }
		if err := touch(); err == nil {
			t.Error("a hook that panicked is no error")
		}
		e.want(dbroute.UsePrimary(ctx), "old", 1, dbroute.PrimaryAskedFor)
	})
}

// A second click is told that there is such a row already, and looks for it.
func TestWriteThatFailsIsFollowedByReadsOfThePrimary(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.pause()
		insert := func(ctx context.Context) error {
			return e.Write(ctx, "notes.Create", func(ctx context.Context, tx *dbroute.Tx) error {
				_, err := tx.ExecContext(ctx, `INSERT INTO notes (id, text) VALUES (77, 'mine')`)
				return err
			})
		}
		first, _ := e.request(dbroute.Marker{})
		second, scope := e.request(dbroute.Marker{})
		stacktest.Must(t, insert(first))
		if err := insert(second); !dbroute.IsDuplicateKey(err) {
			t.Fatalf("the second click: %v", err)
		}
		var text string
		stacktest.Must(t, e.Read(second, "notes.ByID", func(q dbroute.Querier) error {
			return q.QueryRowContext(second, `SELECT text FROM notes WHERE id = ?`, 77).Scan(&text)
		}))
		if last := scope.Accesses()[1]; text != "mine" || last.ServerID != 1 || last.Reason != dbroute.AfterWrite {
			t.Errorf("it then reads %q: %+v", text, last)
		}
	})
}
