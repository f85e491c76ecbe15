package web

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/securecookie"

	"freshread/internal/dbroute"
)

func testMarkers(t testing.TB, name string, keys ...string) *Markers {
	t.Helper()
	cluster, err := dbroute.Open(dbroute.Config{Name: name, Primary: "postgres://localhost"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	var raw [][]byte
	for _, key := range keys {
		raw = append(raw, bytes.Repeat([]byte(key), 32))
	}
	m, err := NewMarkers(cluster, slog.New(slog.DiscardHandler), raw, false)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func commit(t testing.TB, m *Markers, text string) dbroute.Marker {
	t.Helper()
	id, err := m.cluster.ParseCommitID(text)
	if err != nil {
		t.Fatal(err)
	}
	return dbroute.Marker{Commit: id, Written: time.UnixMilli(1_764_500_000_123)}
}

// cookies returns the marker cookies that a response with o sets or deletes.
func cookies(m *Markers, names []string, o dbroute.Outcome) []*http.Cookie {
	h := http.Header{}
	m.write(h, names, o)
	return (&http.Response{Header: h}).Cookies()
}

func requestWith(cookies ...*http.Cookie) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, c := range cookies { // Request.AddCookie would mend what is wrong with them
		r.Header.Add("Cookie", c.Name+"="+c.Value)
	}
	return r
}

func TestMarkerSurvivesTheBrowser(t *testing.T) {
	m := testMarkers(t, "main", "a")
	for _, marker := range []dbroute.Marker{
		commit(t, m, "postgres:1:F/FFFFFFFF"),
		{Written: time.UnixMilli(1_764_500_000_999), Unknown: true},
		{Unknown: true},
	} {
		set := cookies(m, nil, dbroute.Outcome{Changed: true, Marker: marker})
		if len(set) != 1 {
			t.Fatalf("%d cookies were set", len(set))
		}
		c := set[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.MaxAge < 365*24*3600 {
			t.Errorf("cookie is %v", c)
		}
		got := m.read(requestWith(c)).marker
		if got.Commit != marker.Commit || got.Unknown != marker.Unknown || !got.Written.Equal(marker.Written) {
			t.Errorf("got %+v, want %+v", got, marker)
		}
	}
}

// Servers without commit IDs leave a marker that says only when its client wrote. In the
// window that counts from there, and not from the next request.
func TestMarkerWithoutCommitIDKeepsItsTime(t *testing.T) {
	cluster, err := dbroute.Open(dbroute.Config{Name: "main", Primary: "postgres://localhost", NoCommitIDs: "the test says so"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	m, err := NewMarkers(cluster, slog.New(slog.DiscardHandler), [][]byte{bytes.Repeat([]byte("a"), 32)}, false)
	if err != nil {
		t.Fatal(err)
	}
	written := dbroute.Marker{Written: time.UnixMilli(1_764_500_000_123)}
	byCookie := m.read(requestWith(cookies(m, nil, dbroute.Outcome{Changed: true, Marker: written})...)).marker
	name := NewHeaders(m, StrategyWindow, time.Hour).name()
	byHeader, err := m.open(name, m.encode(name, written))
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []dbroute.Marker{byCookie, byHeader} {
		if !got.Unknown || !got.Written.Equal(written.Written) {
			t.Errorf("got %+v", got)
		}
		_, scope := cluster.NewScope(t.Context())
		scope.RouteByWindow(got, time.Hour)
		if o := scope.Outcome(); o.Changed {
			t.Errorf("a read changes it to %+v", o.Marker)
		}
	}
}

func TestMarkersAreMerged(t *testing.T) {
	m := testMarkers(t, "main", "a")
	early, late := commit(t, m, "postgres:1:F/FFFFFFFF"), commit(t, m, "postgres:1:10/0")
	late.Written = early.Written.Add(-time.Second)
	var all []*http.Cookie
	for _, marker := range []dbroute.Marker{early, late} {
		all = append(all, cookies(m, nil, dbroute.Outcome{Changed: true, Marker: marker})...)
	}
	got := m.read(requestWith(all...))
	if got.marker.Commit != late.Commit || !got.marker.Written.Equal(early.Written) || len(got.names) != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestMarkerThatCannotBeReadIsUnknown(t *testing.T) {
	m := testMarkers(t, "main", "a")
	good := cookies(m, nil, dbroute.Outcome{Changed: true, Marker: commit(t, m, "postgres:1:0/1")})[0]
	edit := func(name, value string) *http.Cookie { return &http.Cookie{Name: name, Value: value} }
	foreign := commit(t, m, "postgres:1:0/1")
	packed := append(packMarker(foreign)[:len(packMarker(foreign))-len("postgres:1:0/1")], "mysql:8a94f357-aab4-11df-86ab-c80aa9429562:1-5"...)
	otherEngine, err := m.codecs[0].Encode(good.Name, packed)
	if err != nil {
		t.Fatal(err)
	}
	var many []*http.Cookie
	for range maxMarkers + 1 {
		many = append(many, cookies(m, nil, dbroute.Outcome{Changed: true, Marker: commit(t, m, "postgres:1:0/1")})...)
	}
	for name, sent := range map[string][]*http.Cookie{
		"edited by hand":      {edit(good.Name, "A"+good.Value[1:])},
		"truncated":           {edit(good.Name, good.Value[:len(good.Value)/2])},
		"empty":               {edit(good.Name, "")},
		"5 KB":                {edit(good.Name, strings.Repeat("x", 5<<10))},
		"not base64":          {edit(good.Name, "!!!")},
		"no cookie's value":   {edit(good.Name, "a\"b")},
		"under another name":  {edit(m.prefix+"other", good.Value)},
		"signed by other key": cookies(testMarkers(t, "main", "b"), nil, dbroute.Outcome{Changed: true, Marker: foreign}),
		"of another engine":   {edit(good.Name, otherEngine)},
		"beside a good one":   {good, edit(m.prefix+"x", "x")},
		"more than there are": many,
	} {
		t.Run(name, func(t *testing.T) {
			got := m.read(requestWith(sent...))
			if !got.marker.Unknown || !got.marker.Commit.IsZero() || len(got.names) != len(sent) {
				t.Errorf("got %+v", got)
			}
		})
	}
	if got := m.read(requestWith(many[:maxMarkers]...)); got.marker.Unknown {
		t.Errorf("%d markers are too many: %+v", maxMarkers, got)
	}
}

func TestMarkersOfAnotherClusterAreLeftAlone(t *testing.T) {
	m, other := testMarkers(t, "main", "a"), testMarkers(t, "main-2", "a")
	set := cookies(other, nil, dbroute.Outcome{Changed: true, Marker: commit(t, other, "postgres:1:0/1")})
	if got := m.read(requestWith(set...)); len(got.names) != 0 || !got.marker.IsZero() {
		t.Errorf("got %+v", got)
	}
}

func TestKeysRotate(t *testing.T) {
	old, rotated := testMarkers(t, "main", "a"), testMarkers(t, "main", "b", "a")
	marker := commit(t, old, "postgres:1:0/1")
	set := cookies(old, nil, dbroute.Outcome{Changed: true, Marker: marker})
	if got := rotated.read(requestWith(set...)); got.marker.Commit != marker.Commit {
		t.Errorf("a marker of the old key: %+v", got)
	}
	set = cookies(rotated, nil, dbroute.Outcome{Changed: true, Marker: marker})
	if got := old.read(requestWith(set...)); !got.marker.Unknown {
		t.Errorf("a marker of the new key, read by the old: %+v", got)
	}
}

func TestCommitIDTooLongForACookieIsUnknown(t *testing.T) {
	m := testMarkers(t, "main", "a")
	marker := commit(t, m, "postgres:1:FFFFFFFF/FFFFFFFF")
	unknown := m.encode("name", dbroute.Marker{Written: marker.Written, Unknown: true})
	m.codecs[0].(*securecookie.SecureCookie).MaxLength(len(unknown))
	got := m.decode("name", m.encode("name", marker))
	if !got.Unknown || !got.Written.Equal(marker.Written) {
		t.Errorf("got %+v", got)
	}
}

func TestPlan(t *testing.T) {
	reached := dbroute.Outcome{Settled: true}
	pending := dbroute.Outcome{}
	unknown := dbroute.Outcome{Marker: dbroute.Marker{Unknown: true}}
	for _, c := range []struct {
		name    string
		carried int
		outcome dbroute.Outcome
		set     bool
		remove  int
	}{
		{"a write", 0, dbroute.Outcome{Changed: true}, true, 0},
		{"a write that carries one", 1, dbroute.Outcome{Changed: true}, true, 1},
		{"a read", 0, pending, false, 0},
		{"a read with one pending", 1, pending, false, 0},
		{"a read with two pending", 2, pending, true, 2},
		{"a read with one reached", 1, reached, false, 1},
		{"a read with two reached", 2, reached, false, 2},
		{"a read with two unknown that could not be healed", 2, unknown, false, 0},
	} {
		got := plan(make([]string, c.carried), c.outcome)
		if got.set != c.set || len(got.remove) != c.remove {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
