package tokens_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"freshread/internal/cache"
	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

// Programs and browsers are counted together, at all processes, whatever the replica
// has heard of.
func TestProgramsAreLimited(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		three, four := cache.Limit{Hits: 3, Per: time.Hour}, cache.Limit{Hits: 4, Per: time.Hour}
		for name, c := range map[string]struct {
			limit func(*site.Limits)
			call  func(p *sitetest.Program, user *sitetest.Browser, n int) *sitetest.Reply
			ok    int
			page  func(user *sitetest.Browser) *sitetest.Page
		}{
			"passwords for an account": {
				func(l *site.Limits) { l.LogInByAccount = three },
				func(p *sitetest.Program, user *sitetest.Browser, n int) *sitetest.Reply { // each time written differently
					email := []string{user.Email, strings.ToUpper(user.Email), " " + user.Email, user.Email + " "}[n]
					return p.Send(http.MethodPost, "/api/tokens", map[string]any{"email": email, "password": "x", "device_name": "test"})
				},
				http.StatusUnauthorized,
				func(user *sitetest.Browser) *sitetest.Page {
					return user.Post("/login", "email", user.Email, "password", user.Password)
				},
			},
			"passwords from an address": {
				func(l *site.Limits) { l.LogInByAddress = three },
				func(p *sitetest.Program, _ *sitetest.Browser, n int) *sitetest.Reply {
					return p.Send(http.MethodPost, "/api/tokens", map[string]any{"email": fmt.Sprint(n), "password": "x", "device_name": "test"})
				},
				http.StatusUnauthorized,
				func(user *sitetest.Browser) *sitetest.Page { return user.Post("/login", "email", "x", "password", "x") },
			},
			"tokens": {
				func(l *site.Limits) { l.TokensByUser = three },
				func(p *sitetest.Program, user *sitetest.Browser, _ int) *sitetest.Reply {
					return p.Send(http.MethodPost, "/api/tokens", map[string]any{"email": user.Email, "password": user.Password, "device_name": "test"})
				},
				http.StatusCreated,
				func(user *sitetest.Browser) *sitetest.Page {
					return user.Submit("/tokens", url.Values{"name": {"Backup"}, "ability": {"read"}})
				},
			},
			"accounts": {
				func(l *site.Limits) { l.SignUpByAddress = four }, // the user has one already
				func(p *sitetest.Program, _ *sitetest.Browser, n int) *sitetest.Reply {
					return p.Send(http.MethodPost, "/api/signup", map[string]any{
						"name": "A", "email": fmt.Sprintf("%d@limits.example", n), "password": "a long password", "device_name": "test",
					})
				},
				http.StatusCreated,
				func(user *sitetest.Browser) *sitetest.Page {
					return user.Post("/signup", "name", "A", "email", "a@limits.example", "password", "a long password")
				},
			},
			"writes": {
				func(l *site.Limits) { l.WritesByUser = three },
				func(p *sitetest.Program, user *sitetest.Browser, n int) *sitetest.Reply {
					if n == 0 {
						p.Token = p.Make(user).Text("token")
					}
					return p.Send(http.MethodPost, "/api/posts", map[string]any{"title": "a", "body": "b"}, "Idempotency-Key: the same")
				},
				http.StatusCreated,
				func(user *sitetest.Browser) *sitetest.Page {
					return user.Post("/posts", "title", "a", "body", "b")
				},
			},
		} {
			t.Run(name, func(t *testing.T) {
				s := sitetest.New(t, engine, func(cfg *site.Config) { c.limit(&cfg.Limits) })
				user, p := s.User("Mara"), s.Program(nil)
				processes := []string{s.URL, s.Process()}
				s.Pause()
				for n := range 3 {
					p.URL = processes[n%2]
					c.call(p, user, n).Want(c.ok)
				}
				r := c.call(p, user, 3)
				r.WantProblem(http.StatusTooManyRequests, "That was too often")
				if after := r.Header.Get("Retry-After"); after == "" || after == "0" {
					t.Errorf("Retry-After is %q", after)
				}
				if page := c.page(user); page.Status != http.StatusTooManyRequests {
					t.Errorf("the page's status is %d", page.Status)
				}
			})
		}
	})
}
