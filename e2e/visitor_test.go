package e2e_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

// patience bounds every wait for what ought to happen soon.
const patience = 30 * time.Second

// visitor is somebody at a window of the browser, with cookies of their own.
type visitor struct {
	t    *testing.T
	ctx  context.Context
	site string
	look string // of the screen, as in 390-dark

	mu       sync.Mutex
	problems []string
	excused  []string // parts of problems that are not
}

func newVisitor(t *testing.T, s *sitetest.Site) *visitor {
	t.Helper()
	ctx, closeWindow := chromedp.NewContext(browser.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(closeWindow)
	v := &visitor{t: t, ctx: ctx, site: s.URL}
	stacktest.Must(t, chromedp.Listen(ctx, v.notice))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	stacktest.Must(t, err)
	v.screen(1100, false)
	t.Cleanup(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, problem := range v.problems {
			t.Error(problem)
		}
	})
	return v
}

// notice notes what no page may do.
func (v *visitor) notice(event any) {
	problem := ""
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(event.Request.URL)
		if err != nil || u.Scheme != "data" && u.Scheme+"://"+u.Host != v.site {
			problem = "a page asks another site: " + event.Request.URL
		}
	case *runtime.EventConsoleAPICalled:
		if event.Type == runtime.ConsoleAPICalledTypeError || event.Type == runtime.ConsoleAPICalledTypeWarning {
			problem = fmt.Sprintf("a script logs %s: %s", event.Type, event.Args[0].Value)
		}
	case *runtime.EventExceptionThrown:
		problem = "a script fails: " + event.ExceptionDetails.Text
	case *log.EventEntryAdded:
		if event.Entry.Level == log.EntryLevelError || event.Entry.Level == log.EntryLevelWarning {
			problem = fmt.Sprintf("the console says %s (%s)", event.Entry.Text, event.Entry.URL)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, excuse := range v.excused {
		if strings.Contains(problem, excuse) {
			return
		}
	}
	if problem != "" {
		v.problems = append(v.problems, problem)
	}
}

// excuse lets the console say what it says of every page with such a status.
func (v *visitor) excuse(part string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.excused = append(v.excused, part)
}

func (v *visitor) do(steps ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	stacktest.Must(v.t, chromedp.Do(ctx, steps...))
}

// evaluate runs a script in the page.
func evaluate[T any](v *visitor, script string, options ...chromedp.EvaluateOption) T {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, options...))
	stacktest.Must(v.t, err)
	return value
}

// screen changes the window: 390 is a phone's width.
func (v *visitor) screen(width int64, dark bool) {
	v.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	v.look = fmt.Sprintf("%d-%s", width, scheme)
	v.do(chromedp.EmulateViewport(width, 844))
	_, err := chromedp.Call(v.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	stacktest.Must(v.t, err)
}

// open opens a page, and returns its status.
func (v *visitor) open(path string) (status int) {
	v.t.Helper()
	return v.lead(chromedp.Navigate(v.site + path))
}

// follow clicks what leads to another page, which is loaded then.
func (v *visitor) follow(selector string) (status int) {
	v.t.Helper()
	return v.lead(chromedp.Click(chromedp.CSS(selector)))
}

// lead does what leads to another page.
func (v *visitor) lead(action chromedp.Action[chromedp.Void]) (status int) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	response, err := chromedp.RunResponse(ctx, action)
	if err != nil {
		v.t.Fatalf("after %s: %v", v.path(), err)
	}
	v.wantWhole()
	return int(response.Status)
}

// wantWhole wants all of the page on the screen, if one scrolls down.
func (v *visitor) wantWhole() {
	v.t.Helper()
	if evaluate[bool](v, `document.documentElement.scrollWidth > innerWidth`) {
		v.t.Errorf("%s is wider than the screen", v.path())
	}
}

func (v *visitor) path() string {
	v.t.Helper()
	return evaluate[string](v, `location.pathname + location.search`)
}

func (v *visitor) fill(selector, value string) {
	v.t.Helper()
	evaluate[chromedp.Void](v, fmt.Sprintf(`document.querySelector(%q).select()`, selector)) // and so it is replaced
	v.do(chromedp.KeyEvent(value))
}

// text is what an element of the page says, or "" if there is no such element.
func (v *visitor) text(selector string) string {
	v.t.Helper()
	return evaluate[string](v, fmt.Sprintf(`document.querySelector(%q)?.innerText.trim() ?? ""`, selector))
}

func (v *visitor) attribute(selector, name string) string {
	v.t.Helper()
	return evaluate[string](v, fmt.Sprintf(`document.querySelector(%q)?.getAttribute(%q) ?? ""`, selector, name))
}

func (v *visitor) want(selector, text string) {
	v.t.Helper()
	if got := v.text(selector); got != text {
		v.t.Errorf("on %s, %s says %q, want %q", v.path(), selector, got, text)
	}
}

// seen is what a page shows, and where that was read.
type seen struct{ text, server, reason string }

// see returns what an element says that a read has filled.
func (v *visitor) see(selector, read string) seen {
	v.t.Helper()
	row := fmt.Sprintf(`[data-read="%s"]`, read)
	return seen{v.text(selector), v.attribute(row, "data-server-id"), v.attribute(row, "data-reason")}
}

func (v *visitor) wantSeen(selector, read string, want seen) {
	v.t.Helper()
	if got := v.see(selector, read); got != want {
		v.t.Errorf("%s shows %+v, want %+v", v.path(), got, want)
	}
}

// until opens a page until it is as it is going to be.
func (v *visitor) until(path, what string, so func() bool) {
	v.t.Helper()
	for end := time.Now().Add(patience); ; {
		v.open(path)
		if so() {
			return
		}
		if time.Now().After(end) {
			v.t.Fatalf("%s: it is still not so that %s", path, what)
		}
	}
}

// signUp makes an account of the visitor's own, and leaves them logged in.
func (v *visitor) signUp(name string) {
	v.t.Helper()
	v.open("/")
	v.follow(`.account a[href="/signup"]`)
	v.fill("#name", name)
	v.fill("#email", strings.ToLower(strings.ReplaceAll(name, " ", "."))+"@example.com")
	v.fill("#password", "correct horse battery")
	v.follow("main form button")
	v.want("[data-viewer]", name)
}

// write writes a post, and returns its path.
func (v *visitor) write(title string) (path string) {
	v.t.Helper()
	v.follow(`nav a[href="/posts/new"]`)
	v.fill("#title", title)
	v.fill("#body", "It has some text.")
	v.follow(".editor button")
	v.want("[data-title]", title)
	return v.path()
}

// retitle edits the post on the page.
func (v *visitor) retitle(title string) {
	v.t.Helper()
	v.follow(`.post a[href$="/edit"]`)
	v.fill("#title", title)
	v.follow(".editor button")
}
