package tokens_test

import (
	"fmt"
	"net/http"
	"net/url"
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
		s := sitetest.New(t, engine)
		user := s.User("Mara")
		own := s.Program(user)
		s.Applied()
		s.Pause()
		three := cache.Limit{Hits: 3, Per: time.Hour}
		wrong := map[string]any{"email": user.Email, "password": "not the password", "device_name": "test"}
		right := map[string]any{"email": user.Email, "password": user.Password, "device_name": "test"}
		n := 0
		for name, c := range map[string]struct {
			limit func(*site.Limits)
			call  func(p *sitetest.Program) *sitetest.Reply
			ok    int
			page  func(b *sitetest.Browser) *sitetest.Page
		}{
			"passwords for an account": {
				func(l *site.Limits) { l.LogInByAccount = three },
				func(p *sitetest.Program) *sitetest.Reply { return p.Send(http.MethodPost, "/api/tokens", wrong) },
				http.StatusUnauthorized,
				func(b *sitetest.Browser) *sitetest.Page {
					return b.Post("/login", "email", user.Email, "password", user.Password)
				},
			},
			"passwords from an address": {
				func(l *site.Limits) { l.LogInByAddress = three },
				func(p *sitetest.Program) *sitetest.Reply {
					n++
					return p.Send(http.MethodPost, "/api/tokens", map[string]any{"email": fmt.Sprint(n), "password": "x", "device_name": "test"})
				},
				http.StatusUnauthorized,
				func(b *sitetest.Browser) *sitetest.Page { return b.Post("/login", "email", "x", "password", "x") },
			},
			"tokens": {
				func(l *site.Limits) { l.TokensByUser = cache.Limit{Hits: 4, Per: time.Hour} }, // there is one already
				func(p *sitetest.Program) *sitetest.Reply { return p.Send(http.MethodPost, "/api/tokens", right) },
				http.StatusCreated,
				func(b *sitetest.Browser) *sitetest.Page {
					return b.Submit("/tokens", url.Values{"name": {"Backup"}, "ability": {"read"}})
				},
			},
			"accounts": {
				func(l *site.Limits) { l.SignUpByAddress = three },
				func(p *sitetest.Program) *sitetest.Reply {
					n++
					return p.Send(http.MethodPost, "/api/signup", map[string]any{
						"name": "A", "email": fmt.Sprintf("%d@limits.example", n), "password": "a long password", "device_name": "test",
					})
				},
				http.StatusCreated,
				func(b *sitetest.Browser) *sitetest.Page {
					return b.Post("/signup", "name", "A", "email", "a@limits.example", "password", "a long password")
				},
			},
			"writes": {
				func(l *site.Limits) { l.WritesByUser = three },
				func(p *sitetest.Program) *sitetest.Reply {
					return p.Send(http.MethodPost, "/api/posts", map[string]any{"title": "a", "body": "b"}, "Idempotency-Key: the same")
				},
				http.StatusCreated,
				func(b *sitetest.Browser) *sitetest.Page { return b.Post("/posts", "title", "a", "body", "b") },
			},
		} {
			t.Run(name, func(t *testing.T) {
				limited := func(cfg *site.Config) { c.limit(&cfg.Limits) }
				processes := []string{own.Site.Process(limited), own.Site.Process(limited)}
				p, b := own.In(t), user.In(t)
				for i := range 3 {
					p.URL = processes[i%2]
					c.call(p).Want(c.ok)
				}
				r := c.call(p)
				r.WantProblem(http.StatusTooManyRequests, "That was too often")
				if after := r.Header.Get("Retry-After"); after == "" || after == "0" {
					t.Errorf("Retry-After is %q", after)
				}
				b.URL = processes[0]
				if page := c.page(b); page.Status != http.StatusTooManyRequests {
					t.Errorf("the page's status is %d", page.Status)
				}
			})
		}
	})
}
