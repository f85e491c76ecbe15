package jobs_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"freshread/internal/dbroute"
	"freshread/internal/jobs"
	"freshread/internal/posts"
	"freshread/internal/stack/stacktest"
)

// seen is what a run saw, where, and why there.
type seen struct {
	Title    string
	Comments int
	Server   int
	Reason   dbroute.Reason
	Outcome  string
}

func sawIn(r jobs.Run) seen {
	return seen{r.Title, r.CommentsCounted, r.ServerID, r.Reason, r.Outcome}
}

func (e *env) want(r jobs.Run, want seen) {
	e.t.Helper()
	if got := sawIn(r); got != want {
		e.t.Errorf("the run saw %+v, want %+v", got, want)
	}
	if r.CommentsJoined != r.CommentsCounted {
		e.t.Errorf("%d comments by a join, %d by themselves", r.CommentsJoined, r.CommentsCounted)
	}
}

// The replica is paused: it has the post, and not its comment.
func TestModesOnAPausedReplica(t *testing.T) {
	each(t, func(e *env) {
		const bound = 300 * time.Millisecond
		q := e.open()
		post := e.create(q, "First")
		stop := e.run(q)
		e.runs(q, 1)
		stop()
		e.applied()
		for i, c := range []struct {
			mode   jobs.Mode
			want   seen
			waited time.Duration
		}{
			{jobs.Replica, seen{"First", 0, 2, dbroute.StrategyNone, "included already"}, 0}, // the bug
			{jobs.Primary, seen{"First", 2, 1, dbroute.PrimaryAskedFor, "done"}, 0},
			{jobs.Commit, seen{"First", 3, 1, dbroute.CommitWaitTimedOut, "done"}, bound},
		} {
			resume := e.pause()
			e.comment(q, post)
			stop := e.run(e.open(func(cfg *jobs.Config) {
				cfg.CommitWait, cfg.Reads = bound, map[string]jobs.Mode{jobs.SummarisePost{}.Kind(): c.mode}
			}))
			run := e.runs(q, i+2)[0]
			stop()
			resume()
			e.applied()
			e.want(run, c.want)
			if run.Waited < c.waited || c.waited == 0 && run.Waited != 0 || run.Attempt != 1 || run.Failed {
				e.t.Errorf("mode %s: the run is %+v, want a wait of %v", c.mode, run, c.waited)
			}
		}
		if sum, pending := e.summary(post); sum.Comments != 3 || pending {
			e.t.Errorf("the summary is %+v, pending: %v", sum, pending)
		}
	})
}

// A job that reads the replica does not even find what has just been created.
func TestNewPostOnAPausedReplica(t *testing.T) {
	each(t, func(e *env) {
		e.pause()
		q := e.open(func(cfg *jobs.Config) { cfg.Reads = map[string]jobs.Mode{jobs.SummarisePost{}.Kind(): jobs.Replica} })
		post := e.create(q, "First")
		stop := e.run(q)
		e.want(e.runs(q, 1)[0], seen{"", 0, 2, dbroute.StrategyNone, "no such post"})
		stop()
		q = e.open(func(cfg *jobs.Config) { cfg.CommitWait = 100 * time.Millisecond })
		e.comment(q, post)
		e.run(q)
		e.want(e.runs(q, 2)[0], seen{"First", 1, 1, dbroute.CommitWaitTimedOut, "done"})
	})
}

func TestReplicaThatAppliesWithinTheWaitIsRead(t *testing.T) {
	each(t, func(e *env) {
		const late = 300 * time.Millisecond
		q := e.open(func(cfg *jobs.Config) { cfg.CommitWait = time.Minute })
		resume := e.pause()
		e.create(q, "First")
		e.run(q)
		e.eventually("the job is picked up", func() bool { return e.working() == 1 })
		resumed := make(chan struct{})
		time.AfterFunc(late, func() { resume(); close(resumed) })
		run := e.runs(q, 1)[0]
		<-resumed
		e.want(run, seen{"First", 0, 2, dbroute.CommitReached, "done"})
		if run.Waited < late {
			e.t.Errorf("it waited %v, and the replica was %v late", run.Waited, late)
		}
	})
}

func TestWithoutCommitIDsJobsReadThePrimary(t *testing.T) {
	each(t, func(e *env) {
		cfg := e.cluster.Config()
		cfg.NoCommitIDs = "the test says so"
		cluster, err := dbroute.Open(cfg)
		stacktest.Must(e.t, err)
		e.t.Cleanup(func() { stacktest.Must(e.t, cluster.Close()) })
		e.pause()
		q := e.open(func(cfg *jobs.Config) { cfg.Cluster, cfg.CommitWait = cluster, time.Hour })
		e.cluster = cluster
		e.create(q, "First")
		e.run(q)
		e.want(e.runs(q, 1)[0], seen{"First", 0, 1, dbroute.UnknownMarker, "done"})
	})
}

// working counts the jobs that are being worked.
func (e *env) working() (n int) {
	e.t.Helper()
	stacktest.Must(e.t, e.river.QueryRow(stacktest.Context(e.t), `SELECT count(*) FROM river_job WHERE state = 'running'`).Scan(&n))
	return n
}

// probe is a job of which a test says what it does.
type probe struct{ N int }

func (probe) Kind() string { return "probe" }

type probeWorker struct {
	river.WorkerDefaults[probe]
	work func(context.Context, *river.Job[probe]) error
}

func (w *probeWorker) Work(ctx context.Context, job *river.Job[probe]) error { return w.work(ctx, job) }

// probing adds the kind of job.
func probing(work func(context.Context, *river.Job[probe]) error) func(*jobs.Config) {
	return func(cfg *jobs.Config) {
		cfg.Register = func(w *river.Workers) { river.AddWorker(w, &probeWorker{work: work}) }
	}
}

func (e *env) enqueue(q *jobs.Queue, args river.JobArgs) {
	e.t.Helper()
	stacktest.Must(e.t, e.cluster.Write(stacktest.Context(e.t), "enqueue", func(ctx context.Context, tx *dbroute.Tx) error {
		return q.Enqueue(ctx, tx, args)
	}))
}

// read makes a job read something.
func (e *env) read(ctx context.Context) error {
	_, err := posts.NewStore(e.cluster, nil, nil).Comments(ctx, 1, 0, 1)
	return err
}

// retitle writes, in the scope of ctx.
func (e *env) retitle(ctx context.Context) error {
	return e.cluster.Write(ctx, "retitle", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE posts SET title = 'Second'`)
		return err
	})
}

// A scope ends with its run: the worker is the same.
func TestJobAfterOneThatWroteReadsTheReplica(t *testing.T) {
	each(t, func(e *env) {
		q := e.open(func(cfg *jobs.Config) { cfg.Workers, cfg.CommitWait = 1, time.Minute },
			probing(func(ctx context.Context, job *river.Job[probe]) error {
				if job.Args.N == 1 {
					return errors.Join(e.retitle(ctx), e.read(ctx))
				}
				return e.read(ctx)
			}))
		e.create(q, "First")
		e.run(q)
		e.enqueue(q, probe{N: 1})
		first := e.runs(q, 2)[0]
		if first.ServerID != 1 || first.Reason != dbroute.AfterWrite {
			e.t.Errorf("the job that writes read server %d, %s", first.ServerID, first.Reason)
		}
		e.enqueue(q, probe{N: 2})
		second := e.runs(q, 3)[0]
		if second.ServerID != 2 || second.Reason != dbroute.CommitReached {
			e.t.Errorf("the job after it read server %d, %s", second.ServerID, second.Reason)
		}
	})
}

func TestWithoutReplicasUpJobsRunOnThePrimary(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 1)
		e := newEnv(t, servers, stacktest.Queue(t))
		q := e.open(func(cfg *jobs.Config) { cfg.CommitWait = time.Minute })
		stacktest.Must(t, servers.Replicas()[0].Kill(stacktest.Context(t)))
		e.create(q, "First")
		e.run(q)
		run := e.runs(q, 1)[0]
		e.want(run, seen{"First", 0, 1, dbroute.NoReplica, "done"})
		e.eventually("the job is done", func() bool { return e.queuedAs("completed") == 1 })
		if runs := e.runs(q, 1); len(runs) != 1 || run.Waited > 30*time.Second {
			t.Errorf("%d runs, the first waited %v", len(runs), run.Waited)
		}
	})
}

// queuedAs counts the jobs in a state.
func (e *env) queuedAs(state string) (n int) {
	e.t.Helper()
	stacktest.Must(e.t, e.river.QueryRow(stacktest.Context(e.t), `SELECT count(*) FROM river_job WHERE state::text = $1`, state).Scan(&n))
	return n
}

// What others write between two attempts is nothing that the second has to wait for.
func TestRetriedAndSnoozedJobsKeepTheirCommit(t *testing.T) {
	for name, again := range map[string]error{"retried": errors.New("not yet"), "snoozed": river.JobSnooze(0)} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				var runs atomic.Int64
				var resume func()
				q := e.open(func(cfg *jobs.Config) { cfg.CommitWait = time.Minute },
					probing(func(ctx context.Context, _ *river.Job[probe]) error {
						if err := e.read(ctx); err != nil || runs.Add(1) > 1 {
							return err
						}
						e.applied()
						resume = e.pause()
						if err := e.retitle(context.WithoutCancel(ctx)); err != nil {
							return err
						}
						return again
					}))
				e.create(q, "First")
				e.enqueue(q, probe{})
				e.run(q)
				last := e.runs(q, 3)[0]
				if last.ServerID != 2 || last.Reason != dbroute.CommitReached || last.Outcome != "done" {
					e.t.Errorf("the last run is %+v", last)
				}
				resume()
			})
		})
	}
}

func TestDelayedJobFindsAReplicaThatHasItsCommit(t *testing.T) {
	each(t, func(e *env) {
		const delay = time.Second
		q := e.open(func(cfg *jobs.Config) { cfg.CommitWait = time.Minute }, probing(func(ctx context.Context, _ *river.Job[probe]) error { return e.read(ctx) }))
		e.run(q)
		e.create(q, "First")
		e.runs(q, 1)
		queued := time.Now()
		stacktest.Must(e.t, e.cluster.Write(stacktest.Context(e.t), "enqueue", func(ctx context.Context, tx *dbroute.Tx) error {
			return q.EnqueueAfter(ctx, tx, probe{}, delay)
		}))
		e.eventually("the job is scheduled", func() bool { return e.queuedAs("scheduled") == 1 && e.count(`SELECT count(*) FROM job_outbox`) == 0 })
		e.applied()
		e.pause()
		stacktest.Must(e.t, e.retitle(stacktest.Context(e.t))) // the primary is ahead from here on
		run := e.runs(q, 2)[0]
		if run.ServerID != 2 || run.Reason != dbroute.CommitReached || run.Kind != "probe" {
			e.t.Errorf("the run is %+v", run)
		}
		if after := run.StartedAt.Sub(queued); after < delay {
			e.t.Errorf("it ran after %v", after)
		}
	})
}
