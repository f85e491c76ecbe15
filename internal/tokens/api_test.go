package tokens_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

// wantReads expects who was asked for what, in order.
func wantReads(t *testing.T, r *sitetest.Reply, want ...string) {
	t.Helper()
	if got := r.Reads(); !slices.Equal(got, want) {
		t.Errorf("%s: reads are %q, want %q", r.Call, got, want)
	}
}

func TestNewTokenWorksAtOnce(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		resume := s.Pause()
		program := s.Program(user)
		program.Get("/api/me").Want(http.StatusOK, "name", "Mara", "email", user.Email).WantServer("1", dbroute.PrimaryAskedFor)
		r := program.Get("/api/me").Want(http.StatusOK, "name", "Mara").WantServer("1", dbroute.PrimaryAskedFor)
		wantReads(t, r, "server 2 (replica): tokens.ByID", "server 1 (primary): auth.Guard", "server 1 (primary): tokens.WithOwner")
		resume()
		s.Applied()
		r = program.Get("/api/me").Want(http.StatusOK, "name", "Mara").WantServer("2", dbroute.CommitReached)
		wantReads(t, r, "server 2 (replica): tokens.ByID", "server 1 (primary): auth.Guard", "server 2 (replica): users.ByID")
	})
}

func TestNewUserAndNewTokenInOneCall(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		resume := s.Pause()
		nobody := s.Program(nil)
		made := nobody.Send(http.MethodPost, "/api/signup",
			map[string]any{"name": " Mara  L ", "email": "Mara@Example.com", "password": "a long password", "device_name": "agent"})
		made.Want(http.StatusCreated, "name", "agent", "abilities", "[read write]", "expires_at", "<nil>", "server_id", "1")
		program := nobody.With(made.Text("token"))
		program.Get("/api/me").Want(http.StatusOK, "name", "Mara L", "email", "mara@example.com").WantServer("1", dbroute.PrimaryAskedFor)
		program.Get("/api/posts").Want(http.StatusOK).WantServer("1", dbroute.PrimaryAskedFor)
		program.Send(http.MethodPost, "/api/posts", map[string]any{"title": "First", "body": "Post"}).Want(http.StatusCreated)
		// The account is one like any other.
		s.Browser().Post("/login", "email", "mara@example.com", "password", "a long password").Want(http.StatusOK, "[data-viewer]", "Mara L")
		resume()
		s.Applied()
		program.Get("/api/me").Want(http.StatusOK, "name", "Mara L").WantServer("2", dbroute.CommitReached)
	})
}

// A site whose servers nobody listens for can only answer what takes no query.
func TestGarbageCostsNoQuery(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		token := s.Program(s.User("Mara")).Token
		program := s.Program(nil)
		program.URL = s.Unreachable()
		swapped := "A"
		if strings.HasSuffix(token, "A") {
			swapped = "B"
		}
		for name, header := range map[string]string{
			"garbage":          "Bearer garbage",
			"nothing":          "Bearer",
			"another scheme":   "Basic bWFyYTpwYXNzd29yZA==",
			"half right":       "Bearer 9" + token,
			"another checksum": "Bearer " + token[:len(token)-1] + swapped,
			"8 KB":             "Bearer " + strings.Repeat("x", 8<<10),
		} {
			r := program.Get("/api/me", "Authorization: "+header)
			r.WantProblem(http.StatusUnauthorized, "The token is misspelt")
			if r.Header.Get("WWW-Authenticate") != "Bearer" || len(r.Reads()) > 0 {
				t.Errorf("%s: headers are %v", name, r.Header)
			}
		}
		program.Get("/api/me", "Authorization: Bearer "+token, "Authorization: Bearer "+token).WantProblem(http.StatusUnauthorized, "misspelt")
		program.Get("/api/me").WantProblem(http.StatusUnauthorized, "Authorization: Bearer TOKEN")
		program.With(token).Get("/api/me").WantProblem(http.StatusServiceUnavailable, "The primary cannot be reached")
	})
}

func TestTokenThatIsNotThere(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		unknown, halfRight := s.Program(user), s.Program(user)
		s.Exec(`DELETE FROM tokens WHERE name = 'test' AND id = ?`, id(unknown.Token))
		s.Exec(`UPDATE tokens SET secret_hash = ? WHERE id = ?`, strings.Repeat("0", 64), id(halfRight.Token))
		s.Applied()
		for _, p := range []*sitetest.Program{unknown, halfRight} {
			r := p.Get("/api/me")
			r.WantProblem(http.StatusUnauthorized, "misspelt")
			wantReads(t, r, "server 2 (replica): tokens.ByID", "server 1 (primary): tokens.WithOwner")
		}
	})
}

func id(token string) string {
	id, _, _ := strings.Cut(token, "|")
	return id
}

func TestWhatEndsATokenEndsItAtOnce(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		for name, end := range map[string]func(user *sitetest.Browser, p *sitetest.Program){
			"by itself": func(_ *sitetest.Browser, p *sitetest.Program) {
				p.Send(http.MethodDelete, "/api/tokens/"+id(p.Token), nil).Want(http.StatusNoContent)
			},
			"by another token": func(user *sitetest.Browser, p *sitetest.Program) {
				p.Site.Program(user).Send(http.MethodDelete, "/api/tokens/"+id(p.Token), nil).Want(http.StatusNoContent)
			},
			"on the page": func(user *sitetest.Browser, p *sitetest.Program) {
				user.Post("/tokens/"+id(p.Token)+"/revoke").Want(http.StatusOK, ".flash", "The token is revoked.")
			},
			"a changed password": func(user *sitetest.Browser, _ *sitetest.Program) {
				user.Post("/profile/password", "current", user.Password, "password", "another password").
					Want(http.StatusOK, ".flash", "Your password is changed, and all other log-ins have ended.")
			},
			"log out everywhere": func(user *sitetest.Browser, _ *sitetest.Program) {
				user.Post("/logout/everywhere").Want(http.StatusOK, ".flash", "You are logged out everywhere.")
			},
			"a disabled account": func(user *sitetest.Browser, p *sitetest.Program) {
				p.Site.Exec(`UPDATE users SET disabled = true WHERE id = ?`, user.ID)
			},
			"its age": func(_ *sitetest.Browser, p *sitetest.Program) {
				p.Site.Exec(`UPDATE tokens SET expires_at = ? WHERE id = ?`, time.Now(), id(p.Token))
			},
		} {
			t.Run(name, func(t *testing.T) {
				s := s.In(t)
				user := s.User("Mara")
				p := s.Program(user)
				s.Applied()
				p.Get("/api/me").Want(http.StatusOK, "server_id", "2")
				defer s.Pause()()
				end(user, p)
				r := p.Get("/api/me")
				r.WantProblem(http.StatusUnauthorized, "revoked")
				wantReads(t, r, "server 2 (replica): tokens.ByID", "server 1 (primary): auth.Guard")
				p.Send(http.MethodPost, "/api/posts", map[string]any{"title": "a", "body": "b"}).WantProblem(http.StatusUnauthorized, "revoked")
			})
		}
	})
}

func TestATokenDoesWhatItMay(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		nobody := s.Program(nil)
		with := func(abilities ...string) *sitetest.Program {
			return nobody.With(nobody.Send(http.MethodPost, "/api/tokens", map[string]any{
				"email": user.Email, "password": user.Password, "device_name": "test", "abilities": abilities,
			}).Want(http.StatusCreated).Text("token"))
		}
		reader, writer := with("read"), with("write")
		post := map[string]any{"title": "a", "body": "b"}

		reader.Get("/api/me").Want(http.StatusOK)
		reader.Get("/api/tokens").Want(http.StatusOK)
		path := writer.Send(http.MethodPost, "/api/posts", post).Want(http.StatusCreated).Header.Get("Location")
		writer.Send(http.MethodPut, path, post, "If-Match: *").Want(http.StatusOK)

		reader.Send(http.MethodPost, "/api/posts", post).WantProblem(http.StatusForbidden, "lacks the ability write")
		reader.Send(http.MethodPut, path, post, "If-Match: *").WantProblem(http.StatusForbidden, "lacks the ability write")
		reader.Send(http.MethodDelete, "/api/tokens/"+id(writer.Token), nil).WantProblem(http.StatusForbidden, "lacks the ability write")
		for _, path := range []string{"/api/me", "/api/tokens", "/api/posts", path} {
			writer.Get(path).WantProblem(http.StatusForbidden, "lacks the ability read")
		}
		for _, path := range []string{"/api/me", "/api/tokens"} {
			nobody.Get(path).WantProblem(http.StatusUnauthorized, "Bearer")
		}
		for _, method := range []string{http.MethodPut, http.MethodDelete} {
			nobody.Send(method, path, post, "If-Match: *").WantProblem(http.StatusUnauthorized, "Bearer")
		}
		nobody.Send(http.MethodDelete, "/api/tokens/1", nil).WantProblem(http.StatusUnauthorized, "Bearer")
		// Whoever found a token can at least end it.
		reader.Send(http.MethodDelete, "/api/tokens/"+id(reader.Token), nil).Want(http.StatusNoContent)
	})
}

func TestTokensOfOthersAreNotThere(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		mara, other := s.User("Mara"), s.User("Tobias")
		p := s.Program(mara)
		s.Program(other).Send(http.MethodDelete, "/api/tokens/"+id(p.Token), nil).WantProblem(http.StatusNotFound, "does not exist")
		other.Post("/tokens/"+id(p.Token)+"/revoke").Want(http.StatusNotFound, "h1", "There is nothing here")
		if n := other.Get("/tokens").Find("[data-token-id]").Length(); n != 1 {
			t.Errorf("the page has %d tokens", n)
		}
		p.Get("/api/me").Want(http.StatusOK)
		for _, wrong := range []string{"0", "x", "-1", "99999999999999999999"} {
			p.Send(http.MethodDelete, "/api/tokens/"+wrong, nil).WantProblem(http.StatusNotFound, "does not exist")
		}
	})
}

func TestListOfTokens(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		p := s.Program(user)
		for range 23 {
			p.Make(user)
		}
		s.Applied()
		s.Pause()
		s.Program(nil).Make(user) // with a password, which is the user's write all the same
		var ids []string
		current := 0
		path := "/api/tokens?limit=10"
		for path != "" {
			r := p.Get(path).Want(http.StatusOK)
			for _, item := range r.Fields["tokens"].([]any) {
				token := item.(map[string]any)
				ids = append(ids, fmt.Sprint(token["id"]))
				if token["current"] == true {
					current++
				}
				if token["name"] != "test" || token["token"] != nil || token["secret_hash"] != nil {
					t.Errorf("token is %v", token)
				}
			}
			next, _ := r.Fields["next"].(string)
			if link := r.Header.Get("Link"); link != "" && link != fmt.Sprintf(`<%s>; rel="next"`, next) || link == "" && next != "" {
				t.Errorf("Link is %q, next is %q", link, next)
			}
			path = next
		}
		if len(ids) != 25 || current != 1 || ids[24] != id(p.Token) {
			t.Errorf("%d tokens, %d of them current: %v", len(ids), current, ids)
		}
		page := user.Get("/tokens")
		older, _ := page.Find("a[rel=next]").Attr("href")
		if n := page.Find("[data-token-id]").Length(); n != 20 || user.Get(older).Find("[data-token-id]").Length() != 5 {
			t.Errorf("the first page has %d tokens", n)
		}
	})
}

// A touch on each request would keep a busy program on the primary for ever.
func TestLastUseIsNotedOnceAMinute(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p := s.Program(s.User("Mara"))
		s.Applied()
		s.Pause()
		lastUsed := func() time.Time {
			t.Helper()
			return sitetest.Value[time.Time](s, `SELECT last_used_at FROM tokens`)
		}
		touches := func(r *sitetest.Reply) int {
			t.Helper()
			r.Want(http.StatusOK).WantServer("2", dbroute.CommitReached)
			return strings.Count(strings.Join(r.Reads(), "\n"), "server 1 (primary): tokens.Touch")
		}
		for i := range 20 {
			if n := touches(p.Get("/api/me")); (n == 1) != (i == 0) {
				t.Errorf("request %d notes it %d times", i, n)
			}
		}
		first := lastUsed()
		if age := time.Since(first); age < 0 || age > 30*time.Second {
			t.Errorf("last used %v ago", age)
		}
		s.Exec(`UPDATE tokens SET last_used_at = ?`, first.Add(-61*time.Second))
		if touches(p.Get("/api/me")) != 1 || touches(p.Get("/api/me")) != 0 {
			t.Error("after a minute it is not noted once")
		}
		if got := lastUsed(); !got.After(first) {
			t.Errorf("after a minute it is still %v", got)
		}
	})
}

func TestAPIHeedsNoCookie(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		p := s.Program(user)
		cookie := "Cookie: " + sitetest.SessionCookie + "=" + user.Cookie(sitetest.SessionCookie)
		nobody := s.Program(nil)
		if page := nobody.Get("/profile", cookie); page.Status != http.StatusOK {
			t.Fatalf("the cookie opens nothing: %d", page.Status)
		}
		nobody.Get("/api/me", cookie).WantProblem(http.StatusUnauthorized, "Bearer")
		nobody.Send(http.MethodPost, "/api/posts", map[string]any{"title": "a", "body": "b"}, cookie).WantProblem(http.StatusUnauthorized, "Bearer")
		// So it has nothing to fear from other sites.
		r := p.Send(http.MethodPost, "/api/posts", map[string]any{"title": "a", "body": "b"}, cookie,
			"Origin: https://elsewhere.example", "Sec-Fetch-Site: cross-site")
		if r.Want(http.StatusCreated); len(r.Header.Values("Set-Cookie")) > 0 {
			t.Errorf("it sets cookies: %v", r.Header)
		}
	})
}

func TestClientKeepsToAReplicaByItsToken(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.NewOn(t, stacktest.Start(t, engine, 2))
		user := s.User("Mara")
		used := map[string]bool{}
		for range 4 {
			p := s.Program(user)
			s.Applied()
			own := p.Get("/api/posts").Want(http.StatusOK).Text("server_id")
			for range 4 {
				r := p.Get("/api/posts").Want(http.StatusOK, "server_id", own)
				if reads := r.Reads(); reads[0] != "server "+own+" (replica): tokens.ByID" || len(r.Header.Values("Set-Cookie")) > 0 {
					t.Errorf("reads are %q, headers %v", reads, r.Header)
				}
			}
			used[own] = true
		}
		if !used["2"] || !used["3"] {
			t.Errorf("4 clients used the servers %v", used)
		}
	})
}

func TestTokenIsMadeForTheRightPasswordOnly(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user, disabled := s.User("Mara"), s.User("Gone")
		s.Exec(`UPDATE users SET disabled = true WHERE id = ?`, disabled.ID)
		nobody := s.Program(nil)
		var answers []string
		for _, c := range [][2]string{
			{user.Email, "not the password"}, {"nobody@example.com", "not the password"}, {disabled.Email, disabled.Password}, {"", ""}, {"\x00", "x"},
		} {
			r := nobody.Send(http.MethodPost, "/api/tokens", map[string]any{"email": c[0], "password": c[1], "device_name": "test"})
			r.WantProblem(http.StatusUnauthorized, "The address or the password is wrong.")
			answers = append(answers, r.Text("title")+r.Text("detail"))
		}
		if len(slices.Compact(answers)) != 1 {
			t.Errorf("answers tell what was wrong: %q", answers)
		}
		nobody.Send(http.MethodPost, "/api/tokens", map[string]any{
			"email": " " + strings.ToUpper(user.Email), "password": user.Password, "device_name": "test", "expires_in_days": 1,
		}).Want(http.StatusCreated)
	})
}

func TestRequestsForTokensThatAreWrong(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		p := s.Program(nil)
		signUp := map[string]any{"name": "A", "email": "a@b.example", "password": "a long password", "device_name": "test"}
		with := func(from map[string]any, name string, value any) map[string]any {
			changed := map[string]any{name: value}
			for k, v := range from {
				if k != name {
					changed[k] = v
				}
			}
			return changed
		}
		logIn := map[string]any{"email": user.Email, "password": user.Password, "device_name": "test"}
		for name, c := range map[string]struct {
			path   string
			body   any
			status int
			want   string
		}{
			"no device name":                 {"/api/tokens", with(logIn, "device_name", ""), 422, `"pointer":"#/device_name"`},
			"a long device name":             {"/api/tokens", with(logIn, "device_name", strings.Repeat("x", 101)), 422, "At most 100 fit"},
			"an unknown ability":             {"/api/tokens", with(logIn, "abilities", []string{"admin"}), 422, "read and write"},
			"no ability":                     {"/api/tokens", with(logIn, "abilities", []string{}), 422, `"pointer":"#/abilities"`},
			"a life below 0":                 {"/api/tokens", with(logIn, "expires_in_days", -1), 422, `"pointer":"#/expires_in_days"`},
			"a life too long":                {"/api/tokens", with(logIn, "expires_in_days", 3651), 422, "1 to 3650 days"},
			"a life in words":                {"/api/tokens", with(logIn, "expires_in_days", "a week"), 422, `"pointer":"#/expires_in_days"`},
			"a number for a name":            {"/api/tokens", with(logIn, "device_name", 5), 422, `"pointer":"#/device_name"`},
			"an unknown field":               {"/api/tokens", with(logIn, "name", "x"), 400, `There is no field \"name\".`},
			"an address that has an account": {"/api/signup", with(signUp, "email", user.Email), 409, "There is an account with this address."},
			"no address":                     {"/api/signup", with(signUp, "email", "a@b"), 422, `"pointer":"#/email"`},
			"a short password":               {"/api/signup", with(signUp, "password", "short"), 422, "at least 10 characters"},
			"no name":                        {"/api/signup", with(signUp, "name", " "), 422, `"pointer":"#/name"`},
		} {
			t.Run(name, func(t *testing.T) {
				r := p.In(t).Send(http.MethodPost, c.path, c.body)
				r.WantProblem(c.status, c.want)
				if strings.Contains(r.Body, user.Password) || strings.Contains(r.Body, "a long password") {
					t.Error("the answer repeats a password")
				}
			})
		}
		for path, body := range map[string]any{"/api/tokens": logIn, "/api/signup": signUp} {
			for _, key := range []string{"x", ""} {
				p.Send(http.MethodPost, path, body, "Idempotency-Key: "+key).WantProblem(http.StatusBadRequest, "Idempotency-Key: the answer holds a secret")
			}
		}
		if n := sitetest.Value[int](s, `SELECT count(*) FROM tokens`); n != 0 {
			t.Errorf("there are %d tokens", n)
		}
	})
}

// Somebody makes or changes something with a password or a session, and that is
// changed or ended between the look at it and the write.
func TestChangedPasswordEndsWhatIsMadeFromTheOldOne(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		checked, ended := make(chan struct{}), make(chan struct{})
		s := sitetest.New(t, engine)
		slow := s.Process(func(cfg *site.Config) {
			cfg.Router = beforeWrite{cfg.Cluster, func(name string) {
				switch name {
				case "tokens.Create", "sessions.Start", "users.SetPassword":
					checked <- struct{}{}
					<-ended
				}
			}}
		})
		changePassword := func(user *sitetest.Browser) {
			next := rand.Text()
			user.Post("/profile/password", "current", user.Password, "password", next)
			user.Password = next
		}
		logOutEverywhere := func(user *sitetest.Browser) {
			user.Post("/logout/everywhere")
			*user = *user.LogIn()
		}
		makeToken := func(thief *sitetest.Browser) int {
			return thief.Submit("/tokens", url.Values{"name": {"thief"}, "ability": {"read"}}).Status
		}
		for name, c := range map[string]struct {
			made func(thief *sitetest.Browser) int
			end  func(user *sitetest.Browser)
			want int
		}{
			"a token, by password": {func(thief *sitetest.Browser) int {
				p := s.Program(nil)
				p.URL = slow
				return p.Send(http.MethodPost, "/api/tokens",
					map[string]any{"email": thief.Email, "password": thief.Password, "device_name": "thief"}).Status
			}, changePassword, http.StatusUnauthorized},
			"a session": {func(thief *sitetest.Browser) int {
				p := thief.Post("/login", "email", thief.Email, "password", thief.Password)
				return p.Want(http.StatusUnprocessableEntity, ".problem", "The address or the password is wrong.").Status
			}, changePassword, http.StatusUnprocessableEntity},
			"a password": {func(thief *sitetest.Browser) int {
				p := thief.Post("/profile/password", "current", thief.Password, "password", "the password of a thief")
				return p.Want(http.StatusUnprocessableEntity, "#current-error", "This is not your present password.").Status
			}, changePassword, http.StatusUnprocessableEntity},
			"a token, by session":             {makeToken, changePassword, http.StatusUnauthorized},
			"a token, by session, logged out": {makeToken, logOutEverywhere, http.StatusUnauthorized},
		} {
			t.Run(name, func(t *testing.T) {
				user := s.In(t).User("Mara")
				thief := user.LogIn()
				thief.URL = slow
				done := make(chan int)
				go func() { done <- c.made(thief) }()
				<-checked
				c.end(user)
				ended <- struct{}{}
				if status := <-done; status != c.want {
					t.Errorf("status is %d, want %d", status, c.want)
				}
				if n := sitetest.Value[int](s, `SELECT count(*) FROM tokens WHERE user_id = ?`, user.ID); n != 0 {
					t.Errorf("%d tokens are left", n)
				}
				if n := sitetest.Value[int](s, `SELECT count(*) FROM sessions WHERE user_id = ?`, user.ID); n != 1 {
					t.Errorf("%d sessions are left", n)
				}
				user.Get("/profile").Want(http.StatusOK, "h1", "Your profile")
				user.LogIn() // with the password that the user has chosen
			})
		}
	})
}

func TestTokensPage(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		s.Browser().Get("/tokens").Want(http.StatusOK, "h1", "Log in")
		user.Get("/tokens").Want(http.StatusOK, ".empty", "You have no tokens.")
		resume := s.Pause()

		page := user.Submit("/tokens", url.Values{"name": {"Backup script"}, "ability": {"read", "write"}, "days": {"30"}})
		page.Want(http.StatusOK, ".flash", "Your token is made.").Want(http.StatusOK, "[data-token-id] strong", "Backup script").
			WantReads("1", dbroute.CommitNotReached)
		token := page.Text("[data-token]")
		if page.Path != "/tokens" || page.Response.Request.URL.RawQuery != "" || page.Header.Get("Cache-Control") != "private, no-store" {
			t.Errorf("the secret is shown at %v, with headers %v", page.Response.Request.URL, page.Header)
		}
		if got, want := page.Text("[data-curl]"), fmt.Sprintf("curl -i '%s/api/me' -H 'Authorization: Bearer %s'", s.URL, token); got != want {
			t.Errorf("the line to copy is %q, want %q", got, want)
		}
		if until := page.Text("[data-token-id] .meta"); !strings.Contains(until, "not used yet") ||
			!strings.Contains(until, "expires "+time.Now().UTC().AddDate(0, 0, 30).Format("2 January 2006")) {
			t.Errorf("the token is said to be %q", until)
		}
		s.Program(nil).With(token).Get("/api/me").Want(http.StatusOK, "name", "Mara").WantServer("1", dbroute.PrimaryAskedFor)

		// It is shown once, and kept nowhere.
		again := user.Get("/tokens").Want(http.StatusOK, "[data-token]", "").Want(http.StatusOK, ".new-token", "")
		if html, _ := again.Html(); strings.Contains(html, token[len(token)-8:]) {
			t.Error("the secret is shown again")
		}
		if meta := again.Text("[data-token-id] .meta"); !strings.Contains(meta, "last used just now") {
			t.Errorf("the token is said to be %q", meta)
		}
		hash := sitetest.Value[string](s, `SELECT secret_hash FROM tokens`)
		if len(hash) != 64 || strings.Contains(hash, token[6:12]) {
			t.Errorf("of the secret %q is kept", hash)
		}
		user.Post("/tokens/"+id(token)+"/revoke").Want(http.StatusOK, ".flash", "The token is revoked.").
			Want(http.StatusOK, ".empty", "You have no tokens.").WantReads("1", dbroute.CommitNotReached)
		resume()
	})
}

func TestAPIPageTellsOfHeadersThatAreThere(t *testing.T) {
	stacktest.Only(t, "postgres")
	s := sitetest.New(t, "postgres")
	for _, shown := range []bool{true, false} {
		p := s.Program(nil)
		p.URL = s.Process(func(cfg *site.Config) { cfg.ShowReads = shown })
		got := p.Get("/api/posts").Want(http.StatusOK)
		for _, header := range []string{"X-Server-Id", "Server-Timing"} {
			if said := strings.Contains(p.Get("/api").Body, "<code>"+header); got.Header.Get(header) != "" != shown || said != shown {
				t.Errorf("with SHOW_READS=%v, %s is %q, and told of: %v", shown, header, got.Header.Get(header), said)
			}
		}
	}
}

// The lines to copy have the scheme that the browser uses, which only a trusted proxy
// can know better than the connection.
func TestOriginBehindAProxy(t *testing.T) {
	stacktest.Only(t, "postgres")
	s := sitetest.New(t, "postgres")
	for want, trusted := range map[string][]netip.Prefix{
		"http":  {netip.MustParsePrefix("192.0.2.0/24")},
		"https": {netip.MustParsePrefix("127.0.0.0/8")},
	} {
		p := s.Program(nil)
		p.URL = s.Process(func(cfg *site.Config) { cfg.TrustedProxies = trusted })
		_, host, _ := strings.Cut(p.URL, "://")
		if body := p.Get("/api", "X-Forwarded-Proto: https").Want(http.StatusOK).Body; !strings.Contains(body, "API="+want+"://"+host+"/api") {
			t.Errorf("from %v, the page says %s", trusted, body)
		}
	}
}

// The cookie that carries the secret to the page is of no use to anybody else.
func TestSecretIsShownToNobodyElse(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user, other := s.User("Mara"), s.User("Tobias")
		user.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		made := user.Submit("/tokens", url.Values{"name": {"Backup"}, "ability": {"read"}, "days": {""}})
		if made.Status != http.StatusSeeOther || made.Header.Get("Location") != "/tokens" {
			t.Fatalf("%d, to %q", made.Status, made.Header.Get("Location"))
		}
		var cookie *http.Cookie
		for _, c := range made.Response.Cookies() {
			if strings.HasPrefix(c.Name, "new-token.") {
				cookie = c
			}
		}
		if cookie == nil || !cookie.HttpOnly || cookie.Path != "/tokens" || cookie.MaxAge > 60 || cookie.SameSite != http.SameSiteStrictMode {
			t.Fatalf("the cookie is %v", cookie)
		}
		u, err := url.Parse(s.URL + "/tokens")
		stacktest.Must(t, err)
		for name, value := range map[string]string{"another user": cookie.Value, "garbage": "garbage"} {
			other.Client.Jar.SetCookies(u, []*http.Cookie{{Name: cookie.Name, Value: value, Path: "/tokens"}})
			if got := other.Get("/tokens").Text("[data-token]"); got != "" {
				t.Errorf("%s is shown %q", name, got)
			}
		}
	})
}

// The page that shows the secret fails, and is opened again.
func TestSecretOutlivesAPageThatFails(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		reads := &failingRead{Router: s.Cluster, name: "tokens.List"}
		user.URL = s.Process(func(cfg *site.Config) { cfg.Router = reads })
		reads.fails.Store(true)
		user.Submit("/tokens", url.Values{"name": {"Backup"}, "ability": {"read"}}).
			Want(http.StatusServiceUnavailable, "h1", "The primary cannot be reached")
		reads.fails.Store(false)
		token := user.Get("/tokens").Text("[data-token]")
		s.Program(nil).With(token).Get("/api/me").Want(http.StatusOK, "name", "Mara")
		if again := user.Get("/tokens").Text("[data-token]"); again != "" {
			t.Errorf("the secret is shown again: %q", again)
		}
	})
}

func TestTokenFormSaysWhatIsWrong(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		for name, c := range map[string]struct {
			fields         url.Values
			selector, want string
		}{
			"no name":     {url.Values{"ability": {"read"}, "days": {"7"}}, "#name-error", "Please write a name."},
			"no ability":  {url.Values{"name": {"Backup"}, "days": {"7"}}, "#ability-error", "Please choose what the token may do."},
			"an ability":  {url.Values{"name": {"Backup"}, "ability": {"all"}, "days": {"7"}}, "#ability-error", "The abilities are read and write."},
			"a long life": {url.Values{"name": {"Backup"}, "ability": {"read"}, "days": {"4000"}}, "#days-error", "A token lives 1 to 3650 days. Without a number it does not expire."},
			"no life":     {url.Values{"name": {"Backup"}, "ability": {"read"}, "days": {"soon"}}, "#days-error", "A token lives 1 to 3650 days. Without a number it does not expire."},
		} {
			t.Run(name, func(t *testing.T) {
				page := user.In(t).Submit("/tokens", c.fields).Want(http.StatusUnprocessableEntity, c.selector, c.want)
				if got := page.Find("#name").AttrOr("value", ""); got != c.fields.Get("name") {
					t.Errorf("the name is %q", got)
				}
			})
		}
		if n := sitetest.Value[int](s, `SELECT count(*) FROM tokens`); n != 0 {
			t.Errorf("there are %d tokens", n)
		}
	})
}

func TestKeysOfTokensCanBeRotated(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		p := s.Program(s.User("Mara"))
		oldKey, newKey := []byte(strings.Repeat("k", 32)), []byte(strings.Repeat("n", 32))
		for status, keys := range map[int][][]byte{
			http.StatusOK:           {newKey, oldKey},
			http.StatusUnauthorized: {newKey},
		} {
			p.URL = s.Process(func(cfg *site.Config) { cfg.SessionKeys = keys })
			p.Get("/api/me").Want(status)
		}
	})
}

// beforeWrite calls a function before each write.
type beforeWrite struct {
	dbroute.Router
	call func(name string)
}

func (b beforeWrite) Write(ctx context.Context, name string, fn func(context.Context, *dbroute.Tx) error) error {
	b.call(name)
	return b.Router.Write(ctx, name, fn)
}

// failingRead fails a read as if the primary were down.
type failingRead struct {
	dbroute.Router
	name  string
	fails atomic.Bool
}

func (f *failingRead) Read(ctx context.Context, name string, fn func(dbroute.Querier) error) error {
	if name == f.name && f.fails.Load() {
		return dbroute.ErrPrimaryUnavailable
	}
	return f.Router.Read(ctx, name, fn)
}
