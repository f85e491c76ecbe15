package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
	"freshread/templates"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

// testSite is a small site with one note, which says "old" on the replica too.
type testSite struct {
	t       *testing.T
	servers *stack.Stack
	cluster *dbroute.Cluster
	markers *Markers
	url     string
	errors  *errorLog
	// In /slow, reading and writing handlers report that they have begun and
	// wait until they may go on.
	begun, goOn chan struct{}
}

func newTestSite(t *testing.T, engine string, strategy func(*Markers) Middleware) *testSite {
	t.Helper()
	servers := stacktest.Pair(t, engine)
	database := stacktest.Database(t, servers)
	cluster, err := dbroute.Open(dbroute.Config{
		Name: "main", Primary: servers.Primary().URL(database), Replicas: []string{servers.Replicas()[0].URL(database)},
		CheckTimeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	stacktest.Must(t, err)
	t.Cleanup(func() { cluster.Close() })
	for _, statement := range []string{`CREATE TABLE note (text varchar(100) NOT NULL)`, `INSERT INTO note VALUES ('old')`} {
		_, err := cluster.PrimaryDB().Exec(statement)
		stacktest.Must(t, err)
	}
	stacktest.Applied(t, servers)
	logged := &errorLog{}
	log := slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelError}))
	markers, err := NewMarkers(cluster, log, [][]byte{[]byte(strings.Repeat("k", 32))}, false)
	stacktest.Must(t, err)
	html, err := NewRenderer(cluster, templates.Files, templates.Site{ShowReads: true, Strategy: "commit"})
	stacktest.Must(t, err)

	s := &testSite{t: t, servers: servers, cluster: cluster, markers: markers, errors: logged, begun: make(chan struct{}), goOn: make(chan struct{})}
	e := NewEcho(log, cluster, html, false)
	s.register(NewRoutes(e).With(Scope(cluster, true, PreferByCookie), strategy(markers)))
	server := httptest.NewServer(Handler(cluster, e, templates.Files))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// errorLog is what a site logs as errors.
type errorLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *errorLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *errorLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// register adds handlers that end in every way a handler can end.
func (s *testSite) register(r *Routes) {
	r.GET("/read", s.read)
	r.GET("/missing", func(c echo.Context) error {
		return errors.Join(s.readInto(c, new(string)), echo.ErrNotFound)
	})
	slow := Middleware{"slow", func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			s.begun <- struct{}{}
			<-s.goOn
			return next(c)
		}
	}}
	r.GET("/slow/read", s.read, slow)
	for path, end := range map[string]echo.HandlerFunc{
		"redirect":     func(c echo.Context) error { return SeeOther(c, "/read", FlashPostSaved) },
		"implicit-200": func(c echo.Context) error { _, err := c.Response().Write([]byte("saved")); return err },
		"nothing":      func(echo.Context) error { return nil },
		"flush": func(c echo.Context) error {
			c.Response().Flush()
			_, err := io.WriteString(c.Response(), "saved")
			return err
		},
		"not-found":  func(echo.Context) error { return echo.ErrNotFound },
		"error":      func(echo.Context) error { return errors.New("out of ideas") },
		"panic":      func(echo.Context) error { panic("out of ideas") },
		"json-error": func(c echo.Context) error { return c.JSON(http.StatusConflict, "no") },
		"204":        func(c echo.Context) error { return c.NoContent(http.StatusNoContent) },
	} {
		write := func(c echo.Context) error {
			if err := s.write(c); err != nil {
				return err
			}
			return end(c)
		}
		r.POST("/write/"+path, write)
		r.GET("/write/"+path, write) // a GET that writes is a write
		r.POST("/slow/write/"+path, write, slow)
	}
	r.POST("/too-late", func(c echo.Context) error {
		c.Response().Flush()
		return s.write(c)
	})
	r.GET("/touch", func(c echo.Context) error {
		ctx := c.Request().Context()
		if err := s.cluster.Touch(ctx, "note.Touch", s.set(c)); err != nil {
			return err
		}
		return s.read(c)
	})
}

func (s *testSite) set(c echo.Context) func(context.Context, *dbroute.Tx) error {
	return func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE note SET text = ?`, c.QueryParam("text"))
		return err
	}
}

func (s *testSite) write(c echo.Context) error {
	return s.cluster.Write(c.Request().Context(), "note.Set", s.set(c))
}

func (s *testSite) readInto(c echo.Context, text *string) error {
	ctx := c.Request().Context()
	return s.cluster.Read(ctx, "note.Text", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, `SELECT text FROM note`).Scan(text)
	})
}

// read answers with the text and the reason, as in "old: no pending commit".
func (s *testSite) read(c echo.Context) error {
	var text string
	if err := s.readInto(c, &text); err != nil {
		return err
	}
	accesses := s.cluster.Scope(c.Request().Context()).Accesses()
	return c.String(http.StatusOK, fmt.Sprintf("%s: %s", text, accesses[len(accesses)-1].Reason))
}

// browser keeps cookies, and follows no redirects.
type browser struct {
	site *testSite
	jar  *cookiejar.Jar
}

func (s *testSite) browser() *browser {
	jar, err := cookiejar.New(nil)
	stacktest.Must(s.t, err)
	return &browser{s, jar}
}

// answer is a response that the browser has not looked at yet.
type answer struct {
	*http.Response
	text string
}

// send sends a request with the cookies of now, and leaves those of the
// response alone.
func (b *browser) send(method, path string) answer {
	b.site.t.Helper()
	request, err := http.NewRequest(method, b.site.url+path, nil)
	stacktest.Must(b.site.t, err)
	for _, c := range b.jar.Cookies(request.URL) {
		request.AddCookie(c)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	stacktest.Must(b.site.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	stacktest.Must(b.site.t, err)
	return answer{response, string(body)}
}

// receive takes the cookies of a response.
func (b *browser) receive(a answer) answer {
	b.jar.SetCookies(a.Request.URL, a.Cookies())
	return a
}

func (b *browser) do(method, path string) answer {
	b.site.t.Helper()
	return b.receive(b.send(method, path))
}

// want expects a GET of path to answer text from a server.
func (b *browser) want(path, text, server string) answer {
	b.site.t.Helper()
	a := b.do(http.MethodGet, path)
	if got := a.Header.Get("X-Server-Id"); a.StatusCode != http.StatusOK || a.text != text || got != server {
		b.site.t.Fatalf("%s: %d %q from server %s, want %q from server %s", path, a.StatusCode, a.text, got, text, server)
	}
	return a
}

// marker returns what the browser's cookies say together, and their number.
func (b *browser) marker() (dbroute.Marker, int) {
	b.site.t.Helper()
	u, err := url.Parse(b.site.url)
	stacktest.Must(b.site.t, err)
	got := b.site.markers.read(requestWith(b.jar.Cookies(u)...))
	return got.marker, len(got.names)
}

func byWindow(window time.Duration) func(*Markers) Middleware {
	return func(m *Markers) Middleware { return SessionWindow(m, window) }
}

func TestMarkerReachesTheClientHoweverTheHandlerEnds(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newTestSite(t, engine, CommitID)
		stacktest.Pause(t, s.servers)
		for path, status := range map[string]int{
			"redirect": 303, "implicit-200": 200, "nothing": 200, "flush": 200, "not-found": 404,
			"error": 500, "panic": 500, "json-error": 409, "204": 204,
		} {
			for _, method := range []string{http.MethodPost, http.MethodGet} {
				t.Run(method+" "+path, func(t *testing.T) {
					b := s.browser()
					text := strings.ToLower(method) + "-" + path
					a := b.do(method, "/write/"+path+"?text="+text)
					if a.StatusCode != status {
						t.Errorf("status is %d, want %d", a.StatusCode, status)
					}
					if got := a.Header.Get("X-Server-Id"); got != "1" {
						t.Errorf("X-Server-Id is %q", got)
					}
					if got := a.Header.Get("Server-Timing"); !strings.HasPrefix(got, "note.Set;dur=") || !strings.HasSuffix(got, `;desc="server 1, primary, write"`) {
						t.Errorf("Server-Timing is %q", got)
					}
					b.want("/read", text+": commit not reached", "1")
				})
			}
		}
	})
}

// Once the header has gone, nothing can tell the client of a write.
func TestMarkerThatIsLostIsLogged(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newTestSite(t, engine, CommitID)
		s.browser().do(http.MethodPost, "/write/flush?text=new")
		if got := s.errors.String(); got != "" {
			t.Errorf("a write before the flush is logged:\n%s", got)
		}
		a := s.browser().do(http.MethodPost, "/too-late?text=newer")
		if a.StatusCode != http.StatusOK || len(a.Cookies()) != 0 {
			t.Errorf("%d with the cookies %v", a.StatusCode, a.Cookies())
		}
		const want = `level=ERROR msg="marker lost: the response header was sent before the write"`
		if got := s.errors.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
			t.Errorf("log:\n%s", got)
		}
	})
}

func TestReadReturnsToTheReplica(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newTestSite(t, engine, CommitID)
		resume := stacktest.Pause(t, s.servers)
		b, other := s.browser(), s.browser()
		b.want("/read", "old: no pending commit", "2")
		b.do(http.MethodPost, "/write/redirect?text=new")
		b.want("/read", "new: commit not reached", "1")
		if a := b.want("/read", "new: commit not reached", "1"); len(a.Cookies()) != 0 {
			t.Errorf("a plain read changes cookies: %v", a.Cookies())
		}
		other.want("/read", "old: no pending commit", "2")
		resume()
		stacktest.Applied(t, s.servers)
		b.want("/read", "new: commit reached", "2")
		if _, n := b.marker(); n != 0 {
			t.Errorf("%d markers are left", n)
		}
		b.want("/read", "new: no pending commit", "2")
	})
}

func TestTouchOnEachRequestStaysOnTheReplica(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newTestSite(t, engine, CommitID)
		stacktest.Pause(t, s.servers)
		b := s.browser()
		for range 20 {
			a := b.do(http.MethodGet, "/touch?text=touched")
			if a.text != "old: no pending commit" || a.Header.Get("X-Server-Id") != "1, 2" {
				t.Fatalf("%q from servers %s", a.text, a.Header.Get("X-Server-Id"))
			}
		}
	})
}

func TestOthersWritesMoveNobody(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newTestSite(t, engine, CommitID)
		stacktest.Pause(t, s.servers)
		b := s.browser()
		for i := range 5 {
			s.browser().do(http.MethodPost, fmt.Sprintf("/write/redirect?text=%d", i))
			b.want("/read", "old: no pending commit", "2")
		}
	})
}

func TestTwoWritesAtOnce(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			s := newTestSite(t, engine, CommitID)
			resume := stacktest.Pause(t, s.servers)
			b := s.browser()
			// Both are sent with the same cookies; their responses arrive in order.
			answers := [2]answer{
				b.send(http.MethodPost, "/write/redirect?text=first"),
				b.send(http.MethodPost, "/write/redirect?text=second"),
			}
			last := s.markers.read(requestWith(answers[1].Cookies()...)).marker
			for _, i := range order {
				b.receive(answers[i])
			}
			if got, n := b.marker(); got.Commit != last.Commit || n != 2 {
				t.Errorf("order %v: %d markers that say %+v, want 2 that say %+v", order, n, got, last)
			}
			b.want("/read", "second: commit not reached", "1")
			if got, n := b.marker(); got.Commit != last.Commit || n != 1 {
				t.Errorf("order %v: a read left %d markers that say %+v", order, n, got)
			}
			resume()
		}
	})
}

func TestSlowReadDoesNotUndoAWrite(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newTestSite(t, engine, CommitID)
		b := s.browser()
		b.do(http.MethodPost, "/write/redirect?text=first")
		stacktest.Applied(t, s.servers)
		stacktest.Pause(t, s.servers)

		// It carries a marker that the replica has reached, and so will delete it.
		slow := make(chan answer)
		go func() { slow <- b.send(http.MethodGet, "/slow/read") }()
		<-s.begun
		b.do(http.MethodPost, "/write/redirect?text=second")
		s.goOn <- struct{}{}
		late := b.receive(<-slow)
		if late.text != "first: commit reached" {
			t.Errorf("the slow read shows %q", late.text)
		}
		b.want("/read", "second: commit not reached", "1")
	})
}

func TestDoubtHealsInOneRequest(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newTestSite(t, engine, CommitID)
		for name, value := range map[string]string{
			"edited":    "MTc2NDUwMDAwMHxh",
			"oversized": strings.Repeat("x", 5<<10),
		} {
			t.Run(name, func(t *testing.T) {
				resume := stacktest.Pause(t, s.servers)
				s.browser().do(http.MethodPost, "/write/redirect?text="+name)
				b := s.browser()
				u, _ := url.Parse(s.url)
				b.jar.SetCookies(u, []*http.Cookie{{Name: s.markers.prefix + "abc", Value: value, Path: "/"}})
				b.want("/read", name+": unknown marker", "1")
				if got, n := b.marker(); got.Unknown || n != 1 {
					t.Errorf("%d markers are left, that say %+v", n, got)
				}
				b.want("/read", name+": commit not reached", "1")
				resume()
				stacktest.Applied(t, s.servers)
				b.want("/read", name+": commit reached", "2")
			})
		}
	})
}

func TestErrorPagesTellWhoAnswered(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newTestSite(t, engine, CommitID)
		a := s.browser().do(http.MethodGet, "/missing")
		if a.StatusCode != http.StatusNotFound || a.Header.Get("X-Server-Id") != "2" || !strings.Contains(a.text, `data-read="note.Text"`) {
			t.Errorf("%d from server %q: %s", a.StatusCode, a.Header.Get("X-Server-Id"), a.text)
		}
	})
}

func TestWindow(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		const window = 1500 * time.Millisecond
		s := newTestSite(t, engine, byWindow(window))
		stacktest.Pause(t, s.servers)
		b := s.browser()
		b.want("/read", "old: no recent write", "2")
		b.do(http.MethodPost, "/write/204?text=new")
		written, _ := b.marker()
		for range 3 { // reading does not use the marker up
			b.want("/read", "new: within window", "1")
		}
		time.Sleep(time.Until(written.Written.Add(window + time.Millisecond)))
		b.want("/read", "old: no recent write", "2")
		if _, n := b.marker(); n != 0 {
			t.Errorf("%d markers are left after the window", n)
		}
	})
}

// A cookie that dies before its window ends that early.
func TestMarkerOutlivesItsWindow(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		for _, window := range []time.Duration{time.Second, time.Hour} {
			b := newTestSite(t, engine, byWindow(window)).browser()
			a := b.do(http.MethodPost, "/write/204?text=new")
			if c := a.Cookies(); len(c) != 1 || time.Duration(c[0].MaxAge)*time.Second <= window {
				t.Errorf("for a window of %v the cookies are %v", window, c)
			}
		}
	})
}

func TestWindowOfAMarkerThatCannotBeReadBeginsNow(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newTestSite(t, engine, byWindow(time.Hour))
		b := s.browser()
		u, _ := url.Parse(s.url)
		b.jar.SetCookies(u, []*http.Cookie{{Name: s.markers.prefix + "abc", Value: "x", Path: "/"}})
		b.want("/read", "old: unknown marker", "1")
		b.want("/read", "old: within window", "1")
	})
}

// What cannot be read may have been written a moment ago, whatever the other
// markers say.
func TestWindowOfAMarkerThatCannotBeReadBesideAnOldOne(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newTestSite(t, engine, byWindow(time.Hour))
		old := cookies(s.markers, nil, dbroute.Outcome{Changed: true, Marker: dbroute.Marker{Written: time.UnixMilli(1), Unknown: true}})
		b := s.browser()
		u, _ := url.Parse(s.url)
		b.jar.SetCookies(u, append(old, &http.Cookie{Name: s.markers.prefix + "abc", Value: "x", Path: "/"}))
		b.want("/read", "old: unknown marker", "1")
		b.want("/read", "old: within window", "1")
	})
}
