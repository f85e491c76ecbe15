package auth_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
	"freshread/internal/web"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

// exec changes the primary behind the application's back.
func exec(s *sitetest.Site, statement string, args ...any) {
	s.T.Helper()
	stacktest.Must(s.T, s.Cluster.Write(stacktest.Context(s.T), "exec", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, statement, args...)
		return err
	}))
}

// wantGuard expects the page to have asked the guard this often, on the primary.
func wantGuard(t *testing.T, p *sitetest.Page, times int) {
	t.Helper()
	guard := p.Find(`[data-guard="auth.Guard"][data-server-id="1"]`)
	if guard.Length() != times || p.Find("[data-guard]").Length() != times {
		t.Errorf("%s has asked the guard %d times, want %d", p.Path, guard.Length(), times)
	}
}

func TestRenameIsInTheNavigationOfTheNextPage(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		path := b.Write("Post")
		elsewhere, other := b.LogIn(), s.Browser()
		s.Applied()
		resume := s.Pause()

		b.Post("/profile", "name", "Mara Lindqvist", "bio", "Hello").Want(http.StatusOK, "[data-viewer]", "Mara Lindqvist")
		b.Get(path).Want(http.StatusOK, "[data-viewer]", "Mara Lindqvist").Want(http.StatusOK, ".byline a", "Mara Lindqvist").
			WantReads("1", dbroute.CommitNotReached)
		// The other browser has no marker of it; the guard has.
		p := elsewhere.Get(path).Want(http.StatusOK, "[data-viewer]", "Mara Lindqvist").WantReads("1", dbroute.CommitNotReached)
		wantGuard(t, p, 1)
		p = other.Get(path).Want(http.StatusOK, ".byline a", "Mara").WantReads("2", dbroute.NoPendingCommit)
		wantGuard(t, p, 0)
		resume()
		s.Applied()
		b.Get(path).Want(http.StatusOK, "[data-viewer]", "Mara Lindqvist").WantReads("2", dbroute.CommitReached)
	})
}

func TestThirtyLogInsOfAFreshAccount(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		s.Pause()
		b := s.Browser()
		b.Post("/signup", "name", "Mara", "email", "Mara@Example.com ", "password", "a long password").
			Want(http.StatusOK, "[data-viewer]", "Mara").Want(http.StatusOK, ".flash", "Welcome. Your account is ready.").
			WantReads("1", dbroute.CommitNotReached)
		for i := range 30 {
			p := s.Browser().Post("/login", "email", "mara@example.com", "password", "a long password", "next", "/profile")
			p.Want(http.StatusOK, "[data-viewer]", "Mara")
			if p.Path != "/profile" {
				t.Fatalf("log-in %d ended on %s", i, p.Path)
			}
		}
	})
}

// Neither a marker nor the guard knows of the account, and the replica does not
// show it.
func TestAccountThatTheReplicaDoesNotShowYet(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		s.Pause()
		b := s.Browser()
		b.Post("/signup", "name", "Mara", "email", "mara@example.com", "password", "a long password")
		session := s.Browser()
		u, err := url.Parse(s.URL)
		stacktest.Must(t, err)
		session.Client.Jar.SetCookies(u, []*http.Cookie{{Name: sitetest.SessionCookie, Value: b.Cookie(sitetest.SessionCookie), Path: "/"}})
		p := session.Get("/").Want(http.StatusOK, "[data-viewer]", "Mara")
		if got := p.Find(`[data-read="posts.Newest"]`).AttrOr("data-server-id", ""); got != "1" {
			t.Errorf("the rest of the page was read from server %q", got)
		}
	})
}

func TestSignUpOfAnAddressThatTheReplicaDoesNotShowYet(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		s.Pause()
		s.Browser().Post("/signup", "name", "Mara", "email", "mara@example.com", "password", "a long password")
		b := s.Browser()
		p := b.Post("/signup", "name", "Another", "email", "MARA@example.com", "password", "a long password")
		p.Want(http.StatusUnprocessableEntity, "#email-error", "There is an account with this address. Log in instead?")
		if got := p.Find("#name").AttrOr("value", ""); got != "Another" {
			t.Errorf("the name is %q", got)
		}
		if b.Cookie(sitetest.SessionCookie) != "" {
			t.Error("there is a session")
		}
	})
}

func TestLogInDoesNotTellWhatWasWrong(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b, disabled := s.User("Mara"), s.User("Gone")
		exec(s, `UPDATE users SET disabled = true WHERE id = ?`, disabled.ID)
		var pages []string
		for _, c := range [][2]string{
			{b.Email, "not the password"}, {"nobody@example.com", "not the password"}, {"", ""}, {"\x00", "x"},
			{disabled.Email, disabled.Password},
		} {
			p := s.Browser().Post("/login", "email", c[0], "password", c[1])
			p.Want(http.StatusUnprocessableEntity, ".problem", "The address or the password is wrong.")
			p.Find("#email").RemoveAttr("value")
			p.Find(".took, .hint").Remove()
			html, err := p.Find("main").Html()
			stacktest.Must(t, err)
			pages = append(pages, html)
		}
		for _, page := range pages[1:] {
			if page != pages[0] {
				t.Errorf("pages differ:\n%s\n%s", pages[0], page)
			}
		}
	})
}

func TestWhatEndsASessionEndsItAtOnce(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		somebody := s.User("Yuki")
		for name, end := range map[string]func(b, other *sitetest.Browser){
			"log-out": func(b, _ *sitetest.Browser) { b.Post("/logout").Want(http.StatusOK, ".flash", "You are logged out.") },
			"another log-in of the browser": func(b, _ *sitetest.Browser) {
				b.Post("/login", "email", b.Email, "password", b.Password).Want(http.StatusOK, "[data-viewer]", "Mara")
				b.Post("/logout").Want(http.StatusOK, ".flash", "You are logged out.")
			},
			"the browser's log-in as somebody else": func(b, _ *sitetest.Browser) {
				b.Post("/login", "email", somebody.Email, "password", somebody.Password).Want(http.StatusOK, "[data-viewer]", "Yuki")
			},
			"a sign-up in the browser": func(b, _ *sitetest.Browser) {
				b.Post("/signup", "name", "Second", "email", rand.Text()+"@example.com", "password", "a long password").
					Want(http.StatusOK, "[data-viewer]", "Second")
			},
			"log out everywhere": func(_, other *sitetest.Browser) {
				other.Post("/logout/everywhere").Want(http.StatusOK, ".flash", "You are logged out everywhere.")
			},
			"a changed password": func(_, other *sitetest.Browser) {
				other.Post("/profile/password", "current", other.Password, "password", "another password").
					Want(http.StatusOK, ".flash", "Your password is changed, and all other log-ins have ended.")
				other.Get("/profile").Want(http.StatusOK, "h1", "Your profile")
				other.Site.Browser().Post("/login", "email", other.Email, "password", other.Password).
					Want(http.StatusUnprocessableEntity, ".problem", "The address or the password is wrong.")
			},
			"a disabled account": func(b, _ *sitetest.Browser) {
				exec(s, `UPDATE users SET disabled = true WHERE id = ?`, b.ID)
			},
			"its age": func(b, _ *sitetest.Browser) {
				exec(s, `UPDATE sessions SET expires_at = CURRENT_TIMESTAMP(6) WHERE user_id = ?`, b.ID)
			},
		} {
			t.Run(name, func(t *testing.T) {
				s := s.In(t)
				b := s.User("Mara")
				other := b.LogIn()
				stolen := b.Cookie(sitetest.SessionCookie)
				s.Applied()
				resume := s.Pause()
				defer resume()
				end(b, other)

				u, err := url.Parse(s.URL)
				stacktest.Must(t, err)
				thief := s.Browser()
				thief.Client.Jar.SetCookies(u, []*http.Cookie{{Name: sitetest.SessionCookie, Value: stolen, Path: "/"}})
				p := thief.Get("/profile").Want(http.StatusOK, "h1", "Log in")
				wantGuard(t, p, 1)
				thief.Post("/profile", "name", "Thief").Want(http.StatusUnauthorized, "h1", "You are not logged in")
			})
		}
	})
}

func TestRoleIsNeverStale(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		author, admin := s.User("Mara"), s.User("Yuki")
		path := author.Write("Post")
		exec(s, `UPDATE users SET role = 'admin' WHERE id = ?`, admin.ID)
		s.Applied()
		admin.Get(path+"/edit").Want(http.StatusOK, "h1", "Edit post")
		s.Pause()
		exec(s, `UPDATE users SET role = 'member' WHERE id = ?`, admin.ID)
		admin.Get(path+"/edit").Want(http.StatusForbidden, "h1", "This is not yours to see or change").WantReads("2", dbroute.NoPendingCommit)
		admin.Post(path, "title", "a", "body", "b").Want(http.StatusForbidden, "h1", "This is not yours to see or change")
	})
}

// A process died between COMMIT and the capture: the guard's row says so.
func TestGuardWithoutCommitIDHeals(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		resume := s.Pause()
		exec(s, `UPDATE users SET name = 'Renamed', writes = writes + 1 WHERE id = ?`, b.ID)
		b.Get("/").Want(http.StatusOK, "[data-viewer]", "Renamed").WantReads("1", dbroute.UnknownMarker)
		elsewhere := b.LogIn()
		elsewhere.Get("/").Want(http.StatusOK, "[data-viewer]", "Renamed").WantReads("1", dbroute.CommitNotReached)
		resume()
		s.Applied()
		elsewhere.Get("/").Want(http.StatusOK, "[data-viewer]", "Renamed").WantReads("2", dbroute.CommitReached)
	})
}

// The guard's commit ID is of a timeline that a failover has ended.
func TestGuardHealsAfterAFailover(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		servers := stacktest.Start(t, engine, 2)
		s := sitetest.NewOn(t, servers)
		b := s.User("Mara")
		b.Write("Post")
		stacktest.Must(t, servers.Primary().Kill(stacktest.Context(t)))
		stacktest.Must(t, servers.Replicas()[0].Promote(stacktest.Context(t)))
		s.Failover()
		b.URL = s.URL
		var reads string
		for ctx := stacktest.Context(t); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			p := b.Get("/").Want(http.StatusOK, "[data-viewer]", "Mara")
			if reads = p.Header.Get("X-Server-Id"); reads == "3" {
				return
			}
		}
		t.Errorf("the user is still read from server %s, want the replica", reads)
	})
}

// Whoever writes for a user locks the user's row first. A log-out that locked
// its session first would deadlock with a change of the password.
func TestUserIsLockedFirst(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		ctx := stacktest.Context(t)
		db := s.Cluster.PrimaryDB()
		tx, err := db.BeginTx(ctx, nil)
		stacktest.Must(t, err)
		defer tx.Rollback()
		var id int64
		stacktest.Must(t, tx.QueryRowContext(ctx, `SELECT id FROM users FOR UPDATE`).Scan(&id))
		done := make(chan *sitetest.Page)
		go func() { done <- b.Post("/logout") }()
		stacktest.LockAwaited(t, s.Servers)
		var session string
		if err := tx.QueryRowContext(ctx, `SELECT id FROM sessions FOR UPDATE NOWAIT`).Scan(&session); err != nil {
			t.Errorf("the session is locked before the user: %v", err)
		}
		stacktest.Must(t, tx.Rollback())
		(<-done).Want(http.StatusOK, ".flash", "You are logged out.")
	})
}

func TestManyWritesAtOnceLeaveTheGuardCovered(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		s.Pause()
		var wg sync.WaitGroup
		for i := range 25 { // more than a pool has connections
			wg.Go(func() { b.Post("/posts", "title", fmt.Sprint(i), "body", "b") })
		}
		wg.Wait()
		var writes, covered int
		row := s.Cluster.PrimaryDB().QueryRow(`SELECT writes, covered FROM users`)
		stacktest.Must(t, row.Scan(&writes, &covered))
		if writes != 25 || covered != writes {
			t.Errorf("%d writes, %d covered", writes, covered)
		}
		elsewhere := b.LogIn()
		for range 2 {
			p := elsewhere.Get(fmt.Sprintf("/people/%d", b.ID)).WantReads("1", dbroute.CommitNotReached)
			if p.Find(".posts li").Length() != 10 || p.Find("a[rel=next]").Length() != 1 {
				t.Error("posts are missing")
			}
		}
	})
}

func TestLogOutDuringASlowPage(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		slow := web.Middleware{Name: "slow", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				if c.QueryParam("slow") != "" {
					begun <- struct{}{}
					<-goOn
				}
				return next(c)
			}
		}}
		s := sitetest.New(t, engine, func(cfg *site.Config) { cfg.AfterLoad = []web.Middleware{slow} })
		b := s.User("Mara")
		path := b.Write("Post")
		s.Pause()
		done := make(chan *sitetest.Page)
		go func() { done <- b.Get(path + "?slow=1") }()
		<-begun
		b.Post("/logout").Want(http.StatusOK, ".account a", "Log in")
		goOn <- struct{}{}
		(<-done).Want(http.StatusOK, "[data-viewer]", "Mara") // it was rendered for who was logged in then
		b.Get(path).Want(http.StatusOK, ".account a", "Log in")
		b.Get("/profile").Want(http.StatusOK, "h1", "Log in")
		if got := b.Cookie(sitetest.SessionCookie); got != "" {
			t.Errorf("there is a session again: %q", got)
		}
	})
}

func TestErrorPageDoesNotTakeAUserForAVisitor(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		b := sitetest.New(t, engine).User("Mara")
		b.Get("/nowhere").Want(http.StatusNotFound, ".account a", "Your account")
		b.Post("/").Want(http.StatusMethodNotAllowed, ".account a", "Your account")
		b.Get("/posts/1000").Want(http.StatusNotFound, "[data-viewer]", "Mara")
	})
}

func TestSessionCookie(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, func(cfg *site.Config) { cfg.SecureCookies = true })
		form := url.Values{"name": {"Mara"}, "email": {"mara@example.com"}, "password": {"a long password"}}
		request, err := http.NewRequest(http.MethodPost, s.URL+"/signup", strings.NewReader(form.Encode()))
		stacktest.Must(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := http.DefaultTransport.RoundTrip(request) // follows no redirect
		stacktest.Must(t, err)
		response.Body.Close()
		for _, c := range response.Cookies() {
			if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" {
				t.Errorf("cookie %v", c)
			}
		}
		if n := len(response.Cookies()); n != 3 { // session, marker, flash
			t.Errorf("%d cookies", n)
		}
		b := s.Browser()
		u, err := url.Parse(s.URL)
		stacktest.Must(t, err)
		b.Client.Jar.SetCookies(u, []*http.Cookie{{Name: sitetest.SessionCookie, Value: "garbage", Path: "/"}})
		p := b.Get("/").Want(http.StatusOK, ".account a", "Log in")
		wantGuard(t, p, 0)
	})
}

func TestFormsSayWhatIsWrong(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		for _, c := range []struct {
			name, path     string
			fields         []string
			selector, want string
		}{
			{"no name", "/signup", []string{"email", "a@b.example", "password", "a long password"}, "#name-error", "Please write a name."},
			{"no address", "/signup", []string{"name", "A", "password", "a long password"}, "#email-error", "Please write your email address."},
			{"no such address", "/signup", []string{"name", "A", "email", "a@b", "password", "a long password"}, "#email-error", "This does not look like an email address."},
			{"a named address", "/signup", []string{"name", "A", "email", "A <a@b.example>", "password", "a long password"}, "#email-error", "This does not look like an email address."},
			{"a long address", "/signup", []string{"name", "A", "email", strings.Repeat("a", 250) + "@b.example", "password", "a long password"}, "#email-error", "The address has 260 characters. At most 254 fit."},
			{"short password", "/signup", []string{"name", "A", "email", "a@b.example", "password", "short"}, "#password-error", "Please use at least 10 characters."},
			{"long password", "/signup", []string{"name", "A", "email", "a@b.example", "password", strings.Repeat("x", 201)}, "#password-error", "Please use at most 200 characters."},
			{"NUL in a name", "/signup", []string{"name", "A\x00", "email", "a@b.example", "password", "a long password"}, "#name-error", "The name has characters that are not text. Please remove them."},
			{"empty name", "/profile", []string{"name", "  "}, "#name-error", "Please write a name."},
			{"long bio", "/profile", []string{"name", "A", "bio", strings.Repeat("x", 501)}, "#bio-error", "The description has 501 characters. At most 500 fit."},
			{"wrong present password", "/profile/password", []string{"current", "x", "password", "a long password"}, "#current-error", "This is not your present password."},
			{"short new password", "/profile/password", []string{"current", b.Password, "password", "short"}, "#password-error", "Please use at least 10 characters."},
		} {
			t.Run(c.name, func(t *testing.T) {
				p := b.In(t).Post(c.path, c.fields...)
				p.Want(http.StatusUnprocessableEntity, c.selector, c.want)
				if html, _ := p.Html(); strings.Contains(html, "a long password") || strings.Contains(html, b.Password) {
					t.Error("the page repeats a password")
				}
			})
		}
		b.Get("/profile").Want(http.StatusOK, "[data-viewer]", "Mara")
	})
}

func TestAfterLogInOneGoesNowhereElse(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		for next, want := range map[string]string{
			"/profile?x=1": "/profile", "": "/", "https://evil.example/": "/", "//evil.example": "/", `/\evil.example`: "/", "profile": "/",
		} {
			p := s.Browser().Post("/login", "email", b.Email, "password", b.Password, "next", next)
			if p.Status != http.StatusOK || p.Path != want || p.Response.Request.URL.Host != strings.TrimPrefix(s.URL, "http://") {
				t.Errorf("next %q: %d on %v", next, p.Status, p.Response.Request.URL)
			}
		}
	})
}

func TestPrivatePagesAreNotForCaches(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		for _, path := range []string{"/", "/profile", "/people/" + fmt.Sprint(b.ID)} {
			if got := b.Get(path).Header.Get("Cache-Control"); got != "private, no-store" {
				t.Errorf("%s of a user: Cache-Control is %q", path, got)
			}
			if got := s.Browser().Get(path).Header.Get("Cache-Control"); got != "private, no-cache" {
				t.Errorf("%s of a visitor: Cache-Control is %q", path, got)
			}
		}
	})
}

func TestWhatCachesMayKeepIsNobodys(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		asset := b.Get("/").Find("link[rel=stylesheet]").AttrOr("href", "")
		p := b.Get(asset)
		if p.Status != http.StatusOK || !strings.HasPrefix(p.Header.Get("Cache-Control"), "public") || len(p.Response.Cookies()) != 0 {
			t.Errorf("%s: %d, headers %v", asset, p.Status, p.Header)
		}
	})
}

func TestTwoProcessesShareEverything(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		second := s.Process()
		b := s.User("Mara")
		path := b.Write("Post")
		s.Pause()
		b.Post(path, "title", "New", "body", "b")
		b.URL = second // the cookies are of the same host
		b.Get(path).Want(http.StatusOK, "[data-title]", "New").WantReads("1", dbroute.CommitNotReached)
	})
}

// Everybody may log in with it, and nobody may keep the others out.
func TestPublishedPasswordStays(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, func(cfg *site.Config) { cfg.Demo = true })
		s.Seed()
		const email, password = "mara@example.com", "out of the blue"
		const why = "Everybody who tries this site out can use this account, so its password stays as the log-in page has it."
		logIn := func() *sitetest.Browser {
			b := s.Browser()
			b.Post("/login", "email", email, "password", password).Want(http.StatusOK, "[data-viewer]", "Mara Lindqvist")
			return b
		}
		other, b := logIn(), logIn()
		if p := b.Get("/profile").Want(http.StatusOK, "#password-title ~ p", why); p.Find("[name=current]").Length() > 0 {
			t.Error("the form is offered")
		}
		for _, current := range []string{password, "a guess"} {
			p := b.Post("/profile/password", "current", current, "password", "another password").
				Want(http.StatusForbidden, ".problem strong", "This is not yours to see or change.").
				Want(http.StatusForbidden, "#password-title ~ p", why)
			if text := p.Text(".problem"); !strings.Contains(text, why) {
				t.Errorf("the problem is %q", text)
			}
		}
		other.Get("/profile").Want(http.StatusOK, "h1", "Your profile")
		logIn()
		robin := s.User("Robin")
		robin.Post("/profile/password", "current", robin.Password, "password", "another password").
			Want(http.StatusOK, ".flash", "Your password is changed, and all other log-ins have ended.")
	})
}
