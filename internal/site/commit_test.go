package site_test

import (
	"bytes"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

// Where the answer to COMMIT is lost, the user is told that it may have been saved, and
// keeps what was typed; whoever has the marker reads the primary until it is known what
// there is to be read.
func TestCommitThatWasNotAnswered(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		b := s.User("Mara")
		path := b.Write("Old")
		primary := newLine(t, s.Servers.Primary().Addr())
		b.URL = s.Process(primary.lead(t))
		b.Get(path).Want(http.StatusOK, "[data-title]", "Old").WantReads("2", dbroute.CommitReached)
		resume := s.Pause()

		primary.cuts.Store(true)
		p := b.Post(path, "title", "New", "body", "What I typed")
		p.Want(http.StatusServiceUnavailable, ".problem strong", "It may have been saved.").
			Want(http.StatusServiceUnavailable, "form.editor textarea", "What I typed")
		if title, action := p.Find("#title").AttrOr("value", ""), p.Find("form.editor").AttrOr("action", ""); title != "New" || action != path {
			t.Errorf("the title %q would be sent to %q", title, action)
		}
		onlyMarker := withMarkerOnly(t, b)
		for _, client := range []*sitetest.Browser{onlyMarker, b} { // the guard knows of the user's writes
			client.Get(path).Want(http.StatusOK, "[data-title]", "New").WantReads("1", dbroute.UnknownMarker)
			client.Get(path).Want(http.StatusOK, "[data-title]", "New").WantReads("1", dbroute.CommitNotReached)
		}
		s.Browser().Get(path).Want(http.StatusOK, "[data-title]", "Old").WantReads("2", dbroute.NoPendingCommit)
		resume()
		s.Applied()
		for _, client := range []*sitetest.Browser{onlyMarker, b} {
			client.Get(path).Want(http.StatusOK, "[data-title]", "New").WantReads("2", dbroute.CommitReached)
		}
	})
}

// withMarkerOnly returns a browser of nobody that has the one marker of another.
func withMarkerOnly(t *testing.T, b *sitetest.Browser) *sitetest.Browser {
	t.Helper()
	u, err := url.Parse(b.URL)
	stacktest.Must(t, err)
	var markers []*http.Cookie
	for _, c := range b.Client.Jar.Cookies(u) {
		if strings.HasPrefix(c.Name, "marker.") {
			markers = append(markers, c)
		}
	}
	if len(markers) != 1 {
		t.Fatalf("the browser has %d markers, want 1", len(markers))
	}
	jar, err := cookiejar.New(nil)
	stacktest.Must(t, err)
	jar.SetCookies(u, markers)
	return &sitetest.Browser{Site: b.Site, URL: b.URL, Client: &http.Client{Jar: jar}}
}

// line leads to a server. When it is told to, it lets the next COMMIT pass, and breaks
// once that is answered and before the answer is there.
type line struct {
	listener net.Listener
	server   string
	cuts     atomic.Bool
}

func newLine(t *testing.T, server string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	stacktest.Must(t, err)
	t.Cleanup(func() { listener.Close() })
	l := &line{listener: listener, server: server}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go l.connect(client)
		}
	}()
	return l
}

// lead makes a site reach its primary by way of the line.
func (l *line) lead(t *testing.T) func(*site.Config) {
	return func(cfg *site.Config) {
		t.Helper()
		clusterConfig := cfg.Cluster.Config()
		primary, err := url.Parse(clusterConfig.Primary)
		stacktest.Must(t, err)
		primary.Host = l.listener.Addr().String()
		clusterConfig.Primary = primary.String()
		cluster, err := dbroute.Open(clusterConfig)
		stacktest.Must(t, err)
		t.Cleanup(func() { cluster.Close() })
		cfg.Cluster = cluster
	}
}

func (l *line) connect(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", l.server)
	if err != nil {
		return
	}
	defer server.Close()
	var committing atomic.Bool
	go func() {
		defer client.Close()
		pass(server, client, func([]byte) bool { return !committing.Load() })
	}()
	pass(client, server, func(sent []byte) bool {
		if isCommit(sent) && l.cuts.CompareAndSwap(true, false) {
			committing.Store(true)
		}
		return true
	})
}

// isCommit knows how drivers send it: as the text of a query, that ends a packet.
func isCommit(sent []byte) bool {
	return bytes.HasSuffix(bytes.ToLower(bytes.TrimRight(sent, "\x00")), []byte("commit"))
}

// pass passes on what it reads for as long as it may.
func pass(from, to net.Conn, may func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || !may(buffer[:n]) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
