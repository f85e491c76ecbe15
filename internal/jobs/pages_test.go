package jobs_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"freshread/internal/dbroute"
	"freshread/internal/jobs"
	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

func demo(cfg *site.Config) { cfg.Demo = true }

// pagesEach runs a test of pages on every engine, with every set-up of the queue.
func pagesEach(t *testing.T, test func(t *testing.T, engine string, withJobs func(*site.Config))) {
	t.Helper()
	stacktest.Each(t, func(t *testing.T, engine string) {
		if engine == "postgres" {
			t.Run("queue on the primary", func(t *testing.T) { test(t, engine, sitetest.WithJobs(t)) })
		}
		t.Run("queue of its own", func(t *testing.T) {
			url := stacktest.DatabaseURL(t, stacktest.Queue(t))
			test(t, engine, sitetest.WithJobs(t, func(cfg *jobs.Config) { cfg.URL = url }))
		})
	})
}

// until opens a page until there is something on it.
func until(t *testing.T, b *sitetest.Browser, path, selector string) *sitetest.Page {
	t.Helper()
	for ctx := stacktest.Context(t); ; {
		p := b.Get(path)
		if p.Find(selector).Length() > 0 {
			return p
		}
		if ctx.Err() != nil {
			t.Fatalf("%s has no %s", path, selector)
		}
	}
}

func TestPostPageShowsItsSummary(t *testing.T) {
	pagesEach(t, func(t *testing.T, engine string, withJobs func(*site.Config)) {
		s := sitetest.New(t, engine, withJobs)
		b := s.User("Mara")
		path := b.Write("Q3 pricing")
		until(t, b, path, ".summary:not([data-pending])").
			Want(http.StatusOK, "[data-summary-title]", "Q3 pricing").
			Want(http.StatusOK, ".summary p", "Q3 pricing: 0 comments, 4 words, 1 minute to read.")

		resume := s.Pause()
		b.Post(path+"/comments", "body", "Looks right").
			Want(http.StatusOK, ".summary[data-pending] .hint", "The latest change is not in the summary yet. A job adds it.").
			Want(http.StatusOK, "[data-summary-comments]", "0 comments")
		resume()
		until(t, b, path, `[data-summary-comments="1"]`)
		b.Post(path, "title", "Q3 pricing update", "body", "New.")
		until(t, b, path, ".summary:not([data-pending])").
			Want(http.StatusOK, "[data-summary-title]", "Q3 pricing update")
	})
}

func TestJobsPageListsRuns(t *testing.T) {
	pagesEach(t, func(t *testing.T, engine string, withJobs func(*site.Config)) {
		s := sitetest.New(t, engine, demo, withJobs)
		b := s.User("Mara")
		s.Browser().Get("/jobs").Want(http.StatusOK, ".empty", "No job has run yet. Edit a post, or comment on one, and come back.")
		path := b.Write("Q3 pricing")
		p := until(t, b, "/jobs", "[data-run]")
		for column, want := range map[string]string{
			"Attempt": "1", "Mode": "commit", "Read from": "server 2 replica", "Why there": "commit reached",
			"Title seen": "Q3 pricing", "Comments seen": "0", "Result": "done",
		} {
			p.Want(http.StatusOK, `[data-run] [data-label="`+column+`"]`, want)
		}
		if got := p.Find("[data-title-seen]").AttrOr("href", ""); got != path {
			t.Errorf("the title leads to %q", got)
		}
		if got := p.Text(".meta"); strings.Contains(got, "outbox") == (engine == "postgres" && strings.Contains(t.Name(), "primary")) {
			t.Errorf("the page says of the queue: %s", got)
		}
		if p := b.Get("/jobs"); p.Find(`a[href="/river/"]`).Length() != 0 {
			t.Error("a member is shown the way to River's pages")
		}
		text := b.Get("/metrics").Text("body")
		for _, want := range []string{
			`freshread_job_wait_seconds_count{kind="summarise_post",mode="commit",reason="commit reached"} 1`,
			`freshread_outbox_stalled 0`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("metrics lack %s:\n%s", want, text)
			}
		}
	})
}

func TestJobsPageSaysWhereJobsRead(t *testing.T) {
	stacktest.Only(t, "postgres")
	for mode, want := range map[jobs.Mode]string{
		jobs.Commit:  "each run waits for a replica that has reached the commit, at most 2s, and reads the primary if there is none. A job",
		jobs.Primary: "each run reads the primary. A job",
		jobs.Replica: "each run reads a replica, however late that is. A job",
	} {
		s := sitetest.New(t, "postgres", demo, sitetest.WithJobs(t, func(cfg *jobs.Config) {
			cfg.Reads = map[string]jobs.Mode{jobs.SummarisePost{}.Kind(): mode}
		}))
		if got := s.Browser().Get("/jobs").Text(".meta"); !strings.Contains(got, want) {
			t.Errorf("%s: the page says %q", mode, got)
		}
	}
}

func TestQueueDownIsSaid(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		queues := stacktest.Start(t, "postgres", 0)
		url := stacktest.DatabaseURL(t, queues)
		s := sitetest.New(t, engine, demo, sitetest.WithJobs(t, func(cfg *jobs.Config) { cfg.URL = url }))
		b := s.User("Mara")
		path := b.Write("Q3 pricing")
		until(t, b, path, ".summary:not([data-pending])")
		stacktest.Must(t, queues.Primary().Stop(stacktest.Context(t)))
		b.Post(path+"/comments", "body", "Looks right").Want(http.StatusOK, "#comments-title", "1 comment")
		until(t, b, "/jobs", `.problem[data-outbox="1"]`)
		b.Get(path).Want(http.StatusOK, ".summary[data-pending] .hint",
			"The latest change is saved, and comes into the summary later: the queue cannot be reached, so the job waits in the outbox.")
		if text := b.Get("/jobs").Text(".problem"); !strings.HasPrefix(text, "1 job waits in the outbox, the oldest since ") ||
			!strings.HasSuffix(text, ". Nothing is lost: the queue cannot be reached, and what waits is queued when that is over.") {
			t.Errorf("the page says %q", text)
		}
		stacktest.Must(t, queues.Primary().Start(stacktest.Context(t)))
		until(t, b, path, `[data-summary-comments="1"]`)
		if n := b.Get("/jobs").Find("[data-outbox]").Length(); n != 0 {
			t.Error("the page still says that jobs wait")
		}
	})
}

func TestRiversPagesAreForAdmins(t *testing.T) {
	pagesEach(t, func(t *testing.T, engine string, withJobs func(*site.Config)) {
		s := sitetest.New(t, engine, demo, withJobs) // in a demo too
		member, admin := s.User("Mara"), s.User("Yuki")
		stacktest.Must(t, s.Cluster.Write(stacktest.Context(t), "promote", func(ctx context.Context, tx *dbroute.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE users SET role = 'admin' WHERE id = ?`, admin.ID)
			return err
		}))
		s.Applied()
		admin.Write("Q3 pricing")
		until(t, admin, "/jobs", "[data-run]").Want(http.StatusOK, `a[href="/river/"]`, "River’s own pages")

		const cancel = "/river/api/jobs/cancel"
		for path, method := range map[string]string{
			"/river": "GET", "/river/": "GET", "/river/jobs": "GET", "/river/api/jobs": "GET", cancel: "POST",
		} {
			if got := status(t, s.Browser(), method, path, "same-origin"); got != http.StatusSeeOther && got != http.StatusUnauthorized {
				t.Errorf("a visitor's %s %s is answered with %d", method, path, got)
			}
			if got := status(t, member, method, path, "same-origin"); got != http.StatusForbidden {
				t.Errorf("a member's %s %s is answered with %d", method, path, got)
			}
		}
		admin.Get("/river/").Want(http.StatusOK, "title", "River")
		admin.Get("/river/jobs/1").Want(http.StatusOK, "title", "River")
		text := ""
		for ctx := stacktest.Context(t); ctx.Err() == nil && !strings.Contains(text, `"kind":"summarise_post"`); {
			text = admin.Get("/river/api/jobs?state=completed").Text("body")
		}
		if !strings.Contains(text, `"kind":"summarise_post"`) {
			t.Errorf("River's list of jobs is %s", text)
		}
		if got := status(t, admin, "POST", cancel, "same-origin"); got != http.StatusOK {
			t.Errorf("an admin's POST is answered with %d", got)
		}
		if got := status(t, admin, "POST", cancel, "cross-site"); got != http.StatusForbidden {
			t.Errorf("a POST from another site is answered with %d", got)
		}
	})
}

// status sends a request as a browser's script would, and follows nothing.
func status(t *testing.T, b *sitetest.Browser, method, path, from string) int {
	t.Helper()
	request, err := http.NewRequest(method, b.URL+path, strings.NewReader(`{"ids":["1"]}`))
	stacktest.Must(t, err)
	request.Header.Set("Sec-Fetch-Site", from)
	request.Header.Set("Content-Type", "application/json")
	client := *b.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(request)
	stacktest.Must(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	stacktest.Must(t, err)
	return response.StatusCode
}

func TestRunsAreForAdminsUnlessItIsADemo(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, sitetest.WithJobs(t))
		s.Browser().Get("/jobs").Want(http.StatusOK, "h1", "Log in")
		s.User("Mara").Get("/jobs").Want(http.StatusForbidden, "h1", "This is not yours to see or change")
	})
}
