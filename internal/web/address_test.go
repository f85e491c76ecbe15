package web

import (
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/labstack/echo/v4"
)

func TestClientAddress(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.1.2.3/8"), netip.MustParsePrefix("fd00::/8")}
	for name, c := range map[string]struct {
		trusted   []netip.Prefix
		peer      string
		forwarded []string
		want      string
	}{
		"no proxy":                        {nil, "192.0.2.1:1234", nil, "192.0.2.1"},
		"no proxy, a spoofed header":      {nil, "192.0.2.1:1234", []string{"198.51.100.9"}, "192.0.2.1"},
		"private networks are nobody's":   {nil, "127.0.0.1:1234", []string{"198.51.100.9"}, "127.0.0.1"},
		"nor with proxies":                {proxies, "127.0.0.1:1234", []string{"198.51.100.9"}, "127.0.0.1"},
		"a proxy":                         {proxies, "10.9.9.9:1234", []string{"198.51.100.9"}, "198.51.100.9"},
		"a proxy says nothing":            {proxies, "10.9.9.9:1234", nil, "10.9.9.9"},
		"a peer that is no proxy":         {proxies, "192.0.2.1:1234", []string{"198.51.100.9"}, "192.0.2.1"},
		"spoofed in front of the proxy":   {proxies, "10.9.9.9:1234", []string{"203.0.113.5, 198.51.100.9"}, "198.51.100.9"},
		"spoofed in a header of its own":  {proxies, "10.9.9.9:1234", []string{"203.0.113.5", "198.51.100.9"}, "198.51.100.9"},
		"spoofed as a proxy":              {proxies, "10.9.9.9:1234", []string{"203.0.113.5, 198.51.100.9, 10.0.0.1"}, "198.51.100.9"},
		"garbage in front of the proxy":   {proxies, "10.9.9.9:1234", []string{"unknown, 198.51.100.9"}, "198.51.100.9"},
		"garbage from the proxy":          {proxies, "10.9.9.9:1234", []string{"unknown"}, "10.9.9.9"},
		"IPv6":                            {nil, "[2001:db8:1:2:3:4:5:6]:1234", nil, "2001:db8:1:2::/64"},
		"IPv6, another address of it":     {nil, "[2001:db8:1:2:ffff::1%eth0]:1234", nil, "2001:db8:1:2::/64"},
		"IPv6 by a proxy":                 {proxies, "[fd00::1]:1234", []string{"[2001:db8:1:3::1]"}, "2001:db8:1:3::/64"},
		"IPv4 in IPv6":                    {nil, "[::ffff:192.0.2.1]:1234", nil, "192.0.2.1"},
		"IPv4 in IPv6 by a proxy in IPv6": {proxies, "[::ffff:10.9.9.9]:1234", []string{"::ffff:198.51.100.9"}, "198.51.100.9"},
		"no network at all":               {nil, "@", []string{"198.51.100.9"}, ""},
	} {
		request := httptest.NewRequest("GET", "/", nil)
		request.RemoteAddr = c.peer
		request.Header["X-Forwarded-For"] = c.forwarded
		request.Header.Set("X-Real-Ip", "203.0.113.77")
		request.Header.Set("Forwarded", "for=203.0.113.77")
		e := echo.New()
		e.IPExtractor = addressOf(c.trusted)
		if got := ClientAddress(e.NewContext(request, httptest.NewRecorder())); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestScheme(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("fd00::/8")}
	for name, c := range map[string]struct {
		trusted []netip.Prefix
		peer    string
		proto   string
		want    string
	}{
		"no proxy":                        {nil, "192.0.2.1:1234", "", "http"},
		"no proxy, a spoofed header":      {nil, "192.0.2.1:1234", "https", "http"},
		"private networks are nobody's":   {nil, "127.0.0.1:1234", "https", "http"},
		"nor with proxies":                {proxies, "10.9.9.9:1234", "https", "http"},
		"a proxy":                         {proxies, "203.0.113.7:1234", "https", "https"},
		"a proxy in IPv6":                 {proxies, "[fd00::1]:1234", "https", "https"},
		"a proxy without TLS":             {proxies, "203.0.113.7:1234", "http", "http"},
		"a proxy says nothing":            {proxies, "203.0.113.7:1234", "", "http"},
		"a peer that is no proxy":         {proxies, "192.0.2.1:1234", "https", "http"},
		"spoofed in front of the proxy's": {proxies, "203.0.113.7:1234", "https, http", "http"},
		"no network at all":               {proxies, "@", "https", "http"},
	} {
		request := httptest.NewRequest("GET", "/", nil)
		request.RemoteAddr = c.peer
		request.Header.Set("X-Forwarded-Proto", c.proto)
		e := echo.New()
		e.SchemeExtractor = schemeOf(c.trusted)
		if got := e.NewContext(request, httptest.NewRecorder()).Scheme(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
