package torture

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// balancer sends each request to the process whose turn it is or, where nobody
// listens, to one after it: nothing has been sent by then.
type balancer struct {
	addrs     []string
	first     int // the number of the process at the first of them, from 0
	turn      atomic.Uint64
	transport http.Transport
}

// siteHost is what clients take the balancer for.
const siteHost = "site.test"

// processHeader tells which process has answered.
const processHeader = "X-Process"

func newBalancer(addrs []string) *balancer {
	return &balancer{addrs: addrs, transport: http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext:         (&net.Dialer{Timeout: time.Second}).DialContext,
	}}
}

// only returns one that knows a single process, by its number from 0.
func (b *balancer) only(n int) *balancer {
	one := newBalancer(b.addrs[n : n+1])
	one.first = n
	return one
}

func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	turn := b.turn.Add(1)
	var response *http.Response
	var err error
	for i := range b.addrs {
		n := (int(turn) + i) % len(b.addrs)
		response, err = b.send(r, b.addrs[n])
		var dialing *net.OpError
		if err == nil {
			response.Header.Set(processHeader, strconv.Itoa(b.first+n+1))
		} else if errors.As(err, &dialing) && dialing.Op == "dial" && r.Context().Err() == nil {
			continue
		}
		break
	}
	return response, err
}

func (b *balancer) send(r *http.Request, addr string) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Host, out.Host = addr, siteHost
	out.GetBody = nil // or what has an Idempotency-Key would be sent again unseen
	if r.GetBody != nil {
		var err error
		if out.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	return b.transport.RoundTrip(out)
}
