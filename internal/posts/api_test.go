package posts_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
	"freshread/internal/web"
)

func draft(title string) map[string]any {
	return map[string]any{"title": title, "body": "Body of " + title}
}

// publish returns the path of a new post, as the replicas know it too.
func publish(p *sitetest.Program, title string) string {
	p.Site.T.Helper()
	path := p.Send(http.MethodPost, "/api/posts", draft(title)).Want(http.StatusCreated, "title", title, "version", "1").Header.Get("Location")
	p.Site.Applied()
	return path
}

func commitID(r *sitetest.Reply) string { return "Commit-Id: " + r.Header.Get("Commit-Id") }

func TestProgramReadsWhatItHasJustWritten(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p, nobody := s.Program(s.User("Mara")), s.Program(nil)
		path := publish(p, "Old")
		p.Get(path).Want(http.StatusOK, "title", "Old").WantServer("2", dbroute.CommitReached)
		resume := s.Pause()
		saved := p.Send(http.MethodPut, path, draft("New"), "If-Match: *").Want(http.StatusOK, "title", "New", "version", "2", "server_id", "1")

		// The guard knows of the write; whoever has no token is told by the header.
		p.Get(path).Want(http.StatusOK, "title", "New").WantServer("1", dbroute.CommitNotReached)
		nobody.Get(path, commitID(saved)).Want(http.StatusOK, "title", "New").WantServer("1", dbroute.CommitNotReached)
		nobody.Get(path).Want(http.StatusOK, "title", "Old").WantServer("2", dbroute.NoPendingCommit)
		if reads := p.Get("/api/posts").WantServer("1", dbroute.CommitNotReached).Fields["posts"].([]any); reads[0].(map[string]any)["title"] != "New" {
			t.Errorf("the list has %v", reads)
		}
		resume()
		s.Applied()
		p.Get(path).Want(http.StatusOK, "title", "New").WantServer("2", dbroute.CommitReached)
		nobody.Get(path, commitID(saved)).Want(http.StatusOK, "title", "New").WantServer("2", dbroute.CommitReached)
	})
}

// Service B has a token of its own, and has been given the Commit-Id of A's write.
func TestServiceSeesTheWriteWhoseCommitIDItWasGiven(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		a, b := s.Program(s.User("Mara")), s.Program(s.User("Tobias"))
		first, second := publish(a, "First"), publish(a, "Second")
		third := publish(b, "Third")
		one := commitID(a.Send(http.MethodPut, first, draft("First, changed"), "If-Match: *").Want(http.StatusOK))
		s.Applied()
		s.Pause()
		two := commitID(a.Send(http.MethodPut, second, draft("Second, changed"), "If-Match: *").Want(http.StatusOK))
		b.Get(second, one).Want(http.StatusOK, "title", "Second").WantServer("2", dbroute.CommitReached)
		b.Get(second, two).Want(http.StatusOK, "title", "Second, changed").WantServer("1", dbroute.CommitNotReached)
		// Several are merged, in whatever order and form they come.
		value := func(header string) string { _, v, _ := strings.Cut(header, ": "); return v }
		for _, headers := range [][]string{
			{one, two}, {two, one}, {"Commit-Id: " + value(two) + ", " + value(one)}, {"Commit-Id: ,," + value(one) + " ,", two},
		} {
			b.Get(second, headers...).Want(http.StatusOK, "title", "Second, changed").WantServer("1", dbroute.CommitNotReached)
		}
		// What B writes covers what it was given.
		three := commitID(b.Send(http.MethodPut, third, draft("Third, changed"), "If-Match: *", two).Want(http.StatusOK))
		s.Program(nil).Get(second, three).Want(http.StatusOK, "title", "Second, changed").WantServer("1", dbroute.CommitNotReached)
	})
}

func TestBrowserAndProgramOfAUserSeeEachOthersWrites(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		p := s.Program(user)
		path := user.Write("Old")
		s.Pause()
		user.Post(path, "title", "By the browser", "body", "b").Want(http.StatusOK, "[data-title]", "By the browser")
		p.Get("/api"+path).Want(http.StatusOK, "title", "By the browser").WantServer("1", dbroute.CommitNotReached)
		p.Send(http.MethodPut, "/api"+path, draft("By the program"), "If-Match: *").Want(http.StatusOK)
		elsewhere := user.LogIn()
		elsewhere.Get(path).Want(http.StatusOK, "[data-title]", "By the program").WantReads("1", dbroute.CommitNotReached)
		user.Post("/profile", "name", "Mara Lindqvist")
		p.Get("/api/me").Want(http.StatusOK, "name", "Mara Lindqvist").WantServer("1", dbroute.CommitNotReached)
	})
}

// A site whose servers nobody listens for can only answer what takes no query.
func TestCommitIDThatIsNoneCostsNoQuery(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		p := s.Program(user)
		path := publish(p, "Post")
		good := p.Send(http.MethodPut, path, draft("New"), "If-Match: *").Want(http.StatusOK).Header.Get("Commit-Id")
		if len(good) == 0 || len(good) > 4096 {
			t.Fatalf("Commit-Id is %q", good)
		}
		foreign := func(change func(*site.Config)) string {
			other := p.In(t)
			other.URL = s.Process(change)
			return other.Send(http.MethodPut, path, draft("New"), "If-Match: *").Want(http.StatusOK).Header.Get("Commit-Id")
		}
		renamed := func(cfg *site.Config) {
			clusterConfig := cfg.Cluster.Config()
			clusterConfig.Name = "other"
			cluster, err := dbroute.Open(clusterConfig)
			stacktest.Must(t, err)
			t.Cleanup(func() { cluster.Close() })
			cfg.Cluster, cfg.Router = cluster, nil
		}
		resume := s.Pause()
		user.Post("/posts", "title", "a", "body", "b")
		u, err := url.Parse(s.URL)
		stacktest.Must(t, err)
		marker := ""
		for _, c := range user.Client.Jar.Cookies(u) {
			if strings.HasPrefix(c.Name, "marker.") {
				marker = c.Value
			}
		}
		resume()
		s.Applied()
		dead := p.In(t)
		dead.URL = s.Unreachable()
		for name, value := range map[string]string{
			"forged":          strings.Repeat("a", len(good)),
			"text":            "garbage",
			"a position":      "postgres:1:0/3000060",
			"edited":          good[:10] + "x" + good[11:],
			"truncated":       good[:len(good)-2],
			"of a cookie":     marker,
			"of another site": foreign(renamed),
			"8 KB":            strings.Repeat("a", 8<<10),
			"one bad of two":  good + ",garbage",
			"too many":        strings.Repeat(good+",", 8) + good,
		} {
			t.Run(name, func(t *testing.T) {
				for _, p := range []*sitetest.Program{p.In(t), dead.In(t), dead.In(t).With("")} {
					r := p.Get(path, "Commit-Id: "+value)
					r.WantProblem(http.StatusBadRequest, "Commit-Id: ")
					if len(r.Reads()) > 0 {
						t.Errorf("it was asked for %q", r.Reads())
					}
					p.Send(http.MethodPost, "/api/posts", draft("Never"), "Commit-Id: "+value).WantProblem(http.StatusBadRequest, "Commit-Id: ")
				}
			})
		}
		p.Get(path, "Commit-Id: "+strings.Repeat(good+",", 7)+good).Want(http.StatusOK)
		p.Get(path, "Commit-Id:  ").Want(http.StatusOK)
	})
}

func TestCommitIDOutlivesANewKey(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p := s.Program(s.User("Mara"))
		path := publish(p, "Old")
		s.Pause()
		saved := p.Send(http.MethodPut, path, draft("New"), "If-Match: *").Want(http.StatusOK)
		nobody := s.Program(nil)
		oldKey, newKey := []byte(strings.Repeat("k", 32)), []byte(strings.Repeat("n", 32))
		nobody.URL = s.Process(func(cfg *site.Config) { cfg.SessionKeys = [][]byte{newKey, oldKey} })
		nobody.Get(path, commitID(saved)).Want(http.StatusOK, "title", "New").WantServer("1", dbroute.CommitNotReached)
		nobody.URL = s.Process(func(cfg *site.Config) { cfg.SessionKeys = [][]byte{newKey} })
		nobody.Get(path, commitID(saved)).WantProblem(http.StatusBadRequest, "Commit-Id: ")
	})
}

func TestReadConsistency(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p, other := s.Program(s.User("Mara")), s.Program(s.User("Tobias"))
		path := publish(p, "Old")
		publish(p, "Another")
		wantStrongOnReplica(t, other, path)
		resume := s.Pause()
		saved := p.Send(http.MethodPut, path, draft("New"), "If-Match: *").Want(http.StatusOK)

		want := func(r *sitetest.Reply, used string) *sitetest.Reply {
			t.Helper()
			if got := r.Header.Get("Read-Consistency"); got != used {
				t.Errorf("%s: Read-Consistency is %q, want %s", r.Call, got, used)
			}
			return r
		}
		want(p.Get(path), "session").Want(http.StatusOK, "title", "New")
		want(p.Get(path, "Read-Consistency: session"), "session").Want(http.StatusOK, "title", "New")
		want(p.Get(path, "Read-Consistency: eventual", commitID(saved)), "eventual").Want(http.StatusOK, "title", "Old").
			WantServer("2", dbroute.StrategyNone)
		want(p.Get(path+"?read_consistency=eventual"), "eventual").Want(http.StatusOK, "title", "Old")
		want(p.Get(path+"?read_consistency=eventual", "Read-Consistency: eventual"), "eventual").Want(http.StatusOK, "title", "Old")
		// Who has written nothing, too, can ask for all there is.
		want(other.Get(path), "session").Want(http.StatusOK, "title", "Old").WantServer("2", dbroute.CommitReached)
		for _, reader := range []*sitetest.Program{other, s.Program(nil)} {
			want(reader.Get(path, "Read-Consistency: strong"), "strong").Want(http.StatusOK, "title", "New").
				WantServer("1", dbroute.CommitNotReached)
		}
		// A link of a list keeps what was asked for.
		if next := p.Get("/api/posts?limit=1&read_consistency=eventual").Text("next"); !strings.Contains(next, "read_consistency=eventual") {
			t.Errorf("next is %q", next)
		}
		dead := s.Program(nil)
		dead.URL = s.Unreachable()
		for _, wrong := range []string{"Strong", "none", "strong, session", ""} {
			dead.Get(path, "Read-Consistency: "+wrong).WantProblem(http.StatusBadRequest, "eventual, session and strong")
		}
		dead.Get(path+"?read_consistency=x").WantProblem(http.StatusBadRequest, "eventual, session and strong")
		dead.Get(path+"?read_consistency=strong", "Read-Consistency: eventual").WantProblem(http.StatusBadRequest, "eventual, session and strong")
		resume()
		s.Applied()
		wantStrongOnReplica(t, other, path)
	})
}

// wantStrongOnReplica waits until the replica has all there is: what the primary does
// on its own moves its position, too.
func wantStrongOnReplica(t *testing.T, p *sitetest.Program, path string) {
	t.Helper()
	for ctx := stacktest.Context(t); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if r := p.Get(path, "Read-Consistency: strong").Want(http.StatusOK); r.Text("server_id") == "2" {
			r.WantServer("2", dbroute.CommitReached)
			return
		}
	}
	t.Error("the replica is not read")
}

// Under another strategy of the site, it is what session means.
func TestSessionIsTheSitesStrategy(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p := s.Program(s.User("Mara"))
		path := publish(p, "Old")
		for title, c := range map[string]struct {
			strategy site.Strategy
			server   string
			why      dbroute.Reason
		}{
			"by window": {site.Window, "1", dbroute.WithinWindow},
			"anywhere":  {site.None, "2", dbroute.StrategyNone},
		} {
			p.URL = s.Process(func(cfg *site.Config) { cfg.Strategy, cfg.Window = c.strategy, time.Hour })
			p.Send(http.MethodPut, path, draft(title), "If-Match: *").Want(http.StatusOK)
			s.Applied()
			p.Get(path).Want(http.StatusOK, "title", title).WantServer(c.server, c.why)
		}
	})
}

func TestStrongWithoutCommitIDsReadsThePrimary(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p := s.Program(nil)
		path := publish(s.Program(s.User("Mara")), "Old")
		p.URL = s.Process(func(cfg *site.Config) {
			without := cfg.Cluster.Config()
			without.NoCommitIDs = "they are not wanted here"
			cluster, err := dbroute.Open(without)
			stacktest.Must(t, err)
			t.Cleanup(func() { cluster.Close() })
			cfg.Cluster = cluster
		})
		p.Get(path).Want(http.StatusOK).WantServer("2", dbroute.NoRecentWrite)
		p.Get(path, "Read-Consistency: strong").Want(http.StatusOK).WantServer("1", dbroute.PrimaryAskedFor)
	})
}

func TestLostUpdateIsRefused(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		p, q := s.Program(user), s.Program(user)
		post := publish(p, "Draft")
		comment := p.Send(http.MethodPost, post+"/comments", map[string]any{"body": "First"}).
			Want(http.StatusCreated, "body", "First", "version", "1").Header.Get("Location")
		s.Applied()
		s.Pause()
		for path, body := range map[string]func(string) map[string]any{
			post:    draft,
			comment: func(text string) map[string]any { return map[string]any{"body": text} },
		} {
			etag := p.Get(path).Want(http.StatusOK).Header.Get("ETag")
			if etag != `"1"` {
				t.Fatalf("%s: ETag is %q", path, etag)
			}
			mine := "If-Match: " + etag
			if got := q.Send(http.MethodPut, path, body("Theirs"), mine).Want(http.StatusOK, "version", "2").Header.Get("ETag"); got != `"2"` {
				t.Errorf("%s: ETag is %q", path, got)
			}
			p.Send(http.MethodPut, path, body("Mine"), mine).WantProblem(http.StatusPreconditionFailed, "changed meanwhile")
			p.Send(http.MethodDelete, path, nil, mine).WantProblem(http.StatusPreconditionFailed, "changed meanwhile")
			p.Send(http.MethodPut, path, body("Mine")).WantProblem(http.StatusPreconditionRequired, "If-Match")
			p.Send(http.MethodDelete, path, nil).WantProblem(http.StatusPreconditionRequired, "If-Match")
			for _, none := range []string{
				`W/"2"`, `"x"`, `"1", W/"2"`, `"99999999999999999999"`, `""`,
				`"1,2"`, `"2,1"`, `"v,2"`, `"2,v"`, `"+2"`, `"02"`, // others' tags, whole
			} {
				p.Send(http.MethodPut, path, body("Mine"), "If-Match: "+none).WantProblem(http.StatusPreconditionFailed, "changed meanwhile")
			}
			for _, malformed := range []string{"2", `"2`, `2"`, `"1" "2"`, `"2 "`, "*, *"} {
				p.Send(http.MethodPut, path, body("Mine"), "If-Match: "+malformed).WantProblem(http.StatusBadRequest, "If-Match: ")
			}
			p.Send(http.MethodPut, path, body("Mine"), `If-Match: "1", "2"`).Want(http.StatusOK, "version", "3")
			p.Send(http.MethodPut, path, body("Mine"), `If-Match: "1"`, `If-Match: "3"`).Want(http.StatusOK, "version", "4")
		}
		p.Send(http.MethodDelete, comment, nil, `If-Match: "4"`).Want(http.StatusNoContent)
		p.Send(http.MethodDelete, post, nil, `If-Match: *`).Want(http.StatusNoContent)
		for _, path := range []string{post, comment} {
			p.Get(path).WantProblem(http.StatusNotFound, "does not exist")
			p.Send(http.MethodPut, path, draft("x"), "If-Match: *").Want(map[bool]int{true: 404, false: 400}[path == post])
		}
	})
}

// A body says more than its version does: a client that has the version, and so would
// take a 304 for all there is, must see its author's new name.
func TestNewNameOfAnAuthorIsSeenByWhoHasTheVersion(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		p := s.Program(user)
		post := publish(p, "Post")
		comment := p.Send(http.MethodPost, post+"/comments", map[string]any{"body": "Mine"}).Want(http.StatusCreated).Header.Get("Location")
		s.Applied()
		s.Pause()
		user.Post("/profile", "name", "Mara Lindqvist")
		for _, path := range []string{post, comment} {
			for _, has := range []string{`"1"`, `W/"1"`, "*"} {
				r := p.Get(path, "If-None-Match: "+has).Want(http.StatusOK, "version", "1").WantServer("1", dbroute.CommitNotReached)
				if author := r.Fields["author"].(map[string]any); author["name"] != "Mara Lindqvist" {
					t.Errorf("%s: the author is %v", path, author)
				}
				if etag, cache := r.Header.Get("ETag"), r.Header.Get("Cache-Control"); etag != `"1"` || cache != "no-store" {
					t.Errorf("%s: ETag is %s, Cache-Control %q", path, etag, cache)
				}
			}
		}
	})
}

func TestOfTwoUpdatesOfOneVersionOneIsSaved(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		author, admin := s.User("Mara"), s.User("Yuki")
		s.Exec(`UPDATE users SET role = 'admin' WHERE id = ?`, admin.ID)
		editors := []*sitetest.Program{s.Program(author), s.Program(admin)}
		path := publish(editors[0], "Draft")
		ofPost := newHold(s, `SELECT id FROM posts FOR UPDATE`)
		<-ofPost.locked
		statuses := make(chan int, len(editors))
		for i, p := range editors {
			go func() { statuses <- p.Send(http.MethodPut, path, draft(fmt.Sprint(i)), `If-Match: "1"`).Status }()
			stacktest.LocksAwaited(t, s.Servers, i+1)
		}
		ofPost.end()
		if first, second := <-statuses, <-statuses; first+second != http.StatusOK+http.StatusPreconditionFailed {
			t.Errorf("statuses are %d and %d", first, second)
		}
	})
}

func TestOnlyOnesOwnCanBeChangedByAProgram(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p, other := s.Program(s.User("Mara")), s.Program(s.User("Tobias"))
		post := publish(p, "Mine")
		comment := p.Send(http.MethodPost, post+"/comments", map[string]any{"body": "Mine"}).Want(http.StatusCreated).Header.Get("Location")
		other.Send(http.MethodPut, post, draft("Theirs"), "If-Match: *").WantProblem(http.StatusForbidden, "changed by those who wrote them")
		other.Send(http.MethodDelete, post, nil, "If-Match: *").WantProblem(http.StatusForbidden, "changed by those who wrote them")
		other.Send(http.MethodPut, comment, map[string]any{"body": "Theirs"}, "If-Match: *").WantProblem(http.StatusForbidden, "changed by those who wrote them")
		other.Send(http.MethodDelete, comment, nil, "If-Match: *").WantProblem(http.StatusForbidden, "changed by those who wrote them")
		other.Send(http.MethodPost, post+"/comments", map[string]any{"body": "Theirs"}).Want(http.StatusCreated)
	})
}

func TestListsInParts(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p := s.Program(s.User("Mara"))
		post := publish(p, "Post 1")
		for i := 2; i <= 23; i++ {
			p.Send(http.MethodPost, "/api/posts", draft(fmt.Sprint("Post ", i))).Want(http.StatusCreated)
			p.Send(http.MethodPost, post+"/comments", map[string]any{"body": fmt.Sprint("Comment ", i)}).Want(http.StatusCreated)
		}
		s.Applied()
		for list, last := range map[string]string{"/api/posts": "Post 1", post + "/comments": "Comment 2"} {
			var all []string
			parts := 0
			for path := list + "?limit=5"; path != ""; parts++ {
				r := p.Get(path).Want(http.StatusOK).WantServer("2", dbroute.CommitReached)
				kind := "posts"
				if list != "/api/posts" {
					kind = "comments"
				}
				for _, item := range r.Fields[kind].([]any) {
					fields := item.(map[string]any)
					if title, ok := fields["title"]; ok {
						all = append(all, title.(string))
					} else {
						all = append(all, fields["body"].(string))
					}
				}
				path, _ = r.Fields["next"].(string)
				if want := fmt.Sprintf(`<%s>; rel="next"`, path); path != "" && r.Header.Get("Link") != want {
					t.Errorf("Link is %q, want %q", r.Header.Get("Link"), want)
				}
			}
			if parts != 5 || all[0] != strings.Replace(strings.Replace(last, "1", "23", 1), "2", "23", 1)[:len(all[0])] || all[len(all)-1] != last {
				t.Errorf("%s: %d parts: %q", list, parts, all)
			}
		}
		for _, wrong := range []string{"limit=0", "limit=-1", "limit=x", "before=0", "before=x", "before=99999999999999999999"} {
			p.Get("/api/posts?"+wrong).WantProblem(http.StatusBadRequest, "has to be a positive number")
		}
		if n := len(p.Get("/api/posts?limit=1000000").Want(http.StatusOK).Fields["posts"].([]any)); n != 23 {
			t.Errorf("%d posts", n)
		}
		if r := p.Get("/api/posts?before=1"); r.Body == "" || r.Want(http.StatusOK, "next", "<nil>").Text("posts") != "[]" {
			t.Errorf("after the last there are %s", r.Body)
		}
	})
}

// Everything under /api that goes wrong is told in the same form.
func TestProblems(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p := s.Program(s.User("Mara"))
		post := publish(p, "Post")
		const json, form = "Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded"
		for name, c := range map[string]struct {
			method, path string
			body         any
			header       string
			status       int
			want         string
		}{
			"no such route":       {"GET", "/api/nothing", nil, "", 404, "The page /api tells"},
			"no such route below": {"GET", "/api/", nil, "", 404, "The page /api tells"},
			"for a browser":       {"GET", "/api/nothing", nil, "Accept: text/html", 404, "The page /api tells"},
			"no such post":        {"GET", "/api/posts/999999", nil, "", 404, "does not exist"},
			"no id":               {"GET", "/api/posts/x", nil, "", 404, "does not exist"},
			"comment elsewhere":   {"POST", "/api/posts/999999/comments", map[string]any{"body": "b"}, "", 404, "does not exist"},
			"method":              {"PATCH", "/api/posts", nil, "", 405, "Allow"},
			"no type":             {"POST", "/api/posts", `{}`, "Content-Type: ", 415, "application/json"},
			"a form":              {"POST", "/api/posts", `title=a&body=b`, form, 415, "application/json"},
			"no JSON":             {"POST", "/api/posts", `{"title":`, json, 400, "not JSON"},
			"nothing":             {"POST", "/api/posts", ``, json, 400, "not JSON"},
			"a list":              {"POST", "/api/posts", `[]`, json, 400, "has to be a JSON object"},
			"null":                {"POST", "/api/posts", `null`, json, 422, `"pointer":"#/title"`},
			"two documents":       {"POST", "/api/posts", `{"title":"a","body":"b"}{}`, json, 400, "after the JSON document"},
			"an unknown field":    {"POST", "/api/posts", `{"titel":"a"}`, json, 400, `There is no field \"titel\".`},
			"no UTF-8":            {"POST", "/api/posts", "{\"title\":\"a\xff\",\"body\":\"b\"}", json, 400, "not UTF-8"},
			"NUL":                 {"POST", "/api/posts", `{"title":"a\u0000","body":"b"}`, json, 422, "not text"},
			"a number":            {"POST", "/api/posts", `{"title":1,"body":"b"}`, json, 422, `{"pointer":"#/title","detail":"This has to be a string."}`},
			"fields":              {"POST", "/api/posts", `{"title":" "}`, json, 422, `"errors":[{"pointer":"#/title","detail":"Please write a title."},{"pointer":"#/body","detail":"Please write a text."}]`},
			"a long title":        {"PUT", post, draft(strings.Repeat("x", 201)), "If-Match: *", 422, "At most 200 fit."},
			"no comment":          {"POST", post + "/comments", map[string]any{"body": ""}, "", 422, `"pointer":"#/body"`},
			"too much":            {"POST", "/api/posts", draft(strings.Repeat("x", 600<<10)), "", 413, "512 KiB"},
		} {
			t.Run(name, func(t *testing.T) {
				var headers []string
				if c.header != "" {
					headers = append(headers, c.header)
				}
				r := p.In(t).Send(c.method, c.path, c.body, headers...)
				r.WantProblem(c.status, c.want)
				if allow := r.Header.Get("Allow"); c.status == 405 && !(strings.Contains(allow, "GET") && strings.Contains(allow, "POST")) {
					t.Errorf("Allow is %q", allow)
				}
				if r.Header.Get("Commit-Id") != "" {
					t.Error("it has written something")
				}
			})
		}
		p.URL = s.Unreachable()
		r := p.Get(post)
		r.WantProblem(http.StatusServiceUnavailable, "The primary cannot be reached")
		if got := r.Header.Get("Retry-After"); got == "" {
			t.Errorf("Retry-After is %q", got)
		}
		// A page says when to come back, too.
		b := s.Browser()
		b.URL = p.URL
		if got := b.Get("/posts").Header.Get("Retry-After"); got == "" {
			t.Errorf("Retry-After of a page is %q", got)
		}
	})
}

// hold has a lock on the primary until it ends.
type hold struct{ locked, release, done chan struct{} }

func newHold(s *sitetest.Site, statement string, args ...any) *hold {
	h := &hold{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	go func() {
		defer close(h.done)
		s.Cluster.Write(context.Background(), "hold", func(ctx context.Context, tx *dbroute.Tx) error {
			if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
				s.T.Error(err)
			}
			close(h.locked)
			<-h.release
			return nil
		})
	}()
	return h
}

func (h *hold) end() { close(h.release); <-h.done }

// The client goes away after the commit and before the guard has been told of it:
// the guard is told all the same.
func TestGuardIsToldWhenTheClientIsGone(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		p := s.Program(user)
		path := publish(p, "Old")
		s.Pause()
		noticed := make(chan struct{})
		url := s.Process(func(cfg *site.Config) {
			cfg.BeforeLoad = []web.Middleware{{Name: "notice", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c echo.Context) error {
					context.AfterFunc(c.Request().Context(), func() { close(noticed) })
					return next(c)
				}
			}}}
		})

		// The write stops in its transaction, which has locked the user by then.
		ofPost := newHold(s, `SELECT id FROM posts WHERE id = ? FOR UPDATE`, strings.TrimPrefix(path, "/api/posts/"))
		<-ofPost.locked
		ctx, leave := context.WithCancel(stacktest.Context(t))
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, url+path, strings.NewReader(`{"title":"New","body":"b"}`))
		stacktest.Must(t, err)
		request.Header = http.Header{"Authorization": {"Bearer " + p.Token}, "Content-Type": {"application/json"}, "If-Match": {"*"}}
		failed := make(chan error)
		go func() {
			_, err := http.DefaultTransport.RoundTrip(request)
			failed <- err
		}()
		stacktest.LockAwaited(t, s.Servers)
		// Who waits for the user now is next, and the guard after it. PostgreSQL keeps
		// that order for tables only.
		ofUser := newHold(s, dbroute.PerEngine{
			Postgres: `LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE`,
			MySQL:    `SELECT id FROM users FOR UPDATE`,
			MariaDB:  `SELECT id FROM users FOR UPDATE`,
		}.For(s.Cluster.Engine()))
		stacktest.LocksAwaited(t, s.Servers, 2)
		ofPost.end()
		<-ofUser.locked
		if untold := sitetest.Value[int](s, `SELECT writes - covered FROM users WHERE id = ?`, user.ID); untold != 1 {
			t.Fatalf("of %d writes the guard has not been told", untold)
		}
		leave()
		if err := <-failed; err == nil {
			t.Fatal("the client was there")
		}
		<-noticed
		ofUser.end()
		for ctx := stacktest.Context(t); sitetest.Value[int](s, `SELECT writes - covered FROM users WHERE id = ?`, user.ID) > 0; time.Sleep(5 * time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatal("the guard has not been told")
			}
		}
		p.Get(path).Want(http.StatusOK, "title", "New").WantServer("1", dbroute.CommitNotReached)
	})
}
