// Package e2e_test walks the site in a real browser, on real servers, as people do
// who click, type, reload, use a phone, or use the keyboard alone.
//
// Stale is made by pausing the replica's applier. Every page that is opened must
// not log to the console, ask another site for anything, or be wider than the
// screen. With go test's -artifacts, pictures of every page are kept.
package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"

	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

// required is a variable that is set where no test may be skipped because a browser,
// or what comes with it, is missing.
const required = "TEST_BROWSER"

// browser is shared. Each visitor has cookies and a window of their own in it.
var browser struct {
	ctx     context.Context
	missing string // why there is none
}

func TestMain(m *testing.M) {
	stop, err := startBrowser()
	if err != nil {
		browser.missing = err.Error()
	}
	status := stacktest.Main(m)
	stop()
	os.Exit(status)
}

func startBrowser() (stop func(), err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.WSURLReadTimeout(patience),
	)
	if path, err := exec.LookPath("chromium"); err == nil {
		options = append(options, chromedp.ExecPath(path))
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it has none for root
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stopBrowser := chromedp.NewContext(allocator)
	stop = func() { stopBrowser(); stopAllocator() }
	if err := chromedp.Do(ctx); err != nil {
		return stop, fmt.Errorf("start a browser: %w", err)
	}
	browser.ctx = ctx
	return stop, nil
}

// each runs a test on a demo site of every engine.
func each(t *testing.T, test func(t *testing.T, s *sitetest.Site)) {
	t.Helper()
	requireBrowser(t)
	stacktest.Each(t, func(t *testing.T, engine string) { test(t, newSite(t, engine)) })
}

func requireBrowser(t *testing.T) {
	t.Helper()
	if browser.missing != "" {
		missing(t, browser.missing)
	}
}

func missing(t *testing.T, what any) {
	t.Helper()
	if os.Getenv(required) == "" {
		t.Skip(what)
	}
	t.Fatal(what)
}

func newSite(t *testing.T, engine string, change ...func(*site.Config)) *sitetest.Site {
	t.Helper()
	demo := func(cfg *site.Config) { cfg.Demo, cfg.Limits = true, site.Limits{} }
	s := sitetest.New(t, engine, append(change, demo, sitetest.WithJobs(t))...)
	s.Watch()
	return s
}
