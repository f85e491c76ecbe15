package roundtrips

import (
	"context"
	"net/http"
	"net/url"
	"slices"
)

// trips are the round trips of one request.
type trips struct {
	all     float64
	reads   int // the page's own statements: what any site would send
	guarded int // 1 if the guard was asked
}

// added is how many there are beyond the page's own statements.
func (t trips) added() float64 { return t.all - float64(t.reads) }

// guard is how many of these are the guard's.
func (t trips) guard() float64 { return float64(t.guarded) }

// forMarker is how many of these are neither.
func (t trips) forMarker() float64 { return t.added() - t.guard() }

const page = "/posts/1"

// visits is how often a page is asked for; before that it is asked for a few times to
// open connections and prepare statements.
const (
	warmUps = 3
	visits  = 10
)

// get counts the round trips of a page, on average.
func (v *visitor) get(ctx context.Context) (trips, error) {
	for range warmUps {
		if _, err := v.send(ctx, http.MethodGet, page, nil); err != nil {
			return trips{}, err
		}
	}
	return v.count(ctx, visits)
}

func (v *visitor) count(ctx context.Context, visits int) (t trips, err error) {
	before := v.site.proxies.RoundTrips()
	var statements []string
	for range visits {
		if statements, err = v.send(ctx, http.MethodGet, page, nil); err != nil {
			return trips{}, err
		}
	}
	t.all = float64(v.site.proxies.RoundTrips()-before) / float64(visits)
	t.reads = len(statements)
	if slices.Contains(statements, "auth.Guard") {
		t.guarded = 1
		t.reads--
	}
	return t, nil
}

// save writes something, which leaves a marker.
func (v *visitor) save(ctx context.Context) error {
	_, err := v.send(ctx, http.MethodPost, page+"/comments", url.Values{"body": {"What a day."}})
	return err
}

// counts are the round trips of a page by who asks for it.
type counts struct {
	anonymous trips // a visitor who has written nothing
	signedIn  trips // somebody whose last write is long ago
	pending   trips // somebody whose last write no replica has reached
	first     trips // the same, once they all have
	reached   trips // and then
}

// all counts the round trips of one site.
func (c *counted) all(ctx context.Context) (n counts, err error) {
	anonymous, err := c.visitor()
	if err != nil {
		return n, err
	}
	if n.anonymous, err = anonymous.get(ctx); err != nil {
		return n, err
	}
	user, err := c.user(ctx)
	if err != nil {
		return n, err
	}
	if err := c.servers.WaitApplied(ctx); err != nil {
		return n, err
	}
	if n.signedIn, err = user.get(ctx); err != nil {
		return n, err
	}
	if err := c.pause(ctx, true); err != nil {
		return n, err
	}
	if err := user.save(ctx); err != nil {
		return n, err
	}
	if n.pending, err = user.get(ctx); err != nil {
		return n, err
	}
	if err := c.pause(ctx, false); err != nil {
		return n, err
	}
	if n.first, err = user.count(ctx, 1); err != nil {
		return n, err
	}
	if n.reached, err = user.get(ctx); err != nil {
		return n, err
	}
	return n, nil
}
