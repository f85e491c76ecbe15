package lab

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/PuerkitoBio/goquery"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/web"
)

var outrunLimit = Experiment{
	Name:     "outrun-limit",
	Question: "Three passwords a minute may be tried. Somebody tries sixteen, at two processes in turn, while the replica is late. How many are looked at?",
	Subject:  answer,
	Broken: Side{
		Label: "counted on the primary, looked up on the replica",
		Setup: func(cfg *site.Config, t Times) {
			threeAMinute(cfg, t)
			cfg.Strategy = site.None
			cfg.Limiter = func(l *cache.Limiter) web.Limiter { return newOutrun(l, cfg) }
		},
	},
	Fixed: Side{
		Label: "counted and judged in one statement, on the primary",
		Setup: threeAMinute,
	},
	Cure:  Cure{"internal/cache/limiter.go", "hitSQL"},
	Steps: guesses(),
}

const guessesAllowed = 3

// threeAMinute is a minute or, where the lag is in proportion, as much longer.
func threeAMinute(cfg *site.Config, t Times) {
	cfg.Limits.LogInByAccount = cache.Limit{Hits: guessesAllowed, Per: max(time.Minute, 20*t.Lag)}
}

// guesses are sixteen in about three times the lag. On the broken side the fourth is
// sure to be looked at; for how long that goes on is up to the replica.
func guesses() (steps []Step) {
	for i := range 16 {
		guess := Step{Do: Guess, By: Guesser,
			Broken: Want{Shows: Old, Role: dbroute.Replica, Reason: dbroute.StrategyNone},
			Fixed:  Want{Shows: Old, Role: dbroute.Primary, Reason: dbroute.Touched},
		}
		if i >= guessesAllowed {
			guess.Fixed.Shows = New
		}
		if i > guessesAllowed {
			guess.Broken = Want{}
		}
		steps = append(steps, guess, Step{Do: AwaitPace})
	}
	return steps
}

// guess tries a wrong password for an account of nobody's.
func (s *runningSide) guess(ctx context.Context, step Step, o *Observation) error {
	if s.guesses == 0 {
		s.guessed = strings.ToLower(rand.Text()) + "@lab.example"
	}
	origin := s.origins[s.guesses%len(s.origins)]
	s.guesses++
	form := url.Values{"email": {s.guessed}, "password": {rand.Text()}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, origin+"/login", strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("guess: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := newBrowser().Do(request)
	if err != nil {
		return fmt.Errorf("guess: %w", err)
	}
	defer response.Body.Close()
	page, err := goquery.NewDocumentFromReader(response.Body)
	if err != nil {
		return fmt.Errorf("guess: %w", err)
	}
	o.Method, o.Label = http.MethodPost, s.subject.Label
	switch response.StatusCode {
	case http.StatusUnprocessableEntity:
		o.Value = s.subject.Old
	case http.StatusTooManyRequests:
		o.Value = s.subject.New
	default:
		return fmt.Errorf("guess: %s", response.Status)
	}
	line := page.Find(fmt.Sprintf("[data-read=%q], [data-cache=%[1]q]", s.subject.Read)).First()
	if err := o.readServer(line); err != nil {
		return fmt.Errorf("guess: %w", err)
	}
	// Whoever looked has not seen the guesses before.
	o.Stale = o.Value == s.subject.Old && s.guesses > guessesAllowed
	o.Problem = s.want(step).differs(*o, s.subject)
	return nil
}

// outrun is the limiter that one writes first: a count in the cache, which is on the
// primary, and a look at it that goes where reads go.
type outrun struct {
	*cache.Limiter
	counts *cache.Cache
	reads  *dbroute.Cluster
}

func newOutrun(l *cache.Limiter, cfg *site.Config) web.Limiter {
	counts, err := cache.New(cache.Config{Cluster: cfg.Cache, Data: cfg.Cluster, Log: cfg.Log})
	if err != nil {
		return l // which shows in the experiment
	}
	return &outrun{l, counts, cfg.Cluster}
}

func (l *outrun) Hit(ctx context.Context, subject string) error {
	key := l.Name() + ":" + subject
	var hits int
	err := l.reads.Read(ctx, "limits."+l.Name(), func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, `SELECT coalesce(max(amount), 0) FROM cache_entries WHERE name = ?`, key).Scan(&hits)
	})
	switch {
	case err != nil:
		return err
	case hits >= l.Limit().Hits:
		return &cache.LimitedError{Limit: l.Name(), After: l.Limit().Per}
	}
	_, err = l.counts.Increment(ctx, key, 1, l.Limit().Per)
	return err
}
