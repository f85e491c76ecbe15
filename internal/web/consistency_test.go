package web

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// byHeaders is the strategy of programs.
func byHeaders(m *Markers) Middleware {
	h := NewHeaders(m, StrategyCommit, time.Hour)
	return Middleware{"headers", func(next echo.HandlerFunc) echo.HandlerFunc {
		return h.Parse().Func(h.Consistency().Func(next))
	}}
}

// call sends a request with a commit ID, if there is one.
func (s *testSite) call(t *testing.T, method, path, commitID string) answer {
	t.Helper()
	request, err := http.NewRequest(method, s.url+path, nil)
	stacktest.Must(t, err)
	if commitID != "" {
		request.Header.Set("Commit-Id", commitID)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	stacktest.Must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	stacktest.Must(t, err)
	return answer{response, string(body)}
}

func (a answer) want(t *testing.T, text, server string) {
	t.Helper()
	if got := a.Header.Get("X-Server-Id"); a.StatusCode != http.StatusOK || a.text != text || got != server {
		t.Errorf("%d %q from server %s, want %q from server %s", a.StatusCode, a.text, got, text, server)
	}
}

func TestCommitIDReachesTheClientHoweverTheHandlerEnds(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newTestSite(t, engine, byHeaders)
		stacktest.Pause(t, s.servers)
		for _, path := range []string{"redirect", "implicit-200", "nothing", "flush", "not-found", "error", "panic", "json-error", "204"} {
			t.Run(path, func(t *testing.T) {
				saved := s.call(t, http.MethodPost, "/write/"+path+"?text="+path, "")
				id := saved.Header.Get("Commit-Id")
				if len(saved.Header.Values("Commit-Id")) != 1 || len(saved.Cookies()) > 1 { // a flash message is one
					t.Fatalf("headers are %v", saved.Header)
				}
				s.call(t, http.MethodGet, "/read", id).want(t, path+": commit not reached", "1")
				s.call(t, http.MethodGet, "/read", "").want(t, "old: no pending commit", "2")
			})
		}
	})
}

func TestCommitIDIsToldOfWritesOnly(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newTestSite(t, engine, byHeaders)
		id := s.call(t, http.MethodPost, "/write/204?text=new", "").Header.Get("Commit-Id")
		for _, path := range []string{"/read", "/touch?text=touched", "/missing"} {
			if got := s.call(t, http.MethodGet, path, id).Header.Get("Commit-Id"); got != "" {
				t.Errorf("%s has a Commit-Id", path)
			}
		}
	})
}

// Who is handed several, one after the other, has to keep what all of them cover, and
// cannot merge them.
func TestSeveralCommitIDsBecomeOne(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newTestSite(t, engine, byHeaders)
		first := s.call(t, http.MethodPost, "/write/204?text=first", "").Header.Get("Commit-Id")
		stacktest.Applied(t, s.servers)
		stacktest.Pause(t, s.servers)
		second := s.call(t, http.MethodPost, "/write/204?text=second", "").Header.Get("Commit-Id")
		for _, both := range []string{first + ", " + second, second + "," + first} {
			read := s.call(t, http.MethodGet, "/read", both)
			read.want(t, "second: commit not reached", "1")
			one := read.Header.Values("Commit-Id")
			if len(one) != 1 || strings.Contains(one[0], ",") {
				t.Fatalf("the response has %q", one)
			}
			s.call(t, http.MethodGet, "/read", one[0]).want(t, "second: commit not reached", "1")
		}
		s.call(t, http.MethodGet, "/read", first).want(t, "first: commit reached", "2")
	})
}

// The capture of a commit's ID may fail: then the client is told so much.
func TestUnknownCommitIDHealsInOneRequest(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := newTestSite(t, engine, byHeaders)
		resume := stacktest.Pause(t, s.servers)
		s.call(t, http.MethodPost, "/write/204?text=new", "")
		h := NewHeaders(s.markers, StrategyCommit, time.Hour)
		healed := s.call(t, http.MethodGet, "/read", s.markers.encode(h.name(), dbroute.Marker{Unknown: true, Written: time.Now()}))
		healed.want(t, "new: unknown marker", "1")
		id := healed.Header.Get("Commit-Id")
		s.call(t, http.MethodGet, "/read", id).want(t, "new: commit not reached", "1")
		resume()
		stacktest.Applied(t, s.servers)
		s.call(t, http.MethodGet, "/read", id).want(t, "new: commit reached", "2")
	})
}

// However many servers have a part in a commit ID, it fits into a header.
func TestCommitIDIsBounded(t *testing.T) {
	cluster, err := dbroute.Open(dbroute.Config{Name: "main", Primary: "mysql://127.0.0.1:1/none"})
	stacktest.Must(t, err)
	defer cluster.Close()
	m, err := NewMarkers(cluster, nil, [][]byte{[]byte(strings.Repeat("k", 32))}, false)
	stacktest.Must(t, err)
	h := NewHeaders(m, StrategyCommit, time.Hour)
	for parts, known := range map[int]bool{1: true, 40: true, 90: false} {
		var sets []string
		for i := range parts {
			sets = append(sets, fmt.Sprintf("3e11fa47-71ca-11e1-9e33-c80aa942%04x:1-5", i))
		}
		id, err := cluster.ParseCommitID("mysql:" + strings.Join(sets, "+"))
		stacktest.Must(t, err)
		value := h.markers.encode(h.name(), dbroute.Marker{Commit: id, Written: time.UnixMilli(1)})
		got, err := m.open(h.name(), value)
		if err != nil || len(value) > 4096 || got.Unknown == known || known && got.Commit != id {
			t.Errorf("of %d parts: %d bytes, read as %+v, %v", parts, len(value), got, err)
		}
	}
}
