package lab_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"go.uber.org/goleak"

	"freshread/internal/lab"
	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

// laboratory is a demo with the lab, whose runs keep their files in a folder of the
// test's own.
type laboratory struct {
	*sitetest.Site
	pages *lab.Pages
	dir   string
}

func newLaboratory(t *testing.T, engine string, change ...func(*lab.PagesConfig)) *laboratory {
	t.Helper()
	dir, err := os.MkdirTemp("", "lab")
	stacktest.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	stacktest.Must(t, os.Chmod(dir, 0o755)) // the servers may run as another user
	cfg := lab.PagesConfig{Engine: engine, Dir: dir, AtOnce: 2, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, f := range change {
		f(&cfg)
	}
	pages, err := lab.NewPages(cfg)
	stacktest.Must(t, err)
	l := &laboratory{pages: pages, dir: dir}
	t.Cleanup(pages.Wait)
	l.Site = sitetest.New(t, engine, func(cfg *site.Config) { cfg.Demo, cfg.Lab = true, pages.Register })
	return l
}

// So late that a run waits until it is stopped.
func veryLate(cfg *lab.PagesConfig) { cfg.Lag = time.Hour }

// stream is a run as a script sees it.
type stream struct {
	t     *testing.T
	body  io.ReadCloser
	lines *bufio.Scanner
	leave func()
}

func (l *laboratory) start(t *testing.T, name string) *stream {
	t.Helper()
	ctx, leave := context.WithTimeout(context.Background(), 2*time.Minute) // servers start in it
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.URL+"/lab/"+name, nil)
	stacktest.Must(t, err)
	request.Header.Set("Accept", "text/event-stream, application/problem+json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	stacktest.Must(t, err)
	s := &stream{t, response.Body, bufio.NewScanner(response.Body), func() { leave(); response.Body.Close() }}
	t.Cleanup(s.leave)
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("%s, Content-Type %q", response.Status, got)
	}
	return s
}

// next returns the next event, "" at the end.
func (s *stream) next() (event, data string) {
	var b strings.Builder
	for s.lines.Scan() && s.lines.Text() != "" {
		if text, ok := strings.CutPrefix(s.lines.Text(), "event: "); ok {
			event = text
		}
		if text, ok := strings.CutPrefix(s.lines.Text(), "data: "); ok {
			b.WriteString(text + "\n")
		}
	}
	return event, strings.TrimSpace(b.String())
}

// until returns the data of the next event that is told, and has text in it.
func (s *stream) until(event, text string) string {
	s.t.Helper()
	for state := ""; ; {
		got, data := s.next()
		if got == "state" {
			state = data
		}
		switch {
		case got == event && strings.Contains(data, text):
			return data
		case got == "":
			s.t.Fatalf("the stream ends before %s %q: %v\n%s", event, text, s.lines.Err(), strings.Join(strings.Fields(document(s.t, state).Find(".observations").Text()), " "))
		}
	}
}

func document(t *testing.T, html string) *goquery.Selection {
	t.Helper()
	d, err := goquery.NewDocumentFromReader(strings.NewReader(html))
	stacktest.Must(t, err)
	return d.Selection
}

// linesOf are the observations of a side in words, without their times.
func linesOf(page *goquery.Selection, side string) (lines []string) {
	page.Find("[data-side=" + side + "] .observations li:not(.pending)").Each(func(_ int, li *goquery.Selection) {
		li.Find(".at").Remove()
		lines = append(lines, strings.Join(strings.Fields(li.Text()), " "))
	})
	return lines
}

// wordsOf are the same from a transcript.
func wordsOf(side lab.SideResult) (lines []string) {
	for _, o := range side.Observations {
		line := o.Method + " " + o.What()
		if o.Stale {
			line += " stale"
		}
		lines = append(lines, line+" "+o.Where())
	}
	return lines
}

func TestStreamShowsWhatTheTranscriptSays(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		want := run(t, newRunner(t, engine), experiment(t, "no-routing"))
		wantOK(t, want)
		s := newLaboratory(t, engine).start(t, "no-routing")
		var page *goquery.Selection
		before, seen := map[string][]string{}, 0
		for event, data := s.next(); event != "end"; event, data = s.next() {
			if event == "" {
				t.Fatal("the stream has no end")
			}
			if event != "state" {
				continue
			}
			page = document(t, data)
			if n := page.Find(".observations li:not(.pending)").Length(); n > seen+1 {
				t.Errorf("%d observations come at once", n-seen)
			} else {
				seen = n
			}
			for side := range map[string]bool{"broken": true, "fixed": true} {
				lines := linesOf(page, side)
				if n := len(before[side]); len(lines) < n || !slices.Equal(lines[:n], before[side]) {
					t.Errorf("after %q the %s side is %q", before[side], side, lines)
				}
				before[side] = lines
			}
		}
		for side, result := range map[string]lab.SideResult{"broken": want.Broken, "fixed": want.Fixed} {
			if got, want := before[side], wordsOf(result); !slices.Equal(got, want) {
				t.Errorf("the %s side is\n%q, want\n%q", side, got, want)
			}
			wantMarks(t, page.Find("[data-side="+side+"]"), result)
		}
	})
}

// wantMarks expects what is drawn to say the same as the lines.
func wantMarks(t *testing.T, side *goquery.Selection, want lab.SideResult) {
	t.Helper()
	marks := side.Find(".timeline .mark")
	if marks.Length() != len(want.Observations) {
		t.Fatalf("%d marks for %d observations", marks.Length(), len(want.Observations))
	}
	height := map[string]string{}
	for i, o := range want.Observations {
		mark := marks.Eq(i)
		id := mark.AttrOr("data-server-id", "")
		if stale := mark.HasClass("mark-stale"); stale != o.Stale || id != string(rune('0'+o.ServerID)) {
			t.Errorf("mark %d is on server %s, stale %v; want %+v", i, id, stale, o)
		}
		if y := mark.AttrOr("y", ""); height[id] != "" && height[id] != y {
			t.Errorf("mark %d is off its lane", i)
		} else {
			height[id] = y
		}
	}
	if height["1"] == height["2"] {
		t.Errorf("both servers have one lane: %v", height)
	}
}

func TestPageShowsTheFinishedRunWithoutAScript(t *testing.T) {
	stacktest.Only(t, "postgres")
	l := newLaboratory(t, "postgres")
	want := run(t, newRunner(t, "postgres"), experiment(t, "no-routing"))
	p := l.Browser().Post("/lab/no-routing").
		Want(http.StatusOK, "h1", want.Question).
		Want(http.StatusOK, "[data-doing]", want.Verdict())
	for side, result := range map[string]lab.SideResult{"broken": want.Broken, "fixed": want.Fixed} {
		if got, want := linesOf(p.Selection, side), wordsOf(result); !slices.Equal(got, want) {
			t.Errorf("the %s side is\n%q, want\n%q", side, got, want)
		}
	}
	l.wantNothingLeft(t)
}

func TestTwoRunsOfOneExperimentDoNotDisturbEachOther(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		l := newLaboratory(t, engine)
		first, second := l.start(t, "rename"), l.start(t, "rename")
		for _, s := range []*stream{first, second} {
			s.until("end", "as expected: the bug shows")
		}
	})
}

func TestRunBeyondTheLimitIsToldToWait(t *testing.T) {
	stacktest.Only(t, "postgres")
	l := newLaboratory(t, "postgres", veryLate)
	first := l.start(t, "no-routing")
	l.start(t, "rename")
	l.Browser().Post("/lab/window").
		Want(http.StatusTooManyRequests, ".problem", "There is no room at the moment. 2 experiments are being run, as many as may be at once. Please try again when one has ended, in less than a minute.").
		Want(http.StatusTooManyRequests, "form[data-run] button", "Run it")
	first.leave()
	l.startEventually(t, "window")
}

// startEventually waits until there is room for one more.
func (l *laboratory) startEventually(t *testing.T, name string) {
	t.Helper()
	ctx := stacktest.Context(t)
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.URL+"/lab/"+name, nil)
		stacktest.Must(t, err)
		request.Header.Set("Accept", "text/event-stream")
		response, err := http.DefaultClient.Do(request)
		stacktest.Must(t, err)
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("who leaves keeps the room of a run")
}

func TestStopEndsARunAndWhatItUses(t *testing.T) {
	stacktest.Only(t, "postgres")
	for name, text := range map[string]string{
		"while the servers start": "Starting",
		"while it waits":          "Waiting until the replica",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLaboratory(t, "postgres", veryLate)
			before := goleak.IgnoreCurrent()
			s := l.start(t, "no-routing")
			id := s.until("run", "")
			s.until("doing", text)
			if got := l.stop(t, id); got != http.StatusNoContent {
				t.Errorf("stop answers %d", got)
			}
			if got := s.until("end", ""); got != "Stopped. Its servers are gone." {
				t.Errorf("it ends with %q", got)
			}
			// The end is told when they are gone, and not before.
			if left := filesIn(t, l.dir); len(left) > 0 {
				t.Errorf("left are %q", left)
			}
			if got := l.stop(t, id); got != http.StatusNotFound {
				t.Errorf("to stop it again answers %d", got)
			}
			s.leave()
			l.wantNothingLeft(t, before)
		})
	}
}

func (l *laboratory) stop(t *testing.T, id string) int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Post(l.URL+"/lab/runs/"+id+"/stop", "", nil)
	stacktest.Must(t, err)
	response.Body.Close()
	return response.StatusCode
}

func TestWhoLeavesThePageEndsTheRun(t *testing.T) {
	stacktest.Only(t, "postgres")
	l := newLaboratory(t, "postgres", veryLate)
	before := goleak.IgnoreCurrent()
	s := l.start(t, "no-routing")
	s.until("doing", "Waiting until the replica")
	s.leave()
	l.wantNothingLeft(t, before)
}

func TestRunsEndWithTheSite(t *testing.T) {
	stacktest.Only(t, "postgres")
	done := make(chan struct{})
	l := newLaboratory(t, "postgres", veryLate, func(cfg *lab.PagesConfig) { cfg.Done = done })
	s := l.start(t, "no-routing")
	s.until("doing", "Waiting until the replica")
	close(done)
	s.until("end", "Stopped.")
	l.wantNothingLeft(t)
}

// wantNothingLeft waits for runs to end. Of servers there must be no files then, and
// with what ran before, no goroutines.
func (l *laboratory) wantNothingLeft(t *testing.T, before ...goleak.Option) {
	t.Helper()
	l.pages.Wait()
	if left := filesIn(t, l.dir); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
	if before != nil {
		// The site under test checks its replicas and may open connections meanwhile.
		before = append(before, goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"))
		if err := goleak.Find(before...); err != nil {
			t.Error(err)
		}
	}
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if !errors.Is(err, os.ErrNotExist) {
		stacktest.Must(t, err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestLabListsEveryExperimentWithItsCure(t *testing.T) {
	stacktest.Only(t, "postgres")
	b := newLaboratory(t, "postgres").Browser()
	list := b.Get("/lab").Want(http.StatusOK, "h1", "Lab").Want(http.StatusOK, "nav [aria-current]", "Lab")
	all := lab.Experiments()
	if n := list.Find("[data-experiment]").Length(); n != len(all) {
		t.Errorf("%d are listed of %d", n, len(all))
	}
	for _, e := range all {
		item := "[data-experiment=" + e.Name + "]"
		list.Want(http.StatusOK, item+" h2", e.Question).Want(http.StatusOK, item+" button", "Run it")
		p := b.Get("/lab/"+e.Name).Want(http.StatusOK, "h1", e.Question).Want(http.StatusOK, "[data-code] figcaption code", e.Cure.File)
		if code := p.Find("[data-code] pre").Text(); !strings.Contains(code, e.Cure.Func+"(") || !strings.HasSuffix(code, "}") {
			t.Errorf("the code of %s is %q", e.Name, code)
		}
	}
}

func TestLabRefusesWhatNoFormSends(t *testing.T) {
	stacktest.Only(t, "postgres")
	l := newLaboratory(t, "postgres")
	b := l.Browser()
	b.Get("/lab/no-such").Want(http.StatusNotFound, "h1", "There is nothing here")
	b.Post("/lab/no-such").Want(http.StatusNotFound, "h1", "There is nothing here")
	b.Post("/lab/runs/no-such/stop").Want(http.StatusNotFound, "h1", "There is nothing here")
	request, err := http.NewRequest(http.MethodPost, l.URL+"/lab/no-routing", nil)
	stacktest.Must(t, err)
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	response, err := http.DefaultClient.Do(request)
	stacktest.Must(t, err)
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("a form of another site is answered with %s", response.Status)
	}
	l.wantNothingLeft(t)
}

func TestLabSaysWhyAnEngineCannotRunAnExperiment(t *testing.T) {
	stacktest.Only(t, "mariadb")
	b := newLaboratory(t, "mariadb").Browser()
	why := experiment(t, "sync-replication").NotOn("mariadb")
	p := b.Get("/lab/sync-replication").Want(http.StatusOK, "[data-not-run]", "Not on MariaDB: "+why)
	if p.Find("[data-run]").Length() > 0 {
		t.Error("it can be run")
	}
	b.Post("/lab/sync-replication").Want(http.StatusBadRequest, ".problem strong", "The request could not be understood.")
}

// A site that is given its servers has none to spare.
func TestLabWithoutServersOfItsOwnSaysSo(t *testing.T) {
	stacktest.Only(t, "postgres")
	b := newLaboratory(t, "postgres", func(cfg *lab.PagesConfig) { cfg.Engine = "" }).Browser()
	if p := b.Get("/lab").Want(http.StatusOK, "h1", "Lab"); p.Find("[data-run]").Length() > 0 || !strings.Contains(p.Text(".lead"), "app lab") {
		t.Errorf("the page says %q", p.Text("main"))
	}
	b.Post("/lab/no-routing").Want(http.StatusBadRequest, ".problem strong", "The request could not be understood.")
}
