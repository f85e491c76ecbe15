package idempotency_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

const key = "Idempotency-Key: 3f1c"

func draft(title string) map[string]any { return map[string]any{"title": title, "body": "Body"} }

// wantReplayed expects a reply to be one from before.
func wantReplayed(t *testing.T, r *sitetest.Reply, want bool) *sitetest.Reply {
	t.Helper()
	if got := r.Header.Get("Idempotency-Replayed"); (got == "true") != want {
		t.Errorf("%s: Idempotency-Replayed is %q", r.Call, got)
	}
	return r
}

func posts(s *sitetest.Site) int {
	s.T.Helper()
	return sitetest.Value[int](s, `SELECT count(*) FROM posts`)
}

func TestSameRequestIsDoneOnce(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user, other := s.User("Mara"), s.User("Tobias")
		p, again := s.Program(user), s.Program(user)
		s.Pause()
		first := wantReplayed(t, p.Send(http.MethodPost, "/api/posts", draft("<A> & B"), key).Want(http.StatusCreated), false)
		path := first.Header.Get("Location")
		p.Send(http.MethodPut, path, draft("Changed"), "If-Match: *").Want(http.StatusOK)
		for _, body := range []any{draft("<A> & B"), ` { "body":"Body" , "title":"\u003cA> & B" } `} {
			r := wantReplayed(t, again.Send(http.MethodPost, "/api/posts", body, key).Want(http.StatusCreated), true)
			if r.Body != first.Body || r.Header.Get("Location") != path || r.Header.Get("ETag") != `"1"` {
				t.Errorf("again the answer is %s, with headers %v; want %s", r.Body, r.Header, first.Body)
			}
			// Whoever lost the answer lost its Commit-Id as well.
			s.Program(nil).Get(path, "Commit-Id: "+r.Header.Get("Commit-Id")).Want(http.StatusOK, "title", "Changed").
				WantServer("1", dbroute.CommitNotReached)
		}
		if n := posts(s); n != 1 {
			t.Errorf("there are %d posts", n)
		}
		wantReplayed(t, s.Program(other).Send(http.MethodPost, "/api/posts", draft("<A> & B"), key).Want(http.StatusCreated), false)
		wantReplayed(t, p.Send(http.MethodPost, "/api/posts", draft("<A> & B")).Want(http.StatusCreated), false)
		if n := posts(s); n != 3 {
			t.Errorf("there are %d posts", n)
		}
	})
}

func TestChangesAndDeletionsAreDoneOnceToo(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p := s.Program(s.User("Mara"))
		path := p.Send(http.MethodPost, "/api/posts", draft("Old")).Want(http.StatusCreated).Header.Get("Location")
		for _, replayed := range []bool{false, true} {
			wantReplayed(t, p.Send(http.MethodPut, path, draft("New"), `If-Match: "1"`, "Idempotency-Key: a").Want(http.StatusOK, "version", "2"), replayed)
		}
		for _, replayed := range []bool{false, true} {
			r := wantReplayed(t, p.Send(http.MethodDelete, path, nil, `If-Match: "2"`, "Idempotency-Key: b").Want(http.StatusNoContent), replayed)
			if r.Body != "" {
				t.Errorf("body is %q", r.Body)
			}
		}
	})
}

func TestKeyIsGoodForOneRequest(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p := s.Program(s.User("Mara"))
		path := p.Send(http.MethodPost, "/api/posts", draft("First"), key).Want(http.StatusCreated).Header.Get("Location")
		const used = "this key was used for another request"
		p.Send(http.MethodPost, "/api/posts", draft("Second"), key).WantProblem(http.StatusUnprocessableEntity, used)
		p.Send(http.MethodPut, path, draft("First"), "If-Match: *", key).WantProblem(http.StatusUnprocessableEntity, used)
		p.Send(http.MethodPut, path, draft("First"), `If-Match: "1"`, "Idempotency-Key: c").Want(http.StatusOK)
		p.Send(http.MethodPut, path, draft("First"), `If-Match: "2"`, "Idempotency-Key: c").WantProblem(http.StatusUnprocessableEntity, used)
		for _, wrong := range []string{"", strings.Repeat("x", 256), "schlüssel", "a\tb"} {
			p.Send(http.MethodPost, "/api/posts", draft("x"), "Idempotency-Key: "+wrong).WantProblem(http.StatusBadRequest, "Idempotency-Key: want one")
		}
		for _, first := range []string{"a", ""} {
			p.Send(http.MethodPost, "/api/posts", draft("x"), "Idempotency-Key: "+first, "Idempotency-Key: a").WantProblem(http.StatusBadRequest, "Idempotency-Key: want one")
		}
		p.Send(http.MethodPost, "/api/posts", draft("x"), "Idempotency-Key: "+strings.Repeat("x", 255)).Want(http.StatusCreated)
	})
}

// What was refused can be put right with the same key.
func TestErrorIsNotKept(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p := s.Program(s.User("Mara"))
		p.Send(http.MethodPost, "/api/posts", draft(""), key).WantProblem(http.StatusUnprocessableEntity, "Please write a title.")
		p.Send(http.MethodPost, "/api/posts/999/comments", map[string]any{"body": "b"}, key).WantProblem(http.StatusNotFound, "does not exist")
		wantReplayed(t, p.Send(http.MethodPost, "/api/posts", draft("Right"), key).Want(http.StatusCreated), false)
	})
}

func TestKeyIsForgottenAfterADay(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p := s.Program(s.User("Mara"))
		p.Send(http.MethodPost, "/api/posts", draft("Post"), key).Want(http.StatusCreated)
		p.Send(http.MethodPost, "/api/posts", draft("Post"), "Idempotency-Key: other").Want(http.StatusCreated)
		s.Exec(`UPDATE idempotency_keys SET expires_at = ?`, time.Now().Add(23*time.Hour))
		wantReplayed(t, p.Send(http.MethodPost, "/api/posts", draft("Post"), key).Want(http.StatusCreated), true)
		s.Exec(`UPDATE idempotency_keys SET expires_at = ?`, time.Now().Add(-time.Second))
		wantReplayed(t, p.Send(http.MethodPost, "/api/posts", draft("Post"), key).Want(http.StatusCreated), false)
		if n := sitetest.Value[int](s, `SELECT count(*) FROM idempotency_keys`); n != 1 {
			t.Errorf("%d keys are kept", n)
		}
	})
}

// unlocked writes in scopes that do not lock the user first, so that nothing but the
// unique row is in the way of a second request.
type unlocked struct{ *dbroute.Cluster }

func (u unlocked) Write(ctx context.Context, name string, fn func(context.Context, *dbroute.Tx) error) error {
	if !strings.HasPrefix(name, "posts.") {
		return u.Cluster.Write(ctx, name, fn)
	}
	ctx, _ = u.NewScope(ctx)
	return u.Cluster.Write(ctx, name, fn)
}

func TestOfManyAtOnceOneIsDone(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p := s.Program(s.User("Mara"))
		for name, change := range map[string]func(*site.Config){
			"the user is locked": func(*site.Config) {},
			"nobody is locked":   func(cfg *site.Config) { cfg.Router = unlocked{cfg.Cluster} },
		} {
			t.Run(name, func(t *testing.T) {
				p := p.In(t)
				p.URL = p.Site.Process(change)
				header := "Idempotency-Key: " + name
				before := posts(p.Site)
				replies := make(chan *sitetest.Reply, 10)
				var wg sync.WaitGroup
				for range cap(replies) {
					wg.Go(func() { replies <- p.Send(http.MethodPost, "/api/posts", draft("Post"), header) })
				}
				wg.Wait()
				close(replies)
				bodies, replayed := map[string]bool{}, 0
				for r := range replies {
					bodies[r.Want(http.StatusCreated).Body] = true
					if r.Header.Get("Idempotency-Replayed") != "" {
						replayed++
					}
				}
				if n := posts(p.Site) - before; n != 1 || len(bodies) != 1 || replayed != cap(replies)-1 {
					t.Errorf("%d posts, %d answers, %d of them replayed", n, len(bodies), replayed)
				}
			})
		}
	})
}

// The second waits for the first, which is in the midst of it.
func TestSecondWaitsForTheFirst(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p := s.Program(s.User("Mara"))
		path := p.Send(http.MethodPost, "/api/posts", draft("Post")).Want(http.StatusCreated).Header.Get("Location")
		p.URL = s.Process(func(cfg *site.Config) { cfg.Router = unlocked{cfg.Cluster} })
		tx, err := s.Cluster.PrimaryDB().BeginTx(stacktest.Context(t), nil)
		stacktest.Must(t, err)
		defer tx.Rollback()
		_, err = tx.Exec(`SELECT id FROM posts FOR UPDATE`)
		stacktest.Must(t, err)
		replies := make(chan *sitetest.Reply, 2)
		for i := range cap(replies) {
			go func() { replies <- p.Send(http.MethodPost, path+"/comments", map[string]any{"body": "b"}, key) }()
			stacktest.LocksAwaited(t, s.Servers, i+1)
		}
		stacktest.Must(t, tx.Rollback())
		first, second := (<-replies).Want(http.StatusCreated), (<-replies).Want(http.StatusCreated)
		if first.Body != second.Body || first.Header.Get("Idempotency-Replayed") == second.Header.Get("Idempotency-Replayed") {
			t.Errorf("the answers are %s and %s", first.Body, second.Body)
		}
		if n := sitetest.Value[int](s, `SELECT count(*) FROM comments`); n != 1 {
			t.Errorf("there are %d comments", n)
		}
	})
}

// agent does what agents do: it acts, looks whether that has worked, and does it
// again if not. It returns how often it doubted, and gives up after three times.
func agent(t *testing.T, p *sitetest.Program, consistency string) (doubts int) {
	t.Helper()
	header := "Idempotency-Key: agent, " + consistency
	for ; doubts < 3; doubts++ {
		path := p.Send(http.MethodPost, "/api/posts", draft("By an agent, "+consistency), header).Want(http.StatusCreated).Header.Get("Location")
		if check := p.Get(path, "Read-Consistency: "+consistency); check.Status == http.StatusOK {
			check.WantServer("1", dbroute.CommitNotReached)
			break
		} else if got := check.Header.Get("X-Server-Id"); check.Status != http.StatusNotFound || got != "2" {
			t.Errorf("server %s answers %d", got, check.Status)
		}
	}
	return doubts
}

func TestAgentDoubtsNothingAndRepeatsNothing(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p := s.Program(s.User("Mara"))
		s.Applied()
		s.Pause()
		for consistency, doubts := range map[string]int{"eventual": 3, "session": 0, "strong": 0} {
			if got := agent(t, p, consistency); got != doubts {
				t.Errorf("with %s it doubts %d times, want %d", consistency, got, doubts)
			}
			if n := sitetest.Value[int](s, `SELECT count(*) FROM posts WHERE title = ?`, fmt.Sprint("By an agent, ", consistency)); n != 1 {
				t.Errorf("with %s it leaves %d posts", consistency, n)
			}
		}
	})
}
