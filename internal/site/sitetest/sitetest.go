// Package sitetest gives tests the whole site on real servers, and browsers to
// look at it with.
package sitetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"freshread/internal/auth"
	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/jobs"
	"freshread/internal/lab"
	"freshread/internal/posts"
	"freshread/internal/site"
	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
	"freshread/migrations"
)

// Site is the site on a migrated, empty database of the test's own.
type Site struct {
	T       *testing.T
	Servers *stack.Stack
	Cluster *dbroute.Cluster
	Cache   *dbroute.Cluster
	Posts   *posts.Store
	URL     string
	config  site.Config

	database string
}

// Cheap is a password cost for tests.
var Cheap = auth.Cost{Memory: 8, Time: 1, Threads: 1}

// hardlyAny is a limit that no test meets unless it sets its own.
var hardlyAny = cache.Limit{Hits: 1000, Per: time.Second}

// New starts a site that routes by commit ID, on the pair that the package's
// tests share; change may change its configuration.
func New(t *testing.T, engine string, change ...func(*site.Config)) *Site {
	t.Helper()
	return NewOn(t, stacktest.Pair(t, engine), change...)
}

// NewOn is New on servers of the test's own.
func NewOn(t *testing.T, servers *stack.Stack, change ...func(*site.Config)) *Site {
	t.Helper()
	s := &Site{T: t, Servers: servers, database: stacktest.Database(t, servers), config: site.Config{
		Log: slog.New(slog.DiscardHandler), Strategy: site.Commit, ShowReads: true, PasswordCost: Cheap,
		SessionKeys: [][]byte{[]byte(strings.Repeat("k", 32))}, Limits: site.SameLimits(hardlyAny),
	}}
	s.openCluster()
	_, err := migrations.Up(stacktest.Context(t), s.Cluster, s.config.Log)
	stacktest.Must(t, err)
	stacktest.Applied(t, servers)
	for _, f := range change {
		f(&s.config)
	}
	s.URL = s.Process()
	return s
}

// WithJobs gives a site a queue, off the cluster's database if it is not PostgreSQL,
// and works its jobs until the test ends. change may change its configuration.
func WithJobs(t *testing.T, change ...func(*jobs.Config)) func(*site.Config) {
	return func(cfg *site.Config) {
		t.Helper()
		queueConfig := jobs.Config{Cluster: cfg.Cluster, Log: cfg.Log, Workers: 4}
		if cfg.Cluster.Engine() != dbroute.PostgreSQL {
			queueConfig.URL = stacktest.DatabaseURL(t, stacktest.Queue(t))
		}
		for _, f := range change {
			f(&queueConfig)
		}
		queue, err := jobs.Open(queueConfig)
		stacktest.Must(t, err)
		t.Cleanup(queue.Close)
		_, err = queue.Migrate(stacktest.Context(t))
		stacktest.Must(t, err)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- queue.Run(ctx) }()
		t.Cleanup(func() { stop(); stacktest.Must(t, <-ended) })
		cfg.Jobs = queue
	}
}

// WithLab makes a site a demo that has the lab. Runs have servers of their own.
func WithLab(t *testing.T, cfg lab.PagesConfig) func(*site.Config) {
	t.Helper()
	pages, err := lab.NewPages(cfg)
	stacktest.Must(t, err)
	t.Cleanup(pages.Wait) // once the site has stopped
	return func(cfg *site.Config) { cfg.Demo, cfg.Lab = true, pages.Register }
}

func (s *Site) openCluster() {
	s.T.Helper()
	cfg := dbroute.Config{
		Name: "main", Primary: s.Servers.Primary().URL(s.database), CheckTimeout: 5 * time.Second, Logger: s.config.Log,
		HealthInterval: 20 * time.Millisecond, HealthTimeout: 2 * time.Second,
	}
	for _, r := range s.Servers.Replicas() {
		cfg.Replicas = append(cfg.Replicas, r.URL(s.database))
	}
	cluster, err := dbroute.Open(cfg)
	stacktest.Must(s.T, err)
	s.T.Cleanup(func() { cluster.Close() })
	s.Cluster, s.config.Cluster = cluster, cluster
	s.Cache, err = cache.OpenCluster(cfg, cache.DefaultConns)
	stacktest.Must(s.T, err)
	s.T.Cleanup(func() { s.Cache.Close() })
	s.config.Cache = s.Cache
	cached, err := cache.New(cache.Config{Cluster: s.Cache, Data: cluster, Log: s.config.Log})
	stacktest.Must(s.T, err)
	s.Posts = posts.NewStore(cluster, cached, nil)
}

// Seed adds the people and posts of a demo, as the replicas know them too.
func (s *Site) Seed() {
	s.T.Helper()
	stacktest.Must(s.T, site.Seed(stacktest.Context(s.T), s.Cluster))
	s.Applied()
}

// Watch watches the servers until the test ends, and returns once all replicas
// are read.
func (s *Site) Watch() {
	s.T.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Cluster.Watch(ctx); close(done) }()
	s.T.Cleanup(func() { stop(); <-done })
	for i := range s.Cluster.Status() {
		s.WaitState(i, dbroute.Up)
	}
}

// WaitState waits until a server, the primary being 0, is seen in a state.
func (s *Site) WaitState(server int, want dbroute.State) {
	s.T.Helper()
	var got dbroute.ServerStatus
	for ctx := stacktest.Context(s.T); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if got = s.Cluster.Status()[server]; got.State == want && (got.State != dbroute.Up || !got.Position.IsZero()) {
			return
		}
	}
	s.T.Fatalf("server %d is %s (%s), %v late, at %q; want it %s", got.ID, got.State, got.Cause, got.Lag, got.Position, want)
}

// Failover starts the site anew on the roles that the servers have now.
func (s *Site) Failover() {
	s.T.Helper()
	s.openCluster()
	s.URL = s.Process()
}

// Process starts another process of the same site and returns its URL; change may
// change its configuration.
func (s *Site) Process(change ...func(*site.Config)) string {
	s.T.Helper()
	cfg := s.config
	for _, f := range change {
		f(&cfg)
	}
	handler, err := site.New(cfg)
	stacktest.Must(s.T, err)
	server := httptest.NewServer(handler)
	s.T.Cleanup(server.Close)
	return server.URL
}

// Monotonic starts a process of the same site that has READ_MONOTONIC=on, and returns
// its URL.
func (s *Site) Monotonic() string {
	s.T.Helper()
	cfg := s.Cluster.Config()
	cfg.Monotonic = true
	cluster, err := dbroute.Open(cfg)
	stacktest.Must(s.T, err)
	s.T.Cleanup(func() { cluster.Close() })
	other := *s
	other.config.Cluster = cluster
	return other.Process()
}

// Unreachable starts a process whose servers nobody listens for, and returns its
// URL: what it answers took no query.
func (s *Site) Unreachable() string {
	s.T.Helper()
	cfg := s.Cluster.Config()
	nowhere := func(server string) string {
		u, err := url.Parse(server)
		stacktest.Must(s.T, err)
		u.Host = "127.0.0.1:1"
		return u.String()
	}
	cfg.Primary, cfg.Replicas = nowhere(cfg.Primary), []string{nowhere(cfg.Primary)}
	cluster, err := dbroute.Open(cfg)
	stacktest.Must(s.T, err)
	s.T.Cleanup(func() { cluster.Close() })
	beside, err := cache.OpenCluster(cfg, cache.DefaultConns)
	stacktest.Must(s.T, err)
	s.T.Cleanup(func() { beside.Close() })
	return s.Process(func(cfg *site.Config) { cfg.Cluster, cfg.Cache = cluster, beside })
}

// Exec changes the primary behind the site's back.
func (s *Site) Exec(statement string, args ...any) {
	s.T.Helper()
	stacktest.Must(s.T, s.Cluster.Write(stacktest.Context(s.T), "exec", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, statement, args...)
		return err
	}))
}

// Value returns the one value of a query on the primary.
func Value[T any](s *Site, query string, args ...any) T {
	s.T.Helper()
	var value T
	ctx := stacktest.Context(s.T)
	stacktest.Must(s.T, s.Cluster.Read(dbroute.UsePrimary(ctx), "value", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, query, args...).Scan(&value)
	}))
	return value
}

// In returns the site for a subtest, so that failures are the subtest's.
func (s *Site) In(t *testing.T) *Site {
	site := *s
	site.T = t
	return &site
}

// Pause stops the replicas from applying until resumed.
func (s *Site) Pause() (resume func()) { s.T.Helper(); return stacktest.Pause(s.T, s.Servers) }

// Applied waits until the replicas have applied all there is.
func (s *Site) Applied() { s.T.Helper(); stacktest.Applied(s.T, s.Servers) }

// Browser returns a visitor's browser.
func (s *Site) Browser() *Browser {
	s.T.Helper()
	jar, err := cookiejar.New(nil)
	stacktest.Must(s.T, err)
	return &Browser{Site: s, URL: s.URL, Client: &http.Client{Jar: jar}}
}

// User is a browser of somebody who has signed up, and whom the replicas know.
func (s *Site) User(name string) *Browser {
	s.T.Helper()
	b := s.Browser()
	b.Email, b.Password = strings.ToLower(rand.Text())+"@example.com", rand.Text()
	p := b.Post("/signup", "name", name, "email", b.Email, "password", b.Password)
	p.Want(http.StatusOK, "[data-viewer]", name)
	b.ID = p.Number("[data-viewer]", "data-viewer")
	s.Applied()
	b.Get("/profile") // the marker goes
	return b
}

// Browser keeps cookies and follows redirects.
type Browser struct {
	Site   *Site
	URL    string // of the process that it talks to
	Client *http.Client

	ID              int64 // of the signed-in user
	Email, Password string
}

// Page is what a browser got.
type Page struct {
	*goquery.Document
	t        *testing.T
	Status   int
	Path     string // after redirects
	Header   http.Header
	Response *http.Response
}

// In returns the browser for a subtest.
func (b *Browser) In(t *testing.T) *Browser {
	browser := *b
	browser.Site = b.Site.In(t)
	return &browser
}

// Get opens a page.
func (b *Browser) Get(path string) *Page {
	b.Site.T.Helper()
	return b.page(b.Client.Get(b.URL + path))
}

// Post sends a form of names and values.
func (b *Browser) Post(path string, fields ...string) *Page {
	b.Site.T.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return b.Submit(path, form)
}

// Submit sends a form whose fields may have several values.
func (b *Browser) Submit(path string, form url.Values) *Page {
	b.Site.T.Helper()
	return b.page(b.Client.PostForm(b.URL+path, form))
}

// LogIn logs in on another browser with the same account.
func (b *Browser) LogIn() *Browser {
	b.Site.T.Helper()
	other := b.Site.Browser()
	other.ID, other.Email, other.Password = b.ID, b.Email, b.Password
	p := other.Post("/login", "email", b.Email, "password", b.Password)
	if p.Status != http.StatusOK || p.Number("[data-viewer]", "data-viewer") != b.ID {
		b.Site.T.Fatalf("log in: %d %s", p.Status, p.Text(".problem"))
	}
	return other
}

// Write saves a new post and returns its path, as the replicas know it too.
func (b *Browser) Write(title string) string {
	b.Site.T.Helper()
	p := b.Post("/posts", "title", title, "body", "Body of "+title)
	p.Want(http.StatusOK, "[data-title]", title)
	b.Site.Applied()
	b.Get(p.Path)
	return p.Path
}

// SessionCookie is the name of the cookie that holds a log-in.
const SessionCookie = "session.main"

// Cookie returns the value of a cookie, or "".
func (b *Browser) Cookie(name string) string {
	u, _ := url.Parse(b.URL)
	for _, c := range b.Client.Jar.Cookies(u) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

func (b *Browser) page(r *http.Response, err error) *Page {
	b.Site.T.Helper()
	stacktest.Must(b.Site.T, err)
	defer r.Body.Close()
	doc, err := goquery.NewDocumentFromReader(r.Body)
	stacktest.Must(b.Site.T, err)
	return &Page{doc, b.Site.T, r.StatusCode, r.Request.URL.Path, r.Header, r}
}

// Text returns the text at a selector, on one line.
func (p *Page) Text(selector string) string {
	return strings.Join(strings.Fields(p.Find(selector).First().Text()), " ")
}

// Number returns an attribute as a number, or fails the test.
func (p *Page) Number(selector, attribute string) int64 {
	p.t.Helper()
	var n int64
	if _, err := fmt.Sscan(p.Find(selector).AttrOr(attribute, ""), &n); err != nil {
		p.t.Fatalf("%s: %s of %s: %v", p.Path, attribute, selector, err)
	}
	return n
}

// Want expects a status, and a text at a selector.
func (p *Page) Want(status int, selector, text string) *Page {
	p.t.Helper()
	if got := p.Text(selector); p.Status != status || got != text {
		p.t.Errorf("%s: %d, %s is %q, want %d, %q", p.Path, p.Status, selector, got, status, text)
	}
	return p
}

// WantReads expects every read of the page to be by one server for one reason,
// and the response header to say the same.
func (p *Page) WantReads(server string, why dbroute.Reason) *Page {
	p.t.Helper()
	reads := p.Find("[data-read]")
	if reads.Length() == 0 {
		p.t.Errorf("%s shows no reads", p.Path)
	}
	reads.Each(func(_ int, read *goquery.Selection) {
		gotServer, gotWhy := read.AttrOr("data-server-id", ""), read.AttrOr("data-reason", "")
		if gotServer != server || gotWhy != string(why) {
			p.t.Errorf("%s: %s by server %s, %s; want server %s, %s", p.Path, read.AttrOr("data-read", ""), gotServer, gotWhy, server, why)
		}
	})
	if got := p.Header.Get("X-Server-Id"); got != server {
		p.t.Errorf("%s: X-Server-Id is %q, want %q", p.Path, got, server)
	}
	return p
}
