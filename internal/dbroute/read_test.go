package dbroute_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

func TestNothingWrittenReadsReplica(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.pause()
		e.exec(`UPDATE notes SET text = 'new' WHERE id = 1`)
		ctx, _ := e.request(dbroute.Marker{})
		e.want(ctx, "old", 2, dbroute.NoPendingCommit)
	})
}

func TestOwnWriteIsReadWhateverTheReplicaHas(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		resume := e.pause()

		ctx, scope := e.request(dbroute.Marker{})
		e.want(ctx, "old", 2, dbroute.NoPendingCommit)
		e.write(ctx, "new")
		e.want(ctx, "new", 1, dbroute.AfterWrite) // next line of code
		marker := scope.Outcome().Marker

		next, _ := e.request(marker) // next request
		e.want(next, "new", 1, dbroute.CommitNotReached)
		e.want(next, "new", 1, dbroute.CommitNotReached)

		resume()
		e.applied()
		e.want(next, "new", 1, dbroute.CommitNotReached) // a scope keeps to its server
		later, scope := e.request(marker)
		e.want(later, "new", 2, dbroute.CommitReached)
		if !scope.Outcome().Settled {
			t.Error("the replica has reached the commit, and the marker is still needed")
		}
	})
}

// A trigger changes a row that the statement did not name.
func TestWriteIsMarkedByItsCommit(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.exec(`CREATE TABLE requests (id bigint)`)
		admin := e.admin()
		for _, statement := range e.trigger {
			_, err := admin.Exec(statement)
			stacktest.Must(t, err)
		}
		e.applied()
		e.pause()
		ctx, _ := e.request(dbroute.Marker{})
		stacktest.Must(t, e.Write(ctx, "indirect", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO requests VALUES (1)`)
			return err
		}))
		e.want(ctx, "new", 1, dbroute.AfterWrite)
	})
}

func TestReadWithoutDecisionUsesPrimary(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		var log bytes.Buffer
		cfg := e.config
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		e.Cluster = openCluster(t, cfg)
		e.pause()
		e.exec(`UPDATE notes SET text = 'new' WHERE id = 1`)
		wantOutside := func(reads uint64) {
			t.Helper()
			want := dbroute.AccessCount{ServerID: 1, Role: dbroute.Primary, Reason: dbroute.OutsideScope, N: reads}
			if got := e.Counts().Accesses; !slices.Contains(got, want) {
				t.Errorf("counts are %+v, want %+v among them", got, want)
			}
		}

		t.Run("no strategy has run", func(t *testing.T) {
			ctx, scope := e.NewScope(stacktest.Context(t))
			e.want(ctx, "new", 1, dbroute.Undecided)
			scope.RouteByCommit(ctx, dbroute.Marker{})
			e.want(ctx, "new", 1, dbroute.Undecided) // one page, one server
			if got := log.String(); strings.Count(got, "\n") != 1 ||
				!strings.Contains(got, `level=WARN msg="read before a strategy has run: `) || !strings.Contains(got, "cluster=test") {
				t.Errorf("log:\n%s", got)
			}
		})
		t.Run("no scope", func(t *testing.T) {
			if got, want := e.see(stacktest.Context(t)), (seen{"new", 1, ""}); got != want {
				t.Errorf("read %+v, want %+v", got, want)
			}
			wantOutside(1)
		})
		t.Run("the scope of another cluster", func(t *testing.T) {
			cfg := e.config
			cfg.Name = "reports"
			ctx, scope := openCluster(t, cfg).NewScope(stacktest.Context(t))
			scope.RouteAnywhere(dbroute.Marker{})
			if got, want := e.see(ctx), (seen{"new", 1, ""}); got != want {
				t.Errorf("read %+v, want %+v", got, want)
			}
			wantOutside(2)
		})
		t.Run("no replicas", func(t *testing.T) {
			cfg := e.config
			cfg.Replicas = nil
			only := e.on(openCluster(t, cfg))
			ctx, _ := only.request(dbroute.Marker{})
			only.want(ctx, "new", 1, dbroute.PrimaryOnly)
		})
	})
}

func TestUsePrimaryLeavesTheScopeWhereItWas(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.pause()
		e.exec(`UPDATE notes SET text = 'new' WHERE id = 1`)
		ctx, scope := e.request(dbroute.Marker{})
		e.want(dbroute.UsePrimary(ctx), "new", 1, dbroute.PrimaryAskedFor)
		e.want(ctx, "old", 2, dbroute.NoPendingCommit)
		scope.Pin()
		e.want(ctx, "new", 1, dbroute.PrimaryAskedFor)
	})
}

func TestConcurrentReadsShareOneDecision(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		marker := e.markerOf("new")
		e.applied()
		ctx, scope := e.request(marker)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { e.see(ctx) })
		}
		wg.Wait()
		for _, a := range scope.Accesses() {
			if a.ServerID != 2 || a.Reason != dbroute.CommitReached {
				t.Errorf("read on server %d, %s", a.ServerID, a.Reason)
			}
		}
	})
}

func TestReadHandleCannotWrite(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		if e.Engine() == dbroute.MariaDB {
			e.exec(`CREATE SEQUENCE numbers`)
			e.applied()
		}
		for _, statement := range e.sneak {
			for name, ctx := range e.contexts() {
				t.Run(name+"/"+statement, func(t *testing.T) {
					err := e.Read(ctx, "sneak", func(q dbroute.Querier) error {
						var id int64
						return q.QueryRowContext(ctx, statement).Scan(&id)
					})
					if !e.refused(err) {
						t.Errorf("got %v, want a refusal by the database", err)
					}
				})
			}
		}
		if n := count(t, e.PrimaryDB(), `SELECT count(*) FROM notes`); n != 1 {
			t.Errorf("%d notes, want 1", n)
		}
	})
}

// contexts returns one whose reads use the replica and one whose use the primary.
func (e *env) contexts() map[string]context.Context {
	ctx, _ := e.request(dbroute.Marker{})
	return map[string]context.Context{"replica": ctx, "primary": dbroute.UsePrimary(ctx)}
}

func TestErrorOfTheFunctionIsNotRetried(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		ctx, scope := e.request(dbroute.Marker{})
		runs, mine := 0, errors.New("not to my taste")
		err := e.Read(ctx, "picky", func(dbroute.Querier) error { runs++; return mine })
		if !errors.Is(err, mine) || runs != 1 {
			t.Errorf("got %v after %d runs", err, runs)
		}
		if a := scope.Accesses(); len(a) != 1 || !a[0].Failed || a[0].ServerID != 2 {
			t.Errorf("accesses are %+v", a)
		}
	})
}

// A migration has run on the primary only, so far.
func TestStatementThatTheReplicaCannotRunYet(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.pause()
		e.exec(`ALTER TABLE notes ADD COLUMN mood varchar(10) NOT NULL DEFAULT 'calm'`)
		ctx, _ := e.request(dbroute.Marker{})
		var mood string
		stacktest.Must(t, e.Read(ctx, "notes.Mood", func(q dbroute.Querier) error {
			return q.QueryRowContext(ctx, `SELECT mood FROM notes WHERE id = 1`).Scan(&mood)
		}))
		if mood != "calm" {
			t.Errorf("mood is %q", mood)
		}
		e.want(ctx, "old", 1, dbroute.ReplicaFailed) // the rest of the page as well
	})
}

func TestRowsLeftOpenDoNotBlock(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		for range 8 { // more rows than the drivers read ahead
			e.exec(`INSERT INTO notes (text) SELECT text FROM notes`)
		}
		e.applied()
		ctx, _ := e.request(dbroute.Marker{})
		stacktest.Must(t, e.Read(ctx, "careless", func(q dbroute.Querier) error {
			rows, err := q.QueryContext(ctx, `SELECT a.text FROM notes a JOIN notes b ON a.text = b.text`)
			if err == nil {
				rows.Next()
			}
			return err
		}))
		e.want(ctx, "old", 2, dbroute.NoPendingCommit)
	})
}

func TestClientGoneIsNoFaultOfTheReplica(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		ctx, _ := e.request(dbroute.Marker{})
		gone, leave := context.WithCancel(ctx)
		runs := 0
		err := e.Read(gone, "slow", func(q dbroute.Querier) error {
			runs++
			leave()
			return q.QueryRowContext(gone, e.sleeping(10)).Scan(new(string))
		})
		if !errors.Is(err, context.Canceled) || runs != 1 {
			t.Errorf("got %v after %d runs", err, runs)
		}
		next, _ := e.request(dbroute.Marker{})
		e.want(next, "old", 2, dbroute.NoPendingCommit)
	})
}

func TestScopeKeepsToOneReplica(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnvOn(t, engine, stacktest.Start(t, engine, 2))
		used := map[int]bool{}
		for range 4 {
			ctx, _ := e.request(dbroute.Marker{})
			first := e.see(ctx)
			for range 4 {
				e.want(ctx, "old", first.Server, dbroute.NoPendingCommit)
			}
			used[first.Server] = true
		}
		if len(used) != 2 {
			t.Errorf("scopes used the servers %v, want both replicas", used)
		}
	})
}

// One of two replicas is not enough: the next request may meet the other.
func TestMarkerIsNeededUntilEveryReplicaHasReachedIt(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 2)
		e := newEnvOn(t, engine, servers)
		late := servers.Replicas()[1]
		stacktest.Must(t, late.PauseApply(stacktest.Context(t)))
		marker := e.markerOf("new")
		seenReached := false
		for try := 0; try < 1000 && !seenReached; try++ {
			ctx, scope := e.request(marker)
			got := e.see(ctx)
			if got.Text != "new" {
				t.Fatalf("read %+v", got)
			}
			seenReached = got.Reason == dbroute.CommitReached
			if scope.Outcome().Settled {
				t.Fatal("the marker is not needed any longer, while one replica has not reached it")
			}
		}
		if !seenReached {
			t.Fatal("the first replica never reached the commit")
		}
		stacktest.Must(t, late.ResumeApply(stacktest.Context(t)))
		stacktest.Applied(t, servers)
		settled := false
		for try := 0; try < 10 && !settled; try++ {
			ctx, scope := e.request(marker)
			if got := e.see(ctx); got.Text != "new" || got.Reason != dbroute.CommitReached {
				t.Fatalf("read %+v", got)
			}
			settled = scope.Outcome().Settled
		}
		if !settled {
			t.Error("both replicas have reached the commit, and the marker is still needed")
		}
	})
}

type asksScope struct {
	slog.Handler
	cluster **dbroute.Cluster
}

func (h asksScope) Handle(ctx context.Context, r slog.Record) error {
	if scope := (*h.cluster).Scope(ctx); scope != nil {
		r.AddAttrs(slog.Int("accesses", len(scope.Accesses())))
	}
	return h.Handler.Handle(ctx, r)
}

func (h asksScope) WithAttrs(attrs []slog.Attr) slog.Handler {
	return asksScope{h.Handler.WithAttrs(attrs), h.cluster}
}

func TestLogHandlerMayAskForTheAccesses(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		var out bytes.Buffer
		cfg := e.config
		cfg.Logger = slog.New(asksScope{slog.NewTextHandler(&out, nil), &e.Cluster})
		e.Cluster = openCluster(t, cfg)
		ctx, _ := e.NewScope(stacktest.Context(t)) // which no strategy has routed
		e.want(ctx, "old", 1, dbroute.Undecided)
		if got := out.String(); !strings.Contains(got, "accesses=0") {
			t.Errorf("the log is %q", got)
		}
	})
}

func TestQueryWhileRowsAreOpenIsAnError(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.exec(`INSERT INTO notes (text) VALUES ('another')`)
		e.applied()
		const one = `SELECT text FROM notes WHERE id = 1`
		for name, query := range map[string]func(context.Context, dbroute.Querier) error{
			"of rows": func(ctx context.Context, q dbroute.Querier) error {
				_, err := q.QueryContext(ctx, one)
				return err
			},
			"of one row": func(ctx context.Context, q dbroute.Querier) error {
				return q.QueryRowContext(ctx, one).Scan(new(string))
			},
		} {
			t.Run(name, func(t *testing.T) {
				ctx, _ := e.request(dbroute.Marker{})
				err := e.Read(ctx, "notes.All", func(q dbroute.Querier) error {
					rows, err := q.QueryContext(ctx, `SELECT id FROM notes`)
					stacktest.Must(t, err)
					for rows.Next() {
						if err := query(ctx, q); err != nil {
							return err
						}
					}
					return rows.Err()
				})
				if err == nil || !strings.Contains(err.Error(), "rows of the one before are open") || ctx.Err() != nil {
					t.Errorf("got %v", err)
				}
				e.want(ctx, "old", 2, dbroute.NoPendingCommit)
				stacktest.Must(t, e.Read(ctx, "notes.All", func(q dbroute.Querier) error {
					rows, err := q.QueryContext(ctx, `SELECT id FROM notes`)
					stacktest.Must(t, err)
					for rows.Next() {
					}
					return query(ctx, q)
				}))
			})
		}
	})
}
