package main

import (
	"cmp"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/jackc/pgx/v5"

	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
)

// setUp is a schema that is up to date.
type setUp struct {
	env     environment
	servers *stack.Stack
	queues  *stack.Stack // the servers of the queue's own database; nil if it has none
}

// eachSetUp runs a test on every engine, with every set-up of the queue.
func eachSetUp(t *testing.T, test func(t *testing.T, s setUp)) {
	t.Helper()
	stacktest.Each(t, func(t *testing.T, engine string) {
		if engine == "postgres" {
			t.Run("queue on the primary", func(t *testing.T) {
				env, servers, _ := configured(t, engine)
				runs(t, env, 0, "migrate")
				test(t, setUp{env, servers, nil})
			})
		}
		t.Run("queue of its own", func(t *testing.T) {
			queues := stacktest.Start(t, "postgres", 0)
			env, servers, _ := configured(t, engine)
			env["QUEUE_DATABASE_URL"] = stacktest.DatabaseURL(t, queues)
			runs(t, env, 0, "migrate")
			test(t, setUp{env, servers, queues})
		})
	})
}

// working counts the jobs that are being worked.
func (s setUp) working(t *testing.T) (n int) {
	t.Helper()
	ctx := stacktest.Context(t)
	conn, err := pgx.Connect(ctx, cmp.Or(s.env["QUEUE_DATABASE_URL"], s.env["DATABASE_PRIMARY_URL"]))
	stacktest.Must(t, err)
	defer conn.Close(ctx)
	stacktest.Must(t, conn.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state = 'running'`).Scan(&n))
	return n
}

// summary waits until a post's summary includes every change, and returns what it says.
func (b *browser) summary(t *testing.T, post string) string {
	t.Helper()
	var page *goquery.Document
	eventually(t, "the summary is made", func() bool {
		page = b.get(t, post)
		return page.Find(".summary:not([data-pending])").Length() == 1
	})
	return strings.Join(strings.Fields(page.Find(".summary p").First().Text()), " ")
}

func (b *browser) pending(t *testing.T, post string) bool {
	t.Helper()
	return b.get(t, post).Find(".summary[data-pending]").Length() == 1
}

func TestJobsAreWorkedByServeAndByWorker(t *testing.T) {
	eachSetUp(t, func(t *testing.T, s setUp) {
		site := start(t, s.env, "serve", "--workers=false")
		visitor := newBrowser(t, "http://"+site.serving(t)).signUp(t)
		post := visitor.submit(t, "/posts/new", "First")
		if !visitor.pending(t, post) {
			t.Error("a site without workers makes summaries")
		}

		workers := []*app{start(t, s.env, "worker"), start(t, s.env, "worker")}
		for _, w := range workers {
			w.says(t, &w.errOut, `"msg":"(working)"`)
		}
		if got, want := visitor.summary(t, post), "First: 0 comments, 2 words, 1 minute to read."; got != want {
			t.Errorf("the summary is %q, want %q", got, want)
		}
		visitor.enter(t, post+"/comments", url.Values{"body": {"A comment"}})
		if got, want := visitor.summary(t, post), "First: 1 comment, 2 words, 1 minute to read."; got != want {
			t.Errorf("the summary is %q, want %q", got, want)
		}
		for i, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
			workers[i].signal(t, sig)
			workers[i].wantExit(t, 0)
		}

		// A site works its own jobs unless it is told not to.
		both := start(t, s.env, "serve")
		visitor.site = "http://" + both.serving(t)
		visitor.enter(t, post+"/comments", url.Values{"body": {"Another"}})
		if got, want := visitor.summary(t, post), "First: 2 comments, 2 words, 1 minute to read."; got != want {
			t.Errorf("the summary is %q, want %q", got, want)
		}
		for _, a := range []*app{site, both} {
			a.signal(t, syscall.SIGTERM)
			a.wantExit(t, 0)
		}
	})
}

func TestServeAndWorkerStartWhileTheQueueIsDown(t *testing.T) {
	eachSetUp(t, func(t *testing.T, s setUp) {
		if s.queues == nil {
			t.Skip("the queue is on the primary, without which nothing starts")
		}
		stacktest.Must(t, s.queues.Primary().Stop(stacktest.Context(t)))
		site, worker := start(t, s.env, "serve", "--workers=false"), start(t, s.env, "worker")
		visitor := newBrowser(t, "http://"+site.serving(t)).signUp(t)
		post := visitor.submit(t, "/posts/new", "First")
		eventually(t, "the page says why the summary is late", func() bool {
			return strings.Contains(visitor.get(t, post).Find(".summary .hint").Text(), "the job waits in the outbox")
		})
		stacktest.Must(t, s.queues.Primary().Start(stacktest.Context(t)))
		if got, want := visitor.summary(t, post), "First: 0 comments, 2 words, 1 minute to read."; got != want {
			t.Errorf("the summary is %q, want %q", got, want)
		}
		for _, a := range []*app{site, worker} {
			a.signal(t, syscall.SIGTERM)
			a.wantExit(t, 0)
		}
	})
}

// The job is under way when the worker is told to stop: it waits for its commit.
func TestWorkerFinishesItsJobAfterSIGTERM(t *testing.T) {
	eachSetUp(t, func(t *testing.T, s setUp) {
		stacktest.Applied(t, s.servers)
		site := start(t, s.env, "serve", "--workers=false")
		visitor := newBrowser(t, "http://"+site.serving(t)).signUp(t)
		worker := start(t, s.env.with(environment{"JOB_COMMIT_WAIT": "1m", "METRICS_ADDR": "127.0.0.1:0"}), "worker")
		worker.readsReplica(t) // a job does not wait for one that has yet to join
		resume := stacktest.Pause(t, s.servers)
		post := visitor.submit(t, "/posts/new", "First")
		eventually(t, "the job is picked up", func() bool { return s.working(t) == 1 })
		worker.signal(t, syscall.SIGTERM)
		resume()
		worker.wantExit(t, 0)
		if visitor.pending(t, post) {
			t.Error("the summary is not made")
		}
		if n := s.working(t); n != 0 {
			t.Errorf("%d jobs are being worked, by nobody", n)
		}
	})
}
