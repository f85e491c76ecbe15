package posts_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

// listed is what a list shows of a post besides its author.
func listed(p *sitetest.Page, path string) string {
	id := strings.TrimPrefix(path, "/posts/")
	_, counted, _ := strings.Cut(p.Text(fmt.Sprintf("[data-post=%q] .meta", id)), " · ")
	return counted
}

func wantListed(t *testing.T, who string, b *sitetest.Browser, path, want string) {
	t.Helper()
	for _, list := range []string{"/", "/posts"} {
		if got := listed(b.Get(list), path); got != want {
			t.Errorf("%s sees %q on %s, want %q", who, got, list, want)
		}
	}
}

// An update forgets the cached summary, and a visitor who reads the replica brings
// it back within the lag.
func TestTallyRefilledWithinTheLagIsNew(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b, visitor := s.User("Mara"), s.Browser()
		elsewhere := s.Browser()
		elsewhere.URL = s.Process()
		path := b.Write("Post")
		wantListed(t, "a visitor", visitor, path, "1 min")
		resume := s.Pause()
		b.Post(path+"/comments", "body", "First")

		visitor.Get("/").WantReads("2", dbroute.NoPendingCommit) // refills
		for who, browser := range map[string]*sitetest.Browser{"the writer": b, "a visitor": visitor, "a visitor of another process": elsewhere} {
			wantListed(t, who, browser, path, "1 min · 1 comment")
		}
		resume()
		s.Applied()
		for who, browser := range map[string]*sitetest.Browser{"the writer": b, "a visitor": visitor} {
			wantListed(t, who, browser, path, "1 min · 1 comment")
		}
	})
}

// Whatever the writer does is counted on the next page.
func TestWriterSeesEverythingCounted(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		s.Browser().Get("/") // fills
		s.Pause()
		counts := func(want string) {
			t.Helper()
			b.Get("/").Want(http.StatusOK, "[data-counts]", want)
		}
		path := b.Post("/posts", "title", "Post", "body", "Text").Path
		counts("1 post and 0 comments by 1 person")
		another := b.Post("/posts", "title", "Another", "body", "Text").Path
		counts("2 posts and 0 comments by 1 person")
		comment := b.Post(path+"/comments", "body", "First").Number("[data-comment]", "data-comment")
		counts("2 posts and 1 comment by 1 person")
		wantListed(t, "the writer", b, path, "1 min · 1 comment")
		b.Post(path, "title", "Post", "body", strings.Repeat("long ", 500))
		wantListed(t, "the writer", b, path, "3 min · 1 comment")
		wantListed(t, "the writer", b, another, "1 min")
		b.Post(fmt.Sprintf("%s/comments/%d/delete", path, comment))
		counts("2 posts and 0 comments by 1 person")
		wantListed(t, "the writer", b, path, "3 min")
		s.Browser().Post("/signup", "name", "Tobias", "email", "tobias@example.com", "password", "a long password")
		counts("2 posts and 0 comments by 2 people")
		b.Post(path+"/comments", "body", "Second")
		counts("2 posts and 1 comment by 2 people")
		b.Post(path + "/delete")
		counts("1 post and 0 comments by 2 people")
	})
}

// lines are what is logged.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// The page says what came from the cache, and is one state all the same.
func TestCachedReadsAreShownBesideThoseOfThePage(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		logged := make(lines, 1000)
		s := sitetest.New(t, engine, func(cfg *site.Config) { cfg.Log = slog.New(slog.NewTextHandler(logged, nil)) })
		b, visitor := s.User("Mara"), s.Browser()
		b.Write("Post")
		for _, want := range []int{12, 3} { // each is looked up, its version taken, computed and stored; then looked up
			p := visitor.Get("/").WantReads("2", dbroute.NoPendingCommit)
			if n := p.Find(`[data-cache][data-server-id="1"][data-role=primary]`).Length(); n != want {
				t.Errorf("the page shows %d accesses of the cache, want %d", n, want)
			}
			if timing := strings.Join(p.Header.Values("Server-Timing"), ", "); strings.Count(timing, "cache.posts.Tally") == 0 {
				t.Errorf("Server-Timing is %q", timing)
			}
		}
		want := "cache.posts.Tally: server 1 (primary), primary-only"
		for line := range logged {
			if strings.Contains(line, "path=/ ") {
				if !strings.Contains(line, want) || !strings.Contains(line, "posts.Newest: server 2 (replica)") {
					t.Errorf("the log lacks %q: %s", want, line)
				}
				return
			}
		}
	})
}

// The cache's numbers are ahead of the replica's, so that a later page would take
// them back.
func TestMonotonicReadsAreNotCached(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		path := b.Write("Post")
		monotonic := s.Monotonic()
		visitor := s.Browser()
		visitor.URL = monotonic
		s.Pause()
		b.Post(path+"/comments", "body", "First")
		wantListed(t, "the writer", b, path, "1 min · 1 comment")
		p := visitor.Get("/").WantReads("2", dbroute.NoPendingCommit)
		if got := listed(p, path); got != "1 min" {
			t.Errorf("the visitor sees %q", got)
		}
	})
}

func TestLimitOfWritesKeepsWhatWasTyped(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, func(cfg *site.Config) { cfg.Limits.WritesByUser = cache.Limit{Hits: 3, Per: time.Hour} })
		b := s.User("Mara")
		path := b.Write("Post")
		b.Post(path+"/comments", "body", "")
		comment := fmt.Sprintf("%s/comments/%d", path, b.Post(path+"/comments", "body", "First").Number("[data-comment]", "data-comment"))
		b.Post(path, "title", "Post 2", "body", "Text").Want(http.StatusOK, "[data-title]", "Post 2")

		const problem = "That was too often. Please try again in 20 minutes."
		for _, c := range []struct{ path, field, text string }{
			{"/posts", "textarea[name=body]", "My post"}, {path, "textarea[name=body]", "My text"},
			{path + "/comments", "textarea[name=body]", "My comment"}, {comment, "textarea[name=body]", "My words"},
		} {
			p := b.Post(c.path, "title", "Title", "body", c.text).
				Want(http.StatusTooManyRequests, ".problem", problem).Want(http.StatusTooManyRequests, c.field, c.text)
			if p.Header.Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", c.path)
			}
		}
		b.Post(path+"/comments", "body", "Mine").Want(http.StatusTooManyRequests, "[data-comment] .prose", "First")
		for _, path := range []string{path + "/delete", comment + "/delete"} {
			b.Post(path).Want(http.StatusTooManyRequests, "h1", "That was too often")
		}
		b.Get(path).Want(http.StatusOK, "[data-title]", "Post 2").Want(http.StatusOK, "[data-comment] .prose", "First")
	})
}
