package status_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
	"freshread/internal/status"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

func demo(cfg *site.Config) { cfg.Demo = true }

func TestClusterPage(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, demo, func(cfg *site.Config) { cfg.Window = 100 * time.Millisecond })
		s.Watch()
		b := s.User("Mara")
		resume := s.Pause()
		b.Post("/profile", "name", "Mara L")
		for s.Cluster.Status()[1].Lag < 200*time.Millisecond {
			time.Sleep(5 * time.Millisecond)
		}
		p := s.Browser().Get("/cluster").Want(http.StatusOK, "h1", "Cluster").
			Want(http.StatusOK, `[data-server="1"][data-state=up] .server`, "server 1 primary").
			Want(http.StatusOK, `[data-server="2"][data-state=up] .server`, "server 2 replica").
			Want(http.StatusOK, `[data-server="2"] code`, s.Servers.Replicas()[0].Addr())
		if lag := p.Text(`[data-server="2"] [data-lag]`); lag == "0.0 s" || lag == "" {
			t.Errorf("the lag is %q", lag)
		}
		if line := p.Find(`[data-server="2"] polyline`).AttrOr("points", ""); len(strings.Fields(line)) < 2 {
			t.Errorf("the line is %q", line)
		}
		if warning := p.Text(".cluster .problem"); !strings.Contains(warning, "READ_WINDOW is 100ms") {
			t.Errorf("the warning is %q", warning)
		}
		if used := p.Text(`[data-server="1"] table`); !strings.Contains(used, "commit not reached") {
			t.Errorf("the primary was used for %q", used)
		}
		resume()
		stacktest.Must(t, s.Servers.Replicas()[0].Stop(stacktest.Context(t)))
		defer s.Servers.Replicas()[0].Start(stacktest.Context(t))
		s.WaitState(1, dbroute.Down)
		s.Browser().Get("/cluster").Want(http.StatusOK, `[data-server="2"] .state`, "down")
	})
}

func TestEachClusterHasItsPlaceOnThePage(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		reports, err := dbroute.Open(dbroute.Config{Name: "reports", Primary: "postgres://localhost:1/reports"})
		stacktest.Must(t, err)
		defer reports.Close()
		s := sitetest.New(t, engine, demo, func(cfg *site.Config) { cfg.Others = []*dbroute.Cluster{reports} })
		b := s.Browser()
		p := b.Get("/cluster").Want(http.StatusOK, "#cluster-main", "main").Want(http.StatusOK, "#cluster-reports", "reports")
		if n := p.Find("[data-server]").Length(); n != 4 {
			t.Errorf("%d servers, want 2 of main, 1 of the cache and 1 of reports", n)
		}
		if text := b.Get("/metrics").Text("body"); !strings.Contains(text, `freshread_server_up{cluster="reports"`) {
			t.Errorf("metrics lack the second cluster:\n%s", text)
		}
	})
}

func TestClusterPageIsLive(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		done := make(chan struct{})
		s := sitetest.New(t, engine, demo, func(cfg *site.Config) { cfg.Done = done })
		s.Watch()
		ctx, cancel := context.WithCancel(stacktest.Context(t))
		defer cancel()
		lines := openStream(t, ctx, http.DefaultClient, s.URL)
		for event := range 2 {
			html, name := nextEvent(lines)
			page, err := goquery.NewDocumentFromReader(strings.NewReader(html))
			stacktest.Must(t, err)
			if name != "state" || page.Find("[data-server]").Length() != 3 {
				t.Errorf("event %d is %q: %s", event, name, html)
			}
		}
		close(done) // the site stops
		for lines.Scan() {
		}
		if ctx.Err() != nil {
			t.Error("the stream does not end when the site stops")
		}
	})
}

// The guard is asked once per request, so a stream that never ends would outlive what
// it was allowed by.
func TestLivePageEndsWithTheRightToIt(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		out, demoted := s.User("Mara"), s.User("Yuki")
		s.Exec(`UPDATE users SET role = 'admin'`)
		ctx, cancel := context.WithTimeout(stacktest.Context(t), 20*time.Second)
		defer cancel()
		streams := []*bufio.Scanner{openStream(t, ctx, out.Client, s.URL), openStream(t, ctx, demoted.Client, s.URL)}
		for _, stream := range streams {
			nextEvent(stream)
		}
		out.Post("/logout").Want(http.StatusOK, ".flash", "You are logged out.")
		s.Exec(`UPDATE users SET role = 'member'`)
		for _, stream := range streams {
			for stream.Scan() {
			}
		}
		if ctx.Err() != nil {
			t.Error("the streams go on")
		}
		out.Get("/cluster/events").Want(http.StatusOK, "h1", "Log in")
		demoted.Get("/cluster/events").Want(http.StatusForbidden, "h1", "This is not yours to see or change")
	})
}

// While the primary is down nobody can be asked for anew, and nobody can log out.
func TestLivePageOutlastsThePrimary(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, demo)
		cfg := s.Cluster.Config()
		cfg.Primary = "postgres://127.0.0.1:1/nowhere"
		cfg.Replicas = nil
		cluster, err := dbroute.Open(cfg)
		stacktest.Must(t, err)
		defer cluster.Close()
		ctx, cancel := context.WithCancel(stacktest.Context(t))
		defer cancel()
		go cluster.Watch(ctx)
		for !cluster.PrimaryDown() && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		stream := openStream(t, ctx, http.DefaultClient, s.Process(func(cfg *site.Config) { cfg.Cluster = cluster }))
		for began := time.Now(); time.Since(began) < 2*status.Life; {
			if _, name := nextEvent(stream); name != "state" {
				t.Fatalf("the stream ends after %v", time.Since(began))
			}
		}
	})
}

func openStream(t *testing.T, ctx context.Context, client *http.Client, site string) *bufio.Scanner {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, site+"/cluster/events", nil)
	stacktest.Must(t, err)
	response, err := client.Do(request)
	stacktest.Must(t, err)
	t.Cleanup(func() { response.Body.Close() })
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("%s: Content-Type is %q", response.Status, got)
	}
	return bufio.NewScanner(response.Body)
}

// A stream whose client wants no body would never find out that it is gone.
func TestHeadOfALivePageEnds(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		done := make(chan struct{})
		defer close(done)
		s := sitetest.New(t, engine, demo, func(cfg *site.Config) { cfg.Done = done })
		ctx, cancel := context.WithTimeout(stacktest.Context(t), 10*time.Second)
		defer cancel()
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(s.URL, "http://"))
		stacktest.Must(t, err)
		defer conn.Close()
		deadline, _ := ctx.Deadline()
		stacktest.Must(t, conn.SetDeadline(deadline))
		answers := bufio.NewReader(conn)
		for range 2 { // the connection serves the next request too
			request, err := http.NewRequestWithContext(ctx, http.MethodHead, s.URL+"/cluster/events", nil)
			stacktest.Must(t, err)
			stacktest.Must(t, request.Write(conn))
			response, err := http.ReadResponse(answers, request)
			stacktest.Must(t, err)
			if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || got != "text/event-stream" {
				t.Errorf("%s, Content-Type %q", response.Status, got)
			}
		}
	})
}

func nextEvent(lines *bufio.Scanner) (data, name string) {
	var b strings.Builder
	for lines.Scan() && lines.Text() != "" {
		if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = text
		}
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			b.WriteString(text + "\n")
		}
	}
	return b.String(), name
}

func TestInternalsAreForAdmins(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		member, admin := s.User("Mara"), s.User("Yuki")
		_, err := s.Cluster.PrimaryDB().Exec(fmt.Sprintf(`UPDATE users SET role = 'admin' WHERE id = %d`, admin.ID))
		stacktest.Must(t, err)
		s.Applied()
		for _, path := range []string{"/cluster", "/cluster/events", "/metrics"} {
			s.Browser().Get(path).Want(http.StatusOK, "h1", "Log in")
			member.Get(path).Want(http.StatusForbidden, "h1", "This is not yours to see or change")
		}
		admin.Get("/cluster").Want(http.StatusOK, "h1", "Cluster")
	})
}

func TestMetrics(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, demo)
		s.Watch()
		b := s.Browser()
		for range 3 {
			b.Get("/")
		}
		text := b.Get("/metrics").Text("body")
		for _, want := range []string{
			`freshread_accesses_total{cluster="main",kind="read",reason="no pending commit",role="replica",server="2"} 3`,
			`freshread_scope_decisions_total{cluster="main",reason="no pending commit"} 3`,
			`freshread_server_up{cluster="main",role="primary",server="1"} 1`,
			`freshread_server_up{cluster="main",role="replica",server="2"} 1`,
			`freshread_replica_lag_seconds{cluster="main",server="2"} 0`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("metrics lack %s:\n%s", want, text)
			}
		}
	})
}

func TestLimitsPage(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, demo, func(cfg *site.Config) {
			cfg.Limits.LogInByAddress = cache.Limit{Hits: 5, Per: 5 * time.Hour}
			cfg.Limits.LogInByAccount = cache.Limit{Hits: 2, Per: 2 * time.Hour}
		})
		b, visitor := s.User("Mara"), s.Browser()
		s.Pause()
		for range 3 {
			visitor.Post("/login", "email", b.Email, "password", "not the password")
		}
		names := func(p *sitetest.Page) (names []string) {
			p.Find("[data-limit]").Each(func(_ int, l *goquery.Selection) {
				names = append(names, l.AttrOr("data-limit", "")+" "+l.AttrOr("data-used", ""))
			})
			return names
		}
		for range 2 { // looking does not count
			p := visitor.Get("/limits").Want(http.StatusOK, "h1", "Limits").
				Want(http.StatusOK, "[data-limit=log-in-address] .limit-left", "2 of 5 left").
				Want(http.StatusOK, "[data-limit=log-in-address] .server", "server 1 primary")
			if got := names(p); !slices.Equal(got, []string{"log-in-address 3", "sign-up 0"}) {
				t.Errorf("a visitor sees %q", got)
			}
		}
		p := b.Get("/limits").
			Want(http.StatusOK, "[data-limit=log-in-account] .limit-left", "0 of 2 left").
			Want(http.StatusOK, "[data-limit=log-in-account] .hint", "one more in 60 minutes, all in 2 hours server 1 primary")
		if got := names(p); !slices.Equal(got, []string{"log-in-address 3", "log-in-account 2", "sign-up 0", "writes 0", "tokens 0"}) {
			t.Errorf("a user sees %q", got)
		}
	})
}
