package dbroute_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

func TestHasCommitIDWaits(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		resume := e.pause()
		marker := e.markerOf("new")
		ctx, scope := e.NewScope(stacktest.Context(t))
		scope.RouteAnywhere(dbroute.Marker{})

		start := time.Now()
		has, err := e.HasCommitID(ctx, marker.Commit, 250*time.Millisecond)
		if took := time.Since(start); has || err != nil || took < 250*time.Millisecond || took > 2*time.Second {
			t.Errorf("paused: %v, %v after %v", has, err, took)
		}
		if has, err := e.HasCommitID(ctx, marker.Commit, 0); has || err != nil {
			t.Errorf("paused, without a wait: %v, %v", has, err)
		}
		resumed := make(chan struct{})
		time.AfterFunc(100*time.Millisecond, func() { resume(); close(resumed) })
		if has, err := e.HasCommitID(ctx, marker.Commit, 20*time.Second); !has || err != nil {
			t.Errorf("resumed: %v, %v", has, err)
		}
		<-resumed
		e.want(ctx, "new", 2, dbroute.StrategyNone)
	})
}

// A commit ID of two sources or domains is reached where both of its parts are.
func TestCommitIDOfTwoParts(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		other := dialectOf(engine).other
		if other.id == "" {
			t.Skip("there is one history only")
		}
		for _, paused := range []string{"own", "other"} {
			t.Run("without the "+paused+" part", func(t *testing.T) {
				e := newEnvOn(t, engine, stacktest.Start(t, engine, 1))
				ctx := stacktest.Context(t)
				conn, err := e.admin().Conn(ctx)
				stacktest.Must(t, err)
				defer conn.Close()
				otherID, err := e.ParseCommitID(other.id)
				stacktest.Must(t, err)
				write := map[string]func(text string) dbroute.CommitID{
					"own": func(text string) dbroute.CommitID { return e.markerOf(text).Commit },
					"other": func(text string) dbroute.CommitID {
						for _, statement := range []string{other.begin, `UPDATE notes SET text = '` + text + `' WHERE id = 1`, other.end} {
							_, err := conn.ExecContext(ctx, statement)
							stacktest.Must(t, err)
						}
						return otherID
					},
				}
				there := map[string]string{"own": "other", "other": "own"}[paused]
				first := write[there]("first")
				e.applied()
				resume := e.pause()
				both, err := e.MergeCommitIDs(first, write[paused]("second"))
				stacktest.Must(t, err)

				request, _ := e.request(dbroute.Marker{Commit: both})
				e.want(request, "second", 1, dbroute.CommitNotReached)
				request, _ = e.request(dbroute.Marker{Commit: first})
				e.want(request, "first", 2, dbroute.CommitReached)
				replica, scope := e.NewScope(ctx)
				scope.RouteAnywhere(dbroute.Marker{})
				if has, err := e.HasCommitID(replica, both, 200*time.Millisecond); has || err != nil {
					t.Errorf("with one part the replica has both: %v, %v", has, err)
				}
				resume()
				if has, err := e.HasCommitID(replica, both, 20*time.Second); !has || err != nil {
					t.Errorf("with both parts: %v, %v", has, err)
				}
				request, _ = e.request(dbroute.Marker{Commit: both})
				e.want(request, "second", 2, dbroute.CommitReached)
			})
		}
	})
}

// A server that can wait tells at once; the others are polled.
func TestServerWaitsByItselfIfItCan(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.Cluster = openCluster(t, e.config)
		spy := e.Spy()
		resume := e.pause()
		marker := e.markerOf("new")
		ctx, scope := e.NewScope(stacktest.Context(t))
		scope.RouteAnywhere(dbroute.Marker{})
		if has, err := e.HasCommitID(ctx, marker.Commit, 200*time.Millisecond); has || err != nil {
			t.Fatalf("paused: %v, %v", has, err)
		}
		can := e.Engine() != dbroute.PostgreSQL || major(t, e.stack.Primary().Version()) >= 19
		if waited := spy.Waited.Load() > 0; waited != can {
			t.Errorf("the server was asked to wait: %v, want %v", waited, can)
		}
		resume()
		if has, err := e.HasCommitID(ctx, marker.Commit, 20*time.Second); !has || err != nil {
			t.Errorf("resumed: %v, %v", has, err)
		}
	})
}

func major(t *testing.T, version string) (n int) {
	t.Helper()
	_, err := fmt.Sscanf(version, "%d", &n)
	stacktest.Must(t, err)
	return n
}

// However many wait, they cost the replica one connection, and all are told.
func TestThousandsWaitOnOneConnection(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		cfg := e.config
		cfg.MaxOpenConns = 2
		e.Cluster = openCluster(t, cfg)
		resume := e.pause()
		marker := e.markerOf("new")
		var wg sync.WaitGroup
		var told, began atomic.Int64
		for range 2000 {
			wg.Go(func() {
				ctx, scope := e.NewScope(context.Background())
				scope.RouteAnywhere(dbroute.Marker{})
				began.Add(1)
				has, err := e.HasCommitID(ctx, marker.Commit, time.Minute)
				if err != nil {
					t.Error(err)
				} else if has {
					told.Add(1)
				}
			})
		}
		for began.Load() < 2000 {
			time.Sleep(time.Millisecond)
		}
		ctx, _ := e.request(dbroute.Marker{})
		start := time.Now()
		e.want(ctx, "old", 2, dbroute.NoPendingCommit)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("a read beside them took %v", took)
		}
		resume()
		wg.Wait()
		if told.Load() != 2000 {
			t.Errorf("%d of 2000 were told", told.Load())
		}
	})
}

func TestHasCommitIDIsTrueOnThePrimary(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.pause()
		marker := e.markerOf("new")
		after, _ := e.request(dbroute.Marker{})
		e.write(after, "newer")
		for name, ctx := range map[string]context.Context{
			"no scope":      stacktest.Context(t),
			"after a write": after,
			"asked for":     dbroute.UsePrimary(stacktest.Context(t)),
		} {
			if has, err := e.HasCommitID(ctx, marker.Commit, 0); !has || err != nil {
				t.Errorf("%s: %v, %v", name, has, err)
			}
		}
		stacktest.Must(t, e.Write(stacktest.Context(t), "w", func(ctx context.Context, _ *dbroute.Tx) error {
			has, err := e.HasCommitID(ctx, marker.Commit, 0)
			if !has {
				t.Errorf("in a transaction: %v, %v", has, err)
			}
			return err
		}))
	})
}

func TestHasCommitIDEndsWithItsContext(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.pause()
		marker := e.markerOf("new")
		ctx, scope := e.NewScope(stacktest.Context(t))
		scope.RouteAnywhere(dbroute.Marker{})
		gone, leave := context.WithCancel(ctx)
		time.AfterFunc(50*time.Millisecond, leave)
		if has, err := e.HasCommitID(gone, marker.Commit, time.Minute); has || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v", has, err)
		}
	})
}

func TestLastCommitID(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		ctx, scope := e.request(dbroute.Marker{})
		before, err := e.LastCommitID(ctx)
		stacktest.Must(t, err)
		e.write(ctx, "new")
		last, err := e.LastCommitID(ctx)
		stacktest.Must(t, err)
		if last != scope.Outcome().Marker.Commit || last == before {
			t.Errorf("before the write %v, after it %v, marker %+v", before, last, scope.Outcome().Marker)
		}
		if merged, err := e.MergeCommitIDs(last, before); merged != last || err != nil {
			t.Errorf("merged: %v, %v", merged, err)
		}
		err = e.Write(ctx, "w", func(ctx context.Context, _ *dbroute.Tx) error {
			_, err := e.LastCommitID(ctx)
			return err
		})
		if !errors.Is(err, dbroute.ErrInTransaction) {
			t.Errorf("in a transaction: %v", err)
		}
	})
}

// With synchronous_commit=off a commit is visible before it is written out. A
// position that missed it would be reached by the replica too early.
func TestCommitIDCoversAnAsynchronousCommit(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		for i := range 5 {
			text := fmt.Sprintf("note %d", i)
			ctx, scope := e.request(dbroute.Marker{})
			stacktest.Must(t, e.Write(ctx, "w", func(ctx context.Context, tx *dbroute.Tx) error {
				if e.Engine() == dbroute.PostgreSQL {
					if _, err := tx.ExecContext(ctx, `SET LOCAL synchronous_commit = off`); err != nil {
						return err
					}
				}
				_, err := tx.ExecContext(ctx, `UPDATE notes SET text = ? WHERE id = 1`, text)
				return err
			}))
			replica, anywhere := e.NewScope(stacktest.Context(t))
			anywhere.RouteAnywhere(dbroute.Marker{})
			has, err := e.HasCommitID(replica, scope.Outcome().Marker.Commit, 20*time.Second)
			if !has || err != nil {
				t.Fatalf("the replica does not reach commit %d: %v, %v", i, has, err)
			}
			e.want(replica, text, 2, dbroute.StrategyNone)
		}
	})
}

// An idle primary reports an insert position behind the header of the WAL's
// next page; no record takes the replica there.
func TestCommitAtAPageEdgeIsReachedAtOnce(t *testing.T) {
	stacktest.Only(t, "postgres")
	e := newEnv(t, "postgres")
	e.exec(`CREATE TABLE filler (n integer)`)
	insert := func() (dbroute.CommitID, uint64) {
		ctx, scope := e.request(dbroute.Marker{})
		stacktest.Must(t, e.Write(ctx, "w", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO filler VALUES (1)`)
			return err
		}))
		return scope.Outcome().Marker.Commit, e.insertLSN()
	}
	const page = 8192
	for attempt := range 50 {
		insert()
		start := e.insertLSN()
		_, end := insert()
		if end/page != start/page {
			continue // a header in between: it would not tell the size
		}
		e.fillPageUpTo(page - (end - start))
		id, at := insert()
		if at%page != 24 && at%page != 40 {
			continue // something else has written WAL
		}
		if want := fmt.Sprintf("/%X", at-at%page); !strings.HasSuffix(id.String(), want) {
			t.Errorf("attempt %d: commit ID %s for the insert position %X", attempt, id, at)
		}
		ctx, scope := e.NewScope(stacktest.Context(t))
		scope.RouteAnywhere(dbroute.Marker{})
		if has, err := e.HasCommitID(ctx, id, 2*time.Second); !has || err != nil {
			t.Errorf("attempt %d: not reached: %v, %v", attempt, has, err)
		}
		return
	}
	t.Fatal("no commit ended at a page edge")
}

func (e *env) insertLSN() uint64 {
	e.tb.Helper()
	return uint64(count(e.tb, e.PrimaryDB(), `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`))
}

// fillPageUpTo writes WAL until the insert position is this far into a page.
func (e *env) fillPageUpTo(offset uint64) {
	e.tb.Helper()
	const page, overhead, least = 8192, 56, 512
	at := e.insertLSN() % page
	gap := int(offset) - int(at)
	if gap < overhead+least {
		e.emit(int(page-at) + 256) // go on to the next page
		gap = int(offset) - int(e.insertLSN()%page)
	}
	// The size of a message's record is its length and an overhead that depends
	// on the version, rounded up to 8; so try one and correct.
	for length := gap - overhead; ; {
		before := e.insertLSN()
		var after uint64
		e.exec(`SELECT 1`)
		if e.insertLSN() != before {
			return // not idle: the caller tries again
		}
		e.emit(length)
		if after = e.insertLSN(); after%page == offset || after/page != before/page || after%page > offset {
			return
		}
		if length = int(offset) - int(after%page) - overhead; length < 0 {
			return
		}
	}
}

func (e *env) emit(length int) {
	e.tb.Helper()
	count(e.tb, e.PrimaryDB(), fmt.Sprintf(`SELECT (pg_logical_emit_message(false, '', repeat('x', %d)) - '0/0')::bigint`, length))
}
