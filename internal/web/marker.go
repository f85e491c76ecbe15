package web

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/securecookie"

	"freshread/internal/dbroute"
)

// Markers keeps a client's markers in its cookies. Headers does for clients that
// have none.
//
// Cookies are last-write-wins, and the responses to two tabs may arrive in
// either order, so one cookie of a fixed name loses commits. Here no cookie is
// ever overwritten: each marker gets a fresh name, and a response deletes only
// names that its own request carried, once what they say is said elsewhere or
// needed nowhere.
type Markers struct {
	cluster *dbroute.Cluster
	log     *slog.Logger
	prefix  string
	codecs  []securecookie.Codec
	secure  bool
	maxAge  time.Duration
}

const (
	// maxMarkers is how many markers a request may carry. There are as many as
	// writes in flight, so more are somebody's doing, and count as unknown.
	maxMarkers = 8
	// foreverAge is as long as browsers keep a cookie.
	foreverAge = 400 * 24 * time.Hour
)

// NewMarkers makes markers for one cluster. The first of keys, each at least 32
// random bytes, signs and encrypts; all of them verify, so that keys can be
// rotated. With secure the cookies travel over TLS only.
func NewMarkers(cluster *dbroute.Cluster, log *slog.Logger, keys [][]byte, secure bool) (*Markers, error) {
	derived, err := DeriveKeys(keys, "freshread marker", 64)
	if err != nil {
		return nil, fmt.Errorf("markers: %w", err)
	}
	m := &Markers{
		cluster: cluster, log: log, secure: secure, maxAge: foreverAge,
		prefix: "marker." + cluster.Name() + ".",
	}
	for _, key := range derived {
		// A marker must outlive any lag, so its signature does not expire.
		codec := securecookie.New(key[:32], key[32:]).MaxAge(0)
		m.codecs = append(m.codecs, codec.SetSerializer(securecookie.NopEncoder{}))
	}
	return m, nil
}

// carried is what a request carried: the names of its marker cookies, or its
// Commit-Ids, and what they say together.
type carried struct {
	names  []string
	marker dbroute.Marker
}

// read never fails: a marker that cannot be read is one that may say anything,
// and so is unknown.
func (m *Markers) read(r *http.Request) carried {
	var got carried
	var all []dbroute.Marker
	for name, value := range rawCookies(r) {
		if !strings.HasPrefix(name, m.prefix) {
			continue
		}
		got.names = append(got.names, name)
		if len(got.names) <= maxMarkers {
			all = append(all, m.decode(name, value))
		}
	}
	if len(got.names) > maxMarkers {
		all = append(all, dbroute.Marker{Unknown: true})
	}
	got.marker = m.cluster.MergeMarkers(all...)
	return got
}

// rawCookies yields what was sent, also what http.Request.Cookies leaves out
// since its value is no cookie's: a marker that was tampered with must be seen.
func rawCookies(r *http.Request) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, line := range r.Header["Cookie"] {
			for pair := range strings.SplitSeq(line, ";") {
				name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
				if !yield(name, value) {
					return
				}
			}
		}
	}
}

// change is what a response does to the client's marker cookies.
type change struct {
	set    bool     // a new marker, under a name never used before
	remove []string // only names that the request carried
}

// plan decides what a response does. A plain read with at most one marker
// changes nothing, so that it cannot get in the way of a write's response.
func plan(names []string, o dbroute.Outcome) change {
	switch {
	case o.Changed:
		return change{set: true, remove: names}
	case o.Settled:
		return change{remove: names}
	case len(names) > 1 && !o.Marker.Unknown:
		return change{set: true, remove: names}
	}
	return change{}
}

// write puts the outcome of a request into the response header.
func (m *Markers) write(h http.Header, names []string, o dbroute.Outcome) {
	todo := plan(names, o)
	if todo.set {
		name := m.prefix + strings.ToLower(rand.Text()[:16])
		addCookie(h, m.cookie(name, m.encode(name, o.Marker), m.maxAge))
	}
	for _, name := range todo.remove {
		addCookie(h, m.cookie(name, "", -time.Second))
	}
}

func (m *Markers) cookie(name, value string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(age / time.Second),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: m.secure,
	}
}

func addCookie(h http.Header, c *http.Cookie) { h.Add("Set-Cookie", c.String()) }

// A marker's plain form is a format byte, a flag byte, the time of the write in
// Unix milliseconds as a varint, and the text of the commit ID.
const (
	markerFormat  = 1
	flagUnknown   = 1 << 0
	markerMinimum = 3
)

// encode falls back to an unknown marker if the commit ID is too long for a
// cookie: that costs one question to the primary instead of a lost commit.
func (m *Markers) encode(name string, marker dbroute.Marker) string {
	value, err := securecookie.EncodeMulti(name, packMarker(marker), m.codecs...)
	if err != nil {
		marker = dbroute.Marker{Written: marker.Written, Unknown: true}
		value, _ = securecookie.EncodeMulti(name, packMarker(marker), m.codecs...)
	}
	return value
}

// decode takes what cannot be read for unknown.
func (m *Markers) decode(name, value string) dbroute.Marker {
	marker, err := m.open(name, value)
	if err != nil {
		return dbroute.Marker{Unknown: true}
	}
	return marker
}

func (m *Markers) open(name, value string) (dbroute.Marker, error) {
	var packed []byte
	if err := securecookie.DecodeMulti(name, value, &packed, m.codecs...); err != nil {
		return dbroute.Marker{}, fmt.Errorf("open marker: %w", err)
	}
	return m.unpackMarker(packed)
}

// packMarker has no form for a write without a commit ID, as servers that issue none
// leave one: to whoever reads the marker, it is unknown what the client wrote.
func packMarker(marker dbroute.Marker) []byte {
	flags := byte(0)
	if marker.Unknown || marker.Commit.IsZero() {
		flags = flagUnknown
	}
	packed := []byte{markerFormat, flags}
	packed = binary.AppendVarint(packed, marker.Written.UnixMilli())
	return append(packed, marker.Commit.String()...)
}

func (m *Markers) unpackMarker(packed []byte) (dbroute.Marker, error) {
	if len(packed) < markerMinimum || packed[0] != markerFormat {
		return dbroute.Marker{}, errors.New("marker: unknown format")
	}
	millis, n := binary.Varint(packed[2:])
	if n <= 0 {
		return dbroute.Marker{}, errors.New("marker: no time")
	}
	marker := dbroute.Marker{Written: time.UnixMilli(millis), Unknown: packed[1]&flagUnknown != 0}
	if marker.Unknown {
		return marker, nil
	}
	id, err := m.cluster.ParseCommitID(string(packed[2+n:]))
	if err != nil {
		return dbroute.Marker{}, err
	}
	marker.Commit = id
	return marker, nil
}
