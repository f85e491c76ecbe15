package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"golang.org/x/sync/errgroup"

	"freshread/internal/dbroute"
	"freshread/internal/jobs"
	"freshread/internal/posts"
	"freshread/internal/stack/stacktest"
)

func TestRollbackLeavesNoJob(t *testing.T) {
	each(t, func(e *env) {
		q := e.open()
		fail := errors.New("second thoughts")
		err := e.cluster.Write(stacktest.Context(e.t), "w", func(ctx context.Context, tx *dbroute.Tx) error {
			return errors.Join(q.Enqueue(ctx, tx, jobs.SummarisePost{PostID: 1}), q.EnqueueAfter(ctx, tx, jobs.SummarisePost{PostID: 1}, time.Hour), fail)
		})
		if !errors.Is(err, fail) {
			e.t.Errorf("the write fails with %v", err)
		}
		e.run(q)
		post := e.create(q, "First") // comes after what was rolled back
		runs := e.runs(q, 1)
		if n := e.count(`SELECT count(*) FROM job_outbox`); n != 0 || e.queued() != 1 || len(runs) != 1 || runs[0].PostID != post {
			e.t.Errorf("%d jobs in the outbox, %d in the queue; runs %+v", n, e.queued(), runs)
		}
	})
}

func TestJobDoesNotOvertakeASlowCommit(t *testing.T) {
	each(t, func(e *env) {
		q := e.open()
		e.run(q)
		other := e.create(q, "Other")
		e.runs(q, 1)
		var post int64
		stacktest.Must(e.t, e.cluster.Write(stacktest.Context(e.t), "slow", func(ctx context.Context, tx *dbroute.Tx) (err error) {
			post, err = posts.NewStore(e.cluster, nil, q).Create(ctx, e.author.ID, posts.Draft{Title: "Slow", Body: "Text"})
			if err != nil {
				return err
			}
			// Another job is queued and done meanwhile, and the outbox is polled.
			e.enqueue(q, jobs.SummarisePost{PostID: other})
			e.runs(q, 2)
			time.Sleep(1200 * time.Millisecond)
			if runs := e.runs(q, 2); len(runs) != 2 {
				e.t.Errorf("before the commit there are the runs %+v", runs)
			}
			return nil
		}))
		if run := e.runs(q, 3)[0]; run.PostID != post || run.Title != "Slow" {
			e.t.Errorf("after the commit the run is %+v", run)
		}
	})
}

// Processes relay and work side by side: each job is queued once and run once.
func TestSeveralProcesses(t *testing.T) {
	each(t, func(e *env) {
		const each = 40
		var processes []*jobs.Queue
		for range 3 {
			processes = append(processes, e.open(func(cfg *jobs.Config) { cfg.Workers = 2 },
				probing(func(context.Context, *river.Job[probe]) error { return nil })))
		}
		// Half of them find the outbox full, half fill it while it is relayed.
		enqueue := func() {
			var g errgroup.Group
			for p, q := range processes {
				g.Go(func() error {
					for i := range each / 2 {
						e.enqueue(q, probe{N: p*each + i})
					}
					return nil
				})
			}
			stacktest.Must(e.t, g.Wait())
		}
		enqueue()
		for _, q := range processes {
			e.run(q)
		}
		enqueue()
		runs := e.runs(processes[0], 3*each)
		e.eventually("the outbox is empty", func() bool { return e.count(`SELECT count(*) FROM job_outbox`) == 0 })
		e.eventually("all jobs are done", func() bool { return e.queuedAs("completed") == 3*each })
		byJob := map[int64]int{}
		for _, r := range runs {
			byJob[r.JobID]++
		}
		if len(runs) != 3*each || len(byJob) != 3*each || e.queued() != 3*each {
			e.t.Errorf("%d runs of %d jobs, %d in the queue, want %d each", len(runs), len(byJob), e.queued(), 3*each)
		}
	})
}

func TestQueueDown(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		queues := stacktest.Start(t, "postgres", 0)
		e := newEnv(t, stacktest.Pair(t, engine), queues)
		ctx := stacktest.Context(t)
		q := e.open()
		e.run(q)
		post := e.create(q, "First")
		e.runs(q, 1)

		stacktest.Must(t, queues.Primary().Stop(ctx))
		e.comment(q, post) // saving works
		late := e.open()   // and so does a process that starts now
		e.run(late)
		e.comment(late, post)
		for _, q := range []*jobs.Queue{q, late} {
			e.eventually("the queue is found to be down", func() bool { return q.Trouble() == "the queue cannot be reached" })
		}
		_, pending := e.summary(post)
		if n := e.count(`SELECT count(*) FROM job_outbox`); n != 2 || !pending {
			t.Errorf("%d jobs in the outbox, pending: %v", n, pending)
		}

		stacktest.Must(t, queues.Primary().Start(ctx))
		e.runs(q, 3)
		e.eventually("the outbox is empty", func() bool { return e.count(`SELECT count(*) FROM job_outbox`) == 0 })
		for _, q := range []*jobs.Queue{q, late} {
			e.eventually("nobody is in trouble", func() bool { return q.Trouble() == "" })
		}
		if sum, pending := e.summary(post); sum.Comments != 2 || pending || e.queued() != 3 {
			t.Errorf("the summary is %+v, pending: %v; %d jobs", sum, pending, e.queued())
		}
	})
}

// The outbox cannot be read, and the queue is not to blame.
func TestPrimaryDown(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 0)
		e := newEnv(t, servers, stacktest.Queue(t))
		ctx := stacktest.Context(t)
		q := e.open()
		e.run(q)
		e.create(q, "First")
		e.runs(q, 1)
		stacktest.Must(t, servers.Primary().Stop(ctx))
		e.eventually("the primary is found to be down", func() bool { return q.Trouble() == "the primary cannot be reached or is busy" })
		stacktest.Must(t, servers.Primary().Start(ctx))
		e.eventually("nobody is in trouble", func() bool { return q.Trouble() == "" })
	})
}

func TestJobUnderWayIsFinishedBeforeTheStop(t *testing.T) {
	each(t, func(e *env) {
		began, end := make(chan struct{}), make(chan struct{})
		q := e.open(probing(func(ctx context.Context, _ *river.Job[probe]) error {
			close(began)
			<-end
			return ctx.Err()
		}))
		e.enqueue(q, probe{})
		stop := e.run(q)
		<-began
		time.AfterFunc(200*time.Millisecond, func() { close(end) })
		stop()
		if n := e.queuedAs("completed"); n != 1 {
			e.t.Errorf("%d jobs are completed", n)
		}
		if run := e.runs(q, 1)[0]; run.Outcome != "done" {
			e.t.Errorf("the run is %+v", run)
		}
	})
}

func TestJobThatTakesTooLongAtTheStopIsQueuedAgain(t *testing.T) {
	each(t, func(e *env) {
		began := make(chan struct{})
		var once sync.Once
		q := e.open(func(cfg *jobs.Config) { cfg.StopTimeout = 100 * time.Millisecond },
			probing(func(ctx context.Context, _ *river.Job[probe]) error {
				once.Do(func() { close(began) })
				<-ctx.Done()
				return ctx.Err()
			}))
		e.enqueue(q, probe{})
		stop := e.run(q)
		<-began
		stop()
		if n := e.queuedAs("available"); n != 1 {
			e.t.Errorf("%d jobs are available", n)
		}
		if run := e.runs(q, 1)[0]; !run.Failed || !strings.Contains(run.Outcome, "context canceled") {
			e.t.Errorf("the run is %+v", run)
		}
	})
}

func TestFailedRunsAreRecorded(t *testing.T) {
	each(t, func(e *env) {
		q := e.open(probing(func(ctx context.Context, job *river.Job[probe]) error {
			switch job.Args.N {
			case 1:
				return errors.New(strings.Repeat("é", 600))
			case 2:
				panic("at the disco")
			}
			return nil
		}))
		e.run(q)
		for n, want := range map[int]string{1: strings.Repeat("é", 499) + "…", 2: "panicked"} {
			e.enqueue(q, probe{N: n})
			e.eventually(want, func() bool {
				return slices.ContainsFunc(e.runs(q, 1), func(r jobs.Run) bool { return r.Outcome == want && r.Failed && r.Attempt == 1 && r.ServerID == 0 })
			})
		}
		if n := e.queuedAs("completed"); n != 0 {
			e.t.Errorf("%d jobs are completed", n)
		}
	})
}

func TestOldRunsAreForgotten(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, stacktest.Pair(t, engine), stacktest.Queue(t))
		stacktest.Must(t, e.cluster.Write(stacktest.Context(t), "fill", func(ctx context.Context, tx *dbroute.Tx) error {
			for range 1100 {
				if _, err := tx.ExecContext(ctx, `
					INSERT INTO job_runs (job_id, kind, attempt, mode, server_id, server_role, reason, waited_ms, took_ms, post_id, title, comments_joined, comments_counted, outcome, failed, started_at)
					VALUES (1, 'old', 1, '', 0, '', '', 0, 0, 0, '', 0, 0, '', false, CURRENT_TIMESTAMP)`); err != nil {
					return err
				}
			}
			return nil
		}))
		q := e.open()
		e.run(q)
		e.create(q, "First")
		e.eventually("the newest 1000 are left", func() bool {
			return e.count(`SELECT count(*) FROM job_runs`) == 1000 && e.count(`SELECT count(*) FROM job_runs WHERE kind = 'summarise_post'`) == 1
		})
	})
}

func TestMigrateBySeveralProcessesAtOnce(t *testing.T) {
	servers := stacktest.Queue(t)
	e := newEnv(t, stacktest.Pair(t, "postgres"), servers)
	ctx := stacktest.Context(t)
	e.config.URL = stacktest.DatabaseURL(t, servers)
	q := e.open()
	if pending, err := q.Pending(ctx); !pending || err != nil {
		t.Errorf("pending is %v, %v", pending, err)
	}
	applied := make([][]string, 5)
	var g errgroup.Group
	for i := range applied {
		g.Go(func() (err error) {
			applied[i], err = e.open().Migrate(ctx)
			return err
		})
	}
	stacktest.Must(t, g.Wait())
	all := slices.Concat(applied...)
	slices.Sort(all)
	if len(all) == 0 || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("all together applied %q", all)
	}
	if pending, err := q.Pending(ctx); pending || err != nil {
		t.Errorf("pending is %v, %v", pending, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for primary, urls := range map[string]map[string]string{
		"postgres://localhost/app": {
			"mysql://localhost/queue": "postgres://",
			"queue":                   "postgres://",
			"postgres://app:hunter2@localhost:x/queue": "invalid port",
		},
		"mysql://localhost/app":   {"": "a queue beside mysql needs a PostgreSQL of its own"},
		"mariadb://localhost/app": {"": "a queue beside mariadb needs a PostgreSQL of its own"},
	} {
		cluster, err := dbroute.Open(dbroute.Config{Name: "test", Primary: primary})
		stacktest.Must(t, err)
		for url, want := range urls {
			q, err := jobs.Open(jobs.Config{Cluster: cluster, URL: url})
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("queue %q beside %s: %v, want %s", url, primary, err, want)
			}
			if err == nil {
				q.Close()
			}
		}
		stacktest.Must(t, cluster.Close())
	}
}

func TestArgumentsTheQueueCannotStoreAreRefused(t *testing.T) {
	each(t, func(e *env) {
		err := e.cluster.Write(stacktest.Context(e.t), "w", func(ctx context.Context, tx *dbroute.Tx) error {
			return e.open(func(cfg *jobs.Config) {
				cfg.Register = func(w *river.Workers) { river.AddWorker(w, &worded{}) }
			}).Enqueue(ctx, tx, word{"a\x00b"})
		})
		if err == nil || e.queued() != 0 {
			e.t.Errorf("got %v and %d jobs", err, e.queued())
		}
	})
}

// The outbox puts its id among the arguments, so they have to have names.
func TestArgumentsThatAreNoObjectAreRefused(t *testing.T) {
	each(t, func(e *env) {
		q := e.open()
		for _, args := range []raw{`[1]`, `"x"`, `null`, `7`} {
			err := e.cluster.Write(stacktest.Context(e.t), "w", func(ctx context.Context, tx *dbroute.Tx) error {
				return q.EnqueueAfter(ctx, tx, args, time.Hour)
			})
			if err == nil || !strings.Contains(err.Error(), "no JSON object") {
				e.t.Errorf("%s: %v", args, err)
			}
		}
		if n := e.count(`SELECT count(*) FROM job_outbox`); n != 0 {
			e.t.Errorf("%d jobs are in the outbox", n)
		}
	})
}

// raw is the JSON of a job's arguments.
type raw string

func (raw) Kind() string                   { return "raw" }
func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// What an older or a newer version has left there, or a hand, may be nothing that the
// queue takes. It stays, and what is behind it is relayed.
func TestJobThatCannotBeRelayedBlocksNoOther(t *testing.T) {
	each(t, func(e *env) {
		refused := []string{`null`, `"x"`, `{"n": 1e1000000}`, `{`}
		for len(refused) <= 100 { // more than are relayed at a time
			refused = append(refused, `[1]`)
		}
		for i, args := range refused {
			e.exec(`INSERT INTO job_outbox (id, queue_name, kind, args) VALUES (?, 'default', 'probe', ?)`, fmt.Sprint("refused ", i), args)
		}
		q := e.open(probing(func(context.Context, *river.Job[probe]) error { return nil }))
		e.enqueue(q, probe{})
		e.exec(`INSERT INTO job_outbox (id, queue_name, kind, args) VALUES ('behind', 'default', 'probe', '{}')`)
		e.run(q)
		e.runs(q, 2)
		const trouble = "the queue refuses one of the jobs"
		e.eventually("the refused jobs are trouble", func() bool { return q.Trouble() == trouble })
		e.enqueue(q, probe{})
		e.runs(q, 3)
		e.eventually("only they are left", func() bool { return e.count(`SELECT count(*) FROM job_outbox`) == len(refused) })
		if n := e.queued(); n != 3 || q.Trouble() != trouble {
			e.t.Errorf("%d jobs are queued, trouble: %q", n, q.Trouble())
		}
		e.exec(`DELETE FROM job_outbox`)
		e.eventually("nothing is trouble", func() bool { return q.Trouble() == "" })
	})
}

type word struct{ Word string }

func (word) Kind() string { return "word" }

type worded struct{ river.WorkerDefaults[word] }

func (*worded) Work(context.Context, *river.Job[word]) error { return fmt.Errorf("never queued") }
