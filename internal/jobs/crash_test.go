package jobs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"freshread/internal/dbroute"
	"freshread/internal/jobs"
	"freshread/internal/posts"
	"freshread/internal/stack/stacktest"
)

// child is what a process is told that is to be killed.
type child struct {
	Primary string // its URL
	Queue   string // its URL, if the queue has a database of its own
	Author  int64
	Title   string
	Relays  bool
}

// childVariable makes the test program a child.
const childVariable = "JOBS_TEST_CHILD"

// run saves a post, says so, and waits for its end.
func (c *child) run() error {
	log := slog.New(slog.DiscardHandler)
	cluster, err := dbroute.Open(dbroute.Config{Name: "test", Primary: c.Primary, Logger: log})
	if err != nil {
		return err
	}
	q, err := jobs.Open(jobs.Config{Cluster: cluster, Log: log, URL: c.Queue})
	if err != nil {
		return err
	}
	if c.Relays {
		go q.Run(context.Background())
	}
	id, err := posts.NewStore(cluster, nil, q).Create(context.Background(), c.Author, posts.Draft{Title: c.Title, Body: "Text"})
	if err != nil {
		return err
	}
	fmt.Println(id)
	select {}
}

// killAfterCommit lets a process of its own save a post, kills it as soon as it says
// that it has, and returns the post's id. With relays, the process is just about to
// relay the job by then, or does so.
func (e *env) killAfterCommit(ctx context.Context, title string, relays bool) (post int64, err error) {
	told, err := json.Marshal(child{
		Primary: e.cluster.Config().Primary, Queue: e.config.URL, Author: e.author.ID, Title: title, Relays: relays,
	})
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(told))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("the child says %q: %w", line, err)
	}
	if err := cmd.Process.Kill(); err != nil { // SIGKILL
		return 0, err
	}
	cmd.Wait()
	_, err = fmt.Sscan(line, &post)
	return post, err
}

func TestNothingIsLostWhenProcessesAreKilledAfterTheCommit(t *testing.T) {
	each(t, func(e *env) {
		// The first ones are killed between the commit and the relay, the others as they
		// relay, what is left over as well.
		const before, relaying = 50, 20
		const processes = before + relaying
		ids := make([]int64, processes)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		kill := func(from, to int) (left, queued int) {
			var g errgroup.Group
			g.SetLimit(2)
			for i := from; i < to; i++ {
				g.Go(func() (err error) {
					ids[i], err = e.killAfterCommit(ctx, fmt.Sprintf("Post %d", i), i >= before)
					return err
				})
			}
			stacktest.Must(e.t, g.Wait())
			return e.count(`SELECT count(*) FROM job_outbox`), e.queued()
		}
		left, queued := kill(0, before)
		if left+queued != before || e.config.URL != "" && queued != 0 {
			e.t.Errorf("before any relay %d jobs are in the outbox and %d in the queue", left, queued)
		}
		left, queued = kill(before, processes)
		if left+queued < processes {
			e.t.Errorf("%d jobs are in the outbox and %d in the queue", left, queued)
		}
		e.t.Logf("%d jobs were left in the outbox, %d were in the queue", left, queued)

		q := e.open()
		e.run(q)
		runs := e.runs(q, processes)
		e.eventually("the outbox is empty", func() bool { return e.count(`SELECT count(*) FROM job_outbox`) == 0 })
		if len(runs) != processes || e.queued() != processes {
			e.t.Errorf("%d runs of %d jobs", len(runs), e.queued())
		}
		for i, id := range ids {
			if sum, pending := e.summary(id); sum.Title != fmt.Sprintf("Post %d", i) || pending {
				e.t.Errorf("the summary of post %d is %+v, pending: %v", i, sum, pending)
			}
		}
	})
}

// The queue has the job, and the process dies before it can delete the row.
func TestRelayedTwiceIsOneJob(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, stacktest.Pair(t, engine), stacktest.Queue(t))
		q := e.open()
		e.create(q, "First")
		copied := `CREATE TABLE kept AS SELECT * FROM job_outbox`
		_, err := e.cluster.PrimaryDB().Exec(copied)
		stacktest.Must(t, err)
		stop := e.run(q)
		e.runs(q, 1)
		e.eventually("the outbox is empty", func() bool { return e.count(`SELECT count(*) FROM job_outbox`) == 0 })
		stop()
		before, _ := e.summary(1)
		for _, state := range []string{"completed", "cancelled", "discarded"} {
			_, err = e.river.Exec(stacktest.Context(t), `UPDATE river_job SET state = $1::text::river_job_state`, state)
			stacktest.Must(t, err)
			_, err = e.cluster.PrimaryDB().Exec(`INSERT INTO job_outbox SELECT * FROM kept`)
			stacktest.Must(t, err)
			q := e.open()
			stop := e.run(q)
			e.eventually("the outbox is empty", func() bool { return e.count(`SELECT count(*) FROM job_outbox`) == 0 })
			stop()
			if n := e.queued(); n != 1 || len(e.runs(q, 1)) != 1 {
				t.Errorf("%s: %d jobs, %d runs", state, n, len(e.runs(q, 1)))
			}
		}

		// Run twice all the same, it changes nothing.
		e.run(q)
		e.enqueue(q, jobs.SummarisePost{PostID: 1})
		if run := e.runs(q, 2)[0]; run.Outcome != "included already" {
			t.Errorf("the second run is %+v", run)
		}
		if after, _ := e.summary(1); after != before {
			t.Errorf("the summary was %+v and is %+v", before, after)
		}
	})
}
