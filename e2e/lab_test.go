package e2e_test

import (
	"log/slog"
	"testing"

	"github.com/chromedp/chromedp"

	"freshread/internal/lab"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

// newDemo is a site with people and posts, and the lab, as app demo has it.
func newDemo(t *testing.T, engine string) *sitetest.Site {
	t.Helper()
	s := newSite(t, engine, sitetest.WithLab(t, lab.PagesConfig{Engine: engine, AtOnce: 2, Log: slog.New(slog.DiscardHandler)}))
	s.Seed()
	return s
}

const tourButton = `main form[action="/tour"] button`

func TestTourLeadsFromTheBugToItsCure(t *testing.T) {
	requireBrowser(t)
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newDemo(t, engine)
		defer s.Pause()()
		v := newVisitor(t, s)
		v.open("/")
		v.follow(tourButton)
		v.wantSeen(title, byTitle, seen{"Q3 pricing", "2", "strategy none"})
		v.want(".tour-title", "Tour, 1 of 3 The bug")
		if v.text(staleNote) == "" {
			t.Error("the page does not say that it is stale")
		}
		v.follow(tourButton)
		v.wantSeen(title, byTitle, seen{"Q3 pricing, draft 2", "1", notYet})
		v.want(staleNote, "")
		v.follow(tourButton)
		v.want(".tour-title", "Tour, 3 of 3 Why")
		v.want(`.switch [aria-pressed="true"]`, "commit")
	})
}

// The drawing grows while the run goes on, and is there to its end.
func TestLabRunsToItsEnd(t *testing.T) {
	requireBrowser(t)
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newDemo(t, engine)
		v := newVisitor(t, s)
		v.open("/")
		v.follow(`nav a[href="/lab"]`)
		v.follow(`[data-experiment="no-routing"] h2 a`)
		v.do(chromedp.Click(chromedp.CSS("form[data-run] button")))
		v.do(chromedp.WaitVisible(chromedp.CSS("[data-result] .observations li:not(.pending)")))
		v.do(chromedp.WaitNotPresent(chromedp.CSS("form[data-running]")))
		for side, want := range map[string]string{"broken": "title=\"Q3 pricing\"", "fixed": "title=\"Q3 pricing update\""} {
			second := `[data-side="` + side + `"] .observations li:nth-child(3)` // the page after the save
			v.want(second+" code", want)
			stale := evaluate[bool](v, `!!document.querySelector('`+second+`[data-stale]')`)
			if stale != (side == "broken") {
				t.Errorf("the %s side is shown as stale: %v", side, stale)
			}
		}
		if pending := evaluate[int](v, `document.querySelectorAll("[data-result] .pending").length`); pending > 0 {
			t.Errorf("%d observations are still to come", pending)
		}
		v.wantWhole()
	})
}

// It is stopped at once, before there is anything to see.
func TestLabStops(t *testing.T) {
	requireBrowser(t)
	stacktest.Each(t, func(t *testing.T, engine string) {
		v := newVisitor(t, newDemo(t, engine))
		v.open("/lab/no-routing")
		button := chromedp.CSS("form[data-run] button")
		v.do(chromedp.Click(button), chromedp.WaitVisible(chromedp.CSS("form[data-running]")), chromedp.Click(button))
		v.do(chromedp.WaitNotPresent(chromedp.CSS("form[data-running]")))
		v.want("[data-doing]", "Stopped. Its servers are gone.")
		if shown := evaluate[int](v, `document.querySelectorAll("[data-stale]").length`); shown > 0 {
			t.Errorf("%d stale observations are shown: the run went on", shown)
		}
	})
}
