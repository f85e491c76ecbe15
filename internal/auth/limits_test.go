package auth_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"freshread/internal/cache"
	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

func limits(change func(*site.Limits)) func(*site.Config) {
	return func(cfg *site.Config) { change(&cfg.Limits) }
}

// guess tries a wrong password, without cookies, and reports whether it was looked
// at.
func guess(t *testing.T, origin, email string, header http.Header) (lookedAt bool) {
	t.Helper()
	form := url.Values{"email": {email}, "password": {"not the password"}}
	request, err := http.NewRequestWithContext(stacktest.Context(t), http.MethodPost, origin+"/login", strings.NewReader(form.Encode()))
	stacktest.Must(t, err)
	for name, values := range header {
		request.Header[name] = values
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	stacktest.Must(t, err)
	response.Body.Close()
	switch response.StatusCode {
	case http.StatusUnprocessableEntity, http.StatusTooManyRequests:
	default:
		t.Errorf("a guess is answered with %s", response.Status)
	}
	return response.StatusCode == http.StatusUnprocessableEntity
}

// Three a minute. Sixteen guesses come, two a second and without cookies, to two
// processes, while the replica sees none.
func TestThreeGuessesAMinuteAreThree(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, limits(func(l *site.Limits) { l.LogInByAccount = cache.Limit{Hits: 3, Per: time.Minute} }))
		b := s.User("Mara")
		s.Pause()
		processes := []string{s.URL, s.Process()}
		lookedAt := 0
		for i := range 16 {
			if guess(t, processes[i%2], b.Email, nil) {
				lookedAt++
			}
			time.Sleep(500 * time.Millisecond)
		}
		if lookedAt != 3 {
			t.Errorf("%d guesses of 16 were looked at, want 3", lookedAt)
		}
	})
}

func TestHundredGuessesAtOnceAgainstTenAreTen(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, limits(func(l *site.Limits) { l.LogInByAccount = cache.Limit{Hits: 10, Per: time.Hour} }))
		processes := []string{s.URL, s.Process()}
		var lookedAt atomic.Int64
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if guess(t, processes[i%2], "nobody@example.com", nil) {
					lookedAt.Add(1)
				}
			})
		}
		wg.Wait()
		if n := lookedAt.Load(); n != 10 {
			t.Errorf("%d guesses of 100 were looked at, want 10", n)
		}
	})
}

func TestLimitOfAnAccountAndOfAnAddress(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, limits(func(l *site.Limits) {
			l.LogInByAccount = cache.Limit{Hits: 2, Per: time.Hour}
			l.LogInByAddress = cache.Limit{Hits: 5, Per: time.Hour}
		}))
		b := s.User("Mara")
		want := func(email string, lookedAt bool) {
			t.Helper()
			if got := guess(t, s.URL, email, nil); got != lookedAt {
				t.Errorf("a guess for %s was looked at: %v", email, got)
			}
		}
		want(b.Email, true)
		want(strings.ToUpper(b.Email), true)
		want(b.Email, false)
		p := s.Browser().Post("/login", "email", b.Email, "password", b.Password, "next", "/profile")
		p.Want(http.StatusTooManyRequests, ".problem", "That was too often. Please try again in 30 minutes.")
		if kept := p.Find("#email").AttrOr("value", "") + " " + p.Find("[name=next]").AttrOr("value", ""); kept != b.Email+" /profile" {
			t.Errorf("the form has %q", kept)
		}
		if html, _ := p.Html(); strings.Contains(html, b.Password) {
			t.Error("the page repeats the password")
		}
		if after, err := strconv.Atoi(p.Header.Get("Retry-After")); err != nil || after < 1790 || after > 1800 {
			t.Errorf("Retry-After is %q", p.Header.Get("Retry-After"))
		}
		want("nobody@example.com", true)
		want("somebody@example.com", false) // the sixth from here
		b.Post("/profile/password", "current", "a guess", "password", "another password").
			Want(http.StatusTooManyRequests, ".problem strong", "That was too often.")
	})
}

func TestSpoofedAddressChangesNothing(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		three := limits(func(l *site.Limits) { l.LogInByAddress = cache.Limit{Hits: 3, Per: time.Hour} })
		behindProxy := func(cfg *site.Config) { cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }
		for name, c := range map[string]struct {
			change func(*site.Config)
			header func(i int) http.Header
			want   int
		}{
			"no proxy is trusted": {func(*site.Config) {}, func(i int) http.Header {
				ip := fmt.Sprintf("198.51.100.%d", i)
				return http.Header{"X-Forwarded-For": {ip}, "X-Real-Ip": {ip}, "Forwarded": {"for=" + ip}}
			}, 3},
			"in front of what the proxy says": {behindProxy, func(i int) http.Header {
				return http.Header{"X-Forwarded-For": {fmt.Sprintf("198.51.100.%d, 192.0.2.7", i)}}
			}, 3},
			"the proxy says so": {behindProxy, func(i int) http.Header {
				return http.Header{"X-Forwarded-For": {fmt.Sprintf("198.51.100.%d", i)}}
			}, 6},
		} {
			t.Run(name, func(t *testing.T) {
				s := sitetest.New(t, engine, three, c.change)
				lookedAt := 0
				for i := range 6 {
					if guess(t, s.URL, fmt.Sprintf("somebody%d@example.com", i), c.header(i)) {
						lookedAt++
					}
				}
				if lookedAt != c.want {
					t.Errorf("%d of 6 guesses were looked at, want %d", lookedAt, c.want)
				}
			})
		}
	})
}

func TestLimitOfSignUps(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, limits(func(l *site.Limits) { l.SignUpByAddress = cache.Limit{Hits: 1, Per: time.Hour} }))
		s.Browser().Post("/signup", "name", "Mara", "email", "no address", "password", "a long password").
			Want(http.StatusUnprocessableEntity, "#email-error", "This does not look like an email address.") // that is no sign-up
		s.User("Mara")
		p := s.Browser().Post("/signup", "name", "Tobias", "email", "tobias@example.com", "password", "a long password")
		p.Want(http.StatusTooManyRequests, ".problem", "That was too often. Please try again in 60 minutes.")
		if got := p.Find("#name").AttrOr("value", ""); got != "Tobias" {
			t.Errorf("the name is %q", got)
		}
	})
}

func TestLimitOfChangesToTheProfile(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, limits(func(l *site.Limits) { l.WritesByUser = cache.Limit{Hits: 1, Per: time.Hour} }))
		b := s.User("Mara")
		b.Post("/profile", "name", "Mara L").Want(http.StatusOK, "[data-viewer]", "Mara L")
		p := b.Post("/profile", "name", "Mara Lindqvist")
		p.Want(http.StatusTooManyRequests, "[data-viewer]", "Mara L")
		if got := p.Find("#name").AttrOr("value", ""); got != "Mara Lindqvist" {
			t.Errorf("the name is %q", got)
		}
		s.User("Tobias").Post("/profile", "name", "Tobias B").Want(http.StatusOK, "[data-viewer]", "Tobias B")
	})
}
