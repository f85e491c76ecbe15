package torture

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// network is what lies between the site's processes and the database servers: one
// link for each, which can be slow, and can break.
type network struct{ api *toxiproxy.ApiServer }

func newNetwork() *network {
	return &network{toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}
}

// link leads to one server, whose address the site does not know.
type link struct {
	proxy *toxiproxy.Proxy
}

func (n *network) connect(name, addr string) (*link, error) {
	l := &link{toxiproxy.NewProxy(n.api, name, "127.0.0.1:0", addr)}
	if err := l.proxy.Start(); err != nil {
		return nil, fmt.Errorf("link to %s: %w", name, err)
	}
	return l, nil
}

// connectPatience is more than a server that is well needs to let somebody in, on a
// machine that has other work.
const connectPatience = 5 * time.Second

// url returns the URL of a server by way of the link.
func (l *link) url(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("link: %w", err)
	}
	u.Host = l.proxy.Listen
	query := u.Query()
	if u.Scheme == "postgres" {
		query.Set("connect_timeout", strconv.Itoa(int(connectPatience.Seconds())))
	} else {
		query.Set("timeout", connectPatience.String())
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// redirect lets the link lead to another server, and cuts what leads to the one before.
func (l *link) redirect(to string) error {
	if err := l.proxy.Update(&toxiproxy.Proxy{Listen: l.proxy.Listen, Upstream: to, Enabled: true}); err != nil {
		return fmt.Errorf("redirect link %s: %w", l.proxy.Name, err)
	}
	return nil
}

func (l *link) close() { l.proxy.Stop() }

// slow delays whatever the server sends.
func (l *link) slow(by time.Duration) error {
	return l.add(`{"name":"fault","type":"latency","attributes":{"latency":%d,"jitter":%d}}`, by.Milliseconds(), by.Milliseconds()/4)
}

// cut ends each connection once the server has sent so many bytes on it, in the middle
// of an answer or just before one.
func (l *link) cut(after int64) error {
	return l.add(`{"name":"fault","type":"limit_data","attributes":{"bytes":%d}}`, after)
}

func (l *link) add(toxic string, args ...any) error {
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(toxic, args...))); err != nil {
		return fmt.Errorf("link %s: %w", l.proxy.Name, err)
	}
	return nil
}

// mend ends what slow or cut has begun.
func (l *link) mend() error {
	if err := l.proxy.Toxics.RemoveToxic(context.Background(), "fault"); err != nil {
		return fmt.Errorf("mend link %s: %w", l.proxy.Name, err)
	}
	return nil
}
