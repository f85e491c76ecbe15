package posts_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"freshread/internal/dbroute"
	"freshread/internal/posts"
	"freshread/internal/site"
	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
	"freshread/migrations"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

// testSite is the whole site on a database of the test's own.
type testSite struct {
	t       *testing.T
	servers *stack.Stack
	cluster *dbroute.Cluster
	store   *posts.Store
	url     string
}

func newTestSite(t *testing.T) *testSite { return newTestSiteOn(t, stacktest.Pair(t)) }

func newTestSiteOn(t *testing.T, servers *stack.Stack) *testSite {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	database := stacktest.Database(t, servers)
	cluster, err := dbroute.Open(dbroute.Config{
		Name: "main", Primary: servers.Primary().URL(database), Replicas: []string{servers.Replicas()[0].URL(database)},
		CheckTimeout: 5 * time.Second, Logger: log,
	})
	stacktest.Must(t, err)
	t.Cleanup(func() { cluster.Close() })
	_, err = migrations.Up(stacktest.Context(t), cluster.PrimaryDB(), log)
	stacktest.Must(t, err)
	stacktest.Applied(t, servers)
	handler, err := site.New(site.Config{
		Cluster: cluster, Log: log, Strategy: site.Commit, ShowReads: true, Demo: true,
		SessionKeys: [][]byte{[]byte(strings.Repeat("k", 32))},
	})
	stacktest.Must(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &testSite{t, servers, cluster, posts.NewStore(cluster), server.URL}
}

// create adds a post on all servers.
func (s *testSite) create(title string) int64 {
	s.t.Helper()
	id, err := s.store.Create(stacktest.Context(s.t), posts.Draft{Title: title, Body: "Body of " + title})
	stacktest.Must(s.t, err)
	stacktest.Applied(s.t, s.servers)
	return id
}

// page is what a browser got.
type page struct {
	*goquery.Document
	t      *testing.T
	status int
	path   string // after redirects
	header http.Header
}

type browser struct {
	site   *testSite
	client *http.Client
}

func (s *testSite) browser() *browser {
	jar, err := cookiejar.New(nil)
	stacktest.Must(s.t, err)
	return &browser{s, &http.Client{Jar: jar}}
}

func (b *browser) get(path string) *page {
	b.site.t.Helper()
	return b.page(b.client.Get(b.site.url + path))
}

func (b *browser) post(path string, fields ...string) *page {
	b.site.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return b.page(b.client.PostForm(b.site.url+path, form))
}

func (b *browser) page(r *http.Response, err error) *page {
	b.site.t.Helper()
	stacktest.Must(b.site.t, err)
	defer r.Body.Close()
	doc, err := goquery.NewDocumentFromReader(r.Body)
	stacktest.Must(b.site.t, err)
	return &page{doc, b.site.t, r.StatusCode, r.Request.URL.Path, r.Header}
}

func (p *page) want(status int, selector, text string) *page {
	p.t.Helper()
	if got := p.text(selector); p.status != status || got != text {
		p.t.Errorf("%s: %d, %s is %q, want %d, %q", p.path, p.status, selector, got, status, text)
	}
	return p
}

func (p *page) text(selector string) string {
	return strings.Join(strings.Fields(p.Find(selector).First().Text()), " ")
}

// wantReads expects every read of the page to be by one server for one reason.
func (p *page) wantReads(server string, why dbroute.Reason) *page {
	p.t.Helper()
	reads := p.Find("[data-read]")
	if reads.Length() == 0 {
		p.t.Errorf("%s shows no reads", p.path)
	}
	reads.Each(func(_ int, read *goquery.Selection) {
		gotServer, gotWhy := read.AttrOr("data-server-id", ""), read.AttrOr("data-reason", "")
		if gotServer != server || gotWhy != string(why) {
			p.t.Errorf("%s: %s by server %s, %s; want server %s, %s", p.path, read.AttrOr("data-read", ""), gotServer, gotWhy, server, why)
		}
	})
	if got := p.header.Get("X-Server-Id"); got != server {
		p.t.Errorf("%s: X-Server-Id is %q, want %q", p.path, got, server)
	}
	return p
}

func TestNewPostIsThereAfterTheRedirect(t *testing.T) {
	s := newTestSite(t)
	resume := stacktest.Pause(t, s.servers)
	b := s.browser()
	p := b.post("/posts", "title", "Hello", "body", "First paragraph.\r\n\r\nSecond.")
	p.want(http.StatusOK, "[data-title]", "Hello").wantReads("1", dbroute.CommitNotReached)
	if n := p.Find(".post .prose p").Length(); n != 2 {
		t.Errorf("%d paragraphs", n)
	}
	s.browser().get(p.path).want(http.StatusNotFound, "h1", "There is nothing here").wantReads("2", dbroute.NoPendingCommit)
	b.get("/posts").want(http.StatusOK, ".posts h2", "Hello").wantReads("1", dbroute.CommitNotReached)
	b.get("/").want(http.StatusOK, ".posts h2", "Hello").wantReads("1", dbroute.CommitNotReached)
	resume()
	stacktest.Applied(t, s.servers)
	b.get(p.path).want(http.StatusOK, "[data-title]", "Hello").wantReads("2", dbroute.CommitReached)
	s.browser().get(p.path).want(http.StatusOK, "[data-title]", "Hello").wantReads("2", dbroute.NoPendingCommit)
}

func TestEditCommentDeleteWhilePaused(t *testing.T) {
	s := newTestSite(t)
	path := fmt.Sprintf("/posts/%d", s.create("Q3 pricing"))
	stacktest.Pause(t, s.servers)
	b, other := s.browser(), s.browser()

	form := b.get(path+"/edit").wantReads("2", dbroute.NoPendingCommit)
	version := form.Find(`[name=version]`).AttrOr("value", "")
	p := b.post(path, "title", "Q3 pricing update", "body", "New.", "version", version)
	p.want(http.StatusOK, "[data-title]", "Q3 pricing update").wantReads("1", dbroute.CommitNotReached)
	if !strings.Contains(p.text(".meta"), "edited") {
		t.Errorf("meta is %q", p.text(".meta"))
	}
	b.get(path+"/edit").want(http.StatusOK, "textarea", "New.")
	other.get(path).want(http.StatusOK, "[data-title]", "Q3 pricing").wantReads("2", dbroute.NoPendingCommit)

	p = b.post(path+"/comments", "body", "A <b>comment</b>")
	p.want(http.StatusOK, "[data-comment] .prose", "A <b>comment</b>").want(http.StatusOK, "#comments-title", "1 comment")
	other.get(path).want(http.StatusOK, "#comments-title", "Comments")

	b.post(path+"/delete").want(http.StatusOK, ".empty", "Nobody has written anything yet. Write the first post.")
	b.get(path).want(http.StatusNotFound, "h1", "There is nothing here").wantReads("1", dbroute.CommitNotReached)
	other.get(path).want(http.StatusOK, "[data-title]", "Q3 pricing")
}

// The replica still has a post that is gone.
func TestWhatOthersHaveDeletedCannotBeChanged(t *testing.T) {
	s := newTestSite(t)
	id := s.create("Gone soon")
	path := fmt.Sprintf("/posts/%d", id)
	stacktest.Pause(t, s.servers)
	stacktest.Must(t, s.store.Delete(stacktest.Context(t), id))
	b := s.browser()
	b.get(path).want(http.StatusOK, "[data-title]", "Gone soon")
	b.post(path+"/comments", "body", "Still there?").want(http.StatusNotFound, "h1", "There is nothing here")
	b.post(path+"/delete").want(http.StatusNotFound, "h1", "There is nothing here")
	p := b.post(path, "title", "Kept", "body", "What I typed").want(http.StatusNotFound, "textarea", "What I typed")
	if got := p.Find("form.editor").AttrOr("action", ""); got != "/posts" {
		t.Errorf("the text would be sent to %q", got)
	}
}

func TestSavingOverSomebodyElse(t *testing.T) {
	s := newTestSite(t)
	id := s.create("Draft")
	path := fmt.Sprintf("/posts/%d", id)
	stacktest.Pause(t, s.servers)
	b := s.browser()
	version := b.get(path+"/edit").Find(`[name=version]`).AttrOr("value", "")
	stacktest.Must(t, s.store.Update(stacktest.Context(t), id, posts.Draft{Title: "Theirs", Body: "Their text"}, 0))

	p := b.post(path, "title", "Mine", "body", "My text", "version", version)
	p.want(http.StatusConflict, "textarea", "My text").want(http.StatusConflict, ".problem blockquote b", "Theirs")
	version = p.Find(`[name=version]`).AttrOr("value", "")
	b.post(path, "title", "Mine", "body", "My text", "version", version).want(http.StatusOK, "[data-title]", "Mine")
}

func TestFormsSayWhatIsWrong(t *testing.T) {
	s := newTestSite(t)
	id := s.create("Post")
	path := fmt.Sprintf("/posts/%d", id)
	b := s.browser()
	long := strings.Repeat("é", posts.MaxTitle+1)
	for _, c := range []struct {
		name, path  string
		title, body string
		selector    string
		want        string
	}{
		{"no title", "/posts", " \t", "Body", "#title-error", "Please write a title."},
		{"no body", "/posts", "Title", "\r\n", "#body-error", "Please write a text."},
		{"long title", path, long, "Body", "#title-error", "The title has 201 characters. At most 200 fit."},
		{"long body", path, "Title", strings.Repeat("x", posts.MaxBody+1), "#body-error", "The text has 20001 characters. At most 20000 fit."},
		{"NUL", "/posts", "a\x00b", "Body", "#title-error", "The title has characters that are not text. Please remove them."},
		{"no UTF-8", path, "Title", "a\xffb", "#body-error", "The text has characters that are not text. Please remove them."},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := b.post(c.path, "title", c.title, "body", c.body)
			p.want(http.StatusUnprocessableEntity, c.selector, c.want)
			if c.name == "no body" && p.Find("#title").AttrOr("value", "") != "Title" {
				t.Error("what was typed is gone")
			}
			invalid := p.Find(`[aria-invalid=true]`)
			if "#"+invalid.AttrOr("id", "")+"-error" != c.selector {
				t.Errorf("the invalid field is %q", invalid.AttrOr("id", ""))
			}
		})
	}
	b.post("/posts", "title", strings.Repeat("é", posts.MaxTitle), "body", strings.Repeat("🙂", posts.MaxBody)).
		want(http.StatusOK, "[data-title]", strings.Repeat("é", posts.MaxTitle))
	b.post(path+"/comments", "body", "").
		want(http.StatusUnprocessableEntity, "#comment-error", "Please write a comment.").
		want(http.StatusUnprocessableEntity, "[data-title]", "Post")
	if _, err := s.store.ByID(stacktest.Context(t), id); err != nil {
		t.Error(err)
	}
}

func TestRequestsThatNoFormMakes(t *testing.T) {
	s := newTestSite(t)
	id := s.create("Post")
	for _, c := range []struct {
		method, path, body string
		header             string
		want               int
	}{
		{"GET", "/posts/0", "", "", 404},
		{"GET", "/posts/-1", "", "", 404},
		{"GET", "/posts/abc", "", "", 404},
		{"GET", "/posts/99999999999999999999", "", "", 404},
		{"GET", "/posts/9223372036854775807", "", "", 404},
		{"GET", "/posts/%00", "", "", 404},
		{"GET", "/posts?before=abc", "", "", 400},
		{"GET", "/posts?before=-1", "", "", 400},
		{"GET", fmt.Sprintf("/posts/%d?before=x", id), "", "", 400},
		{"GET", "/nothing", "", "", 404},
		{"GET", "/static/nothing", "", "", 404},
		{"PUT", "/posts", "", "", 405},
		{"DELETE", fmt.Sprintf("/posts/%d", id), "", "", 405},
		{"POST", "/posts/abc", "title=a&body=b", "", 404},
		{"POST", "/posts", "title=%zz&body=b", "", 400},
		{"POST", fmt.Sprintf("/posts/%d", id), "title=a&body=b&version=x", "", 400},
		{"POST", fmt.Sprintf("/posts/%d", id), "title=a&body=b&version=99999999999", "", 400},
		{"POST", "/posts", "title=a&body=" + strings.Repeat("b", 600<<10), "", 413},
		{"POST", "/posts", "title=a&body=b", "Sec-Fetch-Site: cross-site", 403},
		{"POST", "/posts", "title=a&body=b", "Origin: https://elsewhere.example", 403},
		{"POST", "/posts", `{"title":"a"}`, "Content-Type: application/json", 422},
		{"HEAD", "/", "", "", 200},
		{"HEAD", fmt.Sprintf("/posts/%d", id), "", "", 200},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			request, err := http.NewRequest(c.method, s.url+c.path, strings.NewReader(c.body))
			stacktest.Must(t, err)
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if name, value, ok := strings.Cut(c.header, ": "); ok {
				request.Header.Set(name, value)
			}
			response, err := http.DefaultTransport.RoundTrip(request)
			stacktest.Must(t, err)
			response.Body.Close()
			if response.StatusCode != c.want {
				t.Errorf("status is %d, want %d", response.StatusCode, c.want)
			}
		})
	}
}

func TestPagesOfAList(t *testing.T) {
	s := newTestSite(t)
	for i := 1; i <= 23; i++ {
		s.create(fmt.Sprintf("Post %d", i))
	}
	b := s.browser()
	var titles []string
	for path := "/posts"; path != ""; {
		p := b.get(path).wantReads("2", dbroute.NoPendingCommit)
		p.Find(".posts h2").Each(func(_ int, h *goquery.Selection) { titles = append(titles, strings.TrimSpace(h.Text())) })
		path = p.Find("a[rel=next]").AttrOr("href", "")
	}
	for i, title := range titles {
		if want := fmt.Sprintf("Post %d", 23-i); title != want {
			t.Fatalf("title %d is %q, want %q", i, title, want)
		}
	}
	if len(titles) != 23 {
		t.Errorf("%d titles", len(titles))
	}
	b.get("/posts?before=1").want(http.StatusOK, ".empty", "There are no older posts.")
}

func TestPagesOfComments(t *testing.T) {
	s := newTestSite(t)
	id := s.create("Busy")
	for i := 1; i <= 101; i++ {
		_, err := s.store.AddComment(stacktest.Context(t), id, fmt.Sprintf("Comment %d", i))
		stacktest.Must(t, err)
	}
	stacktest.Applied(t, s.servers)
	b := s.browser()
	p := b.get(fmt.Sprintf("/posts/%d", id)).want(http.StatusOK, "[data-comment] .prose", "Comment 2")
	if n := p.Find("[data-comment]").Length(); n != 100 {
		t.Errorf("%d comments", n)
	}
	earlier := p.Find("#comments a").First().AttrOr("href", "")
	b.get(fmt.Sprintf("/posts/%d", id)+earlier).want(http.StatusOK, "[data-comment] .prose", "Comment 1")
}

func TestPrimaryDown(t *testing.T) {
	servers := stacktest.Start(t, 1)
	s := newTestSiteOn(t, servers)
	path := fmt.Sprintf("/posts/%d", s.create("Post"))
	writer, reader := s.browser(), s.browser()
	stacktest.Pause(t, servers)
	writer.post(path, "title", "New title", "body", "Text").wantReads("1", dbroute.CommitNotReached)
	stacktest.Must(t, servers.Primary().Kill(stacktest.Context(t)))

	reader.get(path).want(http.StatusOK, "[data-title]", "Post").wantReads("2", dbroute.NoPendingCommit)
	p := reader.post(path, "title", "Mine", "body", "My text")
	p.want(http.StatusServiceUnavailable, "textarea", "My text").want(http.StatusServiceUnavailable, ".problem strong", "The primary cannot be reached.")
	p = reader.post(path+"/comments", "body", "My comment")
	p.want(http.StatusServiceUnavailable, "form textarea", "My comment").want(http.StatusServiceUnavailable, "[data-title]", "Post")
	writer.get(path).want(http.StatusServiceUnavailable, "h1", "The primary cannot be reached") // never stale

	stacktest.Must(t, servers.Primary().Start(stacktest.Context(t)))
	writer.get(path).want(http.StatusOK, "[data-title]", "New title")
}
