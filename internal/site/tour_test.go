package site_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/lab"
	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

// newDemo is a demo with its people and the lab.
func newDemo(t *testing.T, engine string) *sitetest.Site {
	t.Helper()
	s := sitetest.New(t, engine, sitetest.WithLab(t, lab.PagesConfig{Engine: engine, AtOnce: 1, Log: slog.New(slog.DiscardHandler)}))
	s.Seed()
	return s
}

// clickStep sends the form of a step, which must be on the page.
func clickStep(t *testing.T, b *sitetest.Browser, from *sitetest.Page, step string) *sitetest.Page {
	t.Helper()
	if from.Find("form[action='/tour'] [name=step][value="+step+"]").Length() == 0 {
		t.Fatalf("%s offers no step %s", from.Path, step)
	}
	return b.Post("/tour", "step", step)
}

const pressed = ".switch [aria-pressed=true]"

func TestThreeClicksLeadFromTheBugToItsCure(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newDemo(t, engine)
		resume := s.Pause()
		b := s.Browser() // not logged in
		bug := clickStep(t, b, b.Get("/"), "bug").
			Want(http.StatusOK, "[data-title]", "Q3 pricing").
			Want(http.StatusOK, ".stale", "This page is stale: the primary already has “Q3 pricing, draft 1”.").
			Want(http.StatusOK, ".tour-title", "Tour, 1 of 3 The bug").
			Want(http.StatusOK, "[data-viewer]", "Mara Lindqvist").
			Want(http.StatusOK, pressed, "none").
			WantReads("2", dbroute.StrategyNone)
		cure := clickStep(t, b, bug, "cure").
			Want(http.StatusOK, "[data-title]", "Q3 pricing, draft 2").
			Want(http.StatusOK, ".stale", "").
			Want(http.StatusOK, ".tour-title", "Tour, 2 of 3 The cure").
			Want(http.StatusOK, pressed, "commit").
			WantReads("1", dbroute.CommitNotReached)
		why := clickStep(t, b, cure, "why").
			Want(http.StatusOK, ".tour-title", "Tour, 3 of 3 Why").
			Want(http.StatusOK, "form[data-run] button", "Run it")
		if why.Path != "/lab/no-routing" || bug.Path != cure.Path {
			t.Errorf("the steps lead to %s, %s and %s", bug.Path, cure.Path, why.Path)
		}
		if got := b.Cookie("strategy.main"); got != "" {
			t.Errorf("the strategy of the tour stays: %q", got)
		}
		// Others have noticed nothing, and the tour can be taken again.
		s.Browser().Get(cure.Path).Want(http.StatusOK, "[data-title]", "Q3 pricing").WantReads("2", dbroute.NoPendingCommit)
		clickStep(t, b, b.Get("/"), "bug").
			Want(http.StatusOK, "[data-title]", "Q3 pricing").
			Want(http.StatusOK, ".stale", "This page is stale: the primary already has “Q3 pricing, draft 3”.").
			WantReads("2", dbroute.StrategyNone)
		resume()
		s.Applied()
		caughtUp := b.Get(bug.Path+"?tour=bug").Want(http.StatusOK, "[data-title]", "Q3 pricing, draft 3").Want(http.StatusOK, ".stale", "")
		if text := caughtUp.Text(".tour-title + p"); !strings.Contains(text, "Save once more") {
			t.Errorf("once the replica has it, the tour says %q", text)
		}
		s.Browser().Get(cure.Path).Want(http.StatusOK, "[data-title]", "Q3 pricing, draft 3").WantReads("2", dbroute.NoPendingCommit)
	})
}

// The step logs its visitor in and saves for them, so that the account's other clients
// see it.
func TestWhatTheTourSavesIsSeenByTheAccountsOtherBrowsers(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newDemo(t, engine)
		other, visitor := s.Browser(), s.Browser()
		other.Post("/login", "email", "mara@example.com", "password", "out of the blue").Want(http.StatusOK, "[data-viewer]", "Mara Lindqvist")
		s.Applied()
		other.Get("/") // the marker goes
		s.Pause()
		cure := visitor.Post("/tour", "step", "cure").Want(http.StatusOK, "[data-title]", "Q3 pricing, draft 1")
		other.Get(cure.Path).Want(http.StatusOK, "[data-title]", "Q3 pricing, draft 1").WantReads("1", dbroute.CommitNotReached)
	})
}

// Who is signed in stays so, and is given a post of their own for it.
func TestTourOfAUserWithoutAPost(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newDemo(t, engine)
		b := s.User("Robin")
		first := b.Post("/tour", "step", "cure").
			Want(http.StatusOK, "[data-title]", "Q3 pricing, draft 1").
			Want(http.StatusOK, "[data-viewer]", "Robin")
		s.Applied()
		s.Pause()
		b.Post("/tour", "step", "bug").
			Want(http.StatusOK, "[data-title]", "Q3 pricing, draft 1").
			Want(http.StatusOK, ".stale", "This page is stale: the primary already has “Q3 pricing, draft 2”.").
			WantReads("2", dbroute.StrategyNone)
		if n := sitetest.Value[int](s, `SELECT count(*) FROM posts WHERE author_id = ?`, b.ID); n != 1 {
			t.Errorf("%d posts, want one, %s", n, first.Path)
		}
	})
}

// They are all the same person, and are counted by their addresses alone.
func TestManyVisitorsAtOnce(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, func(cfg *site.Config) {
			cfg.Demo = true
			cfg.Limits.LogInByAccount = cache.Limit{Hits: 1, Per: time.Hour}
			cfg.Limits.LogInByAddress = cache.Limit{Hits: 7, Per: time.Hour}
		})
		s.Seed()
		robin := s.User("Robin")
		robin.LogIn()
		s.Browser().Post("/login", "email", robin.Email, "password", robin.Password).
			Want(http.StatusTooManyRequests, ".problem strong", "That was too often.")
		const email, password = "mara@example.com", "out of the blue"
		for range 2 {
			s.Browser().Post("/tour", "step", "cure").Want(http.StatusOK, "[data-viewer]", "Mara Lindqvist")
			s.Browser().Post("/login", "email", email, "password", password).Want(http.StatusOK, "[data-viewer]", "Mara Lindqvist")
		}
		s.Program(nil).Send(http.MethodPost, "/api/tokens", map[string]any{"email": email, "password": password, "device_name": "curl"}).
			Want(http.StatusCreated)
		s.Browser().Post("/tour", "step", "cure").Want(http.StatusTooManyRequests, "h1", "That was too often")
	})
}

func TestTourRefusesWhatNoFormSends(t *testing.T) {
	stacktest.Only(t, "postgres")
	s := newDemo(t, "postgres")
	s.Browser().Post("/tour", "step", "sideways").Want(http.StatusBadRequest, "h1", "The request could not be understood")
	if p := s.Browser().Get("/?tour=%3Cscript%3E"); p.Status != http.StatusOK || p.Find(".tour").Length() > 0 {
		t.Errorf("an unknown step is shown: %d", p.Status)
	}
	plain := sitetest.New(t, "postgres")
	plain.Browser().Post("/tour", "step", "bug").Want(http.StatusNotFound, "h1", "There is nothing here")
	plain.Browser().Post("/lab/no-routing").Want(http.StatusNotFound, "h1", "There is nothing here")
	empty := sitetest.New(t, "postgres", func(cfg *site.Config) { cfg.Demo = true })
	empty.Browser().Post("/tour", "step", "bug").Want(http.StatusServiceUnavailable, "h1", "Not now")
}
