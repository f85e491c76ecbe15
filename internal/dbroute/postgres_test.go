package dbroute

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestParseWALPosition(t *testing.T) {
	for _, text := range []string{"postgres:1:0/0", "postgres:1:0/16B3748", "postgres:4294967295:FFFFFFFF/FFFFFFFF"} {
		id, err := postgres{}.parse(text)
		if err != nil || id.String() != text {
			t.Errorf("parse %q: %v, %v", text, id, err)
		}
	}
	for _, text := range []string{
		"", "postgres", "postgres:", "postgres:1", "postgres:1:", "postgres:1:/", "postgres:0:0/1",
		"postgres:01:0/1", "postgres:1:0/01", "postgres:1:0/f", "postgres:1:0/1 ", " postgres:1:0/1",
		"postgres:1:0/1'; DROP TABLE posts", "postgres:1:0/1\n", "postgres:-1:0/1", "postgres:+1:0/1",
		"postgres:1:100000000/0", "postgres:4294967296:0/1", "mysql:8a94f357-aab4-11df-86ab-c80aa9429562:1-5", "0-1-7",
	} {
		if id, err := (postgres{}).parse(text); !errors.Is(err, ErrMalformed) {
			t.Errorf("parse %q: %v, %v, want ErrMalformed", text, id, err)
		}
	}
}

func FuzzParseWALPosition(f *testing.F) {
	f.Add("postgres:1:0/16B3748")
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := (postgres{}).parse(text); err == nil && id.String() != text {
			t.Errorf("parse %q: %q", text, id)
		}
	})
}

func TestMergeWALPositions(t *testing.T) {
	c, err := Open(Config{Name: "test", Primary: "postgres://localhost"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	early, late := CommitID{"postgres:1:F/FFFFFFFF"}, CommitID{"postgres:1:10/0"}
	other := CommitID{"postgres:2:10/0"}
	for _, ids := range [][]CommitID{{early, late}, {late, early}, {late}, {late, {}, early}} {
		if got, err := c.MergeCommitIDs(ids...); got != late || err != nil {
			t.Errorf("merge %v: %v, %v", ids, got, err)
		}
	}
	if _, err := c.MergeCommitIDs(); !errors.Is(err, ErrNoCommitID) {
		t.Errorf("merge of nothing: %v", err)
	}
	if _, err := c.MergeCommitIDs(late, other); !errors.Is(err, errOtherTimeline) {
		t.Errorf("merge of two timelines: %v", err)
	}
	if m := c.MergeMarkers(Marker{Commit: late}, Marker{Commit: other}); !m.Unknown || !m.Commit.IsZero() {
		t.Errorf("marker of two timelines: %+v", m)
	}
	if m := c.MergeMarkers(Marker{Commit: late}, Marker{Unknown: true}, Marker{Commit: early}); !m.Unknown || !m.Commit.IsZero() {
		t.Errorf("marker with an unknown one: %+v", m)
	}
	if m := c.MergeMarkers(); !m.IsZero() {
		t.Errorf("marker of none: %+v", m)
	}
}

func TestCoversWALPosition(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"postgres:1:10/0", "postgres:1:F/FFFFFFFF", true},
		{"postgres:1:10/0", "postgres:1:10/0", true},
		{"postgres:1:F/FFFFFFFF", "postgres:1:10/0", false},
		{"postgres:2:10/0", "postgres:1:1/0", false},
	} {
		if got := (postgres{}).covers(CommitID{c.a}, CommitID{c.b}); got != c.want {
			t.Errorf("%s covers %s: %v", c.a, c.b, got)
		}
	}
}

func TestPageStart(t *testing.T) {
	for _, c := range []struct{ lsn, pageSize, want uint64 }{
		{0x16B2018, 8192, 0x16B2000}, // after a page's header
		{0x2000028, 8192, 0x2000000}, // after a segment's
		{0x16B2020, 8192, 0x16B2020},
		{0x16B2000, 8192, 0x16B2000},
		{0x16B3018, 16384, 0x16B3018}, // no page starts here
	} {
		if got := pageStart(c.lsn, c.pageSize); got != c.want {
			t.Errorf("pageStart(%X, %d) = %X, want %X", c.lsn, c.pageSize, got, c.want)
		}
	}
}

// Under window, a marker that tells no time must not be taken for an old one.
func TestMarkerWithoutTimeHidesTheTimesOfOthers(t *testing.T) {
	c, err := Open(Config{Name: "test", Primary: "postgres://localhost"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	old := Marker{Written: time.UnixMilli(1)}
	if m := c.MergeMarkers(old, Marker{Unknown: true}, old); !m.Unknown || !m.Written.IsZero() {
		t.Errorf("merged to %+v", m)
	}
	if m := c.MergeMarkers(old, Marker{Unknown: true, Written: time.UnixMilli(2)}); m.Written != time.UnixMilli(2) {
		t.Errorf("merged to %+v", m)
	}
}

// The words of a server's severities depend on its language.
func TestFaultOfALocalizedServer(t *testing.T) {
	for want, err := range map[fault]error{
		faultConnection: &pgconn.PgError{Severity: "FATAAL", SeverityUnlocalized: "FATAL", Code: "57P01"},
		faultStatement:  &pgconn.PgError{Severity: "VIGA", SeverityUnlocalized: "ERROR", Code: "23505"},
		faultNone:       fmt.Errorf("wait for a connection: %w", context.DeadlineExceeded),
	} {
		if got := (postgres{}).fault(err); got != want {
			t.Errorf("fault of %v is %d, want %d", err, got, want)
		}
	}
}

func TestLagIsTheAgeOfTheOldestPositionNotReached(t *testing.T) {
	start := time.Now()
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	var h history
	e := postgres{}
	for second, text := range []string{"postgres:1:0/10", "postgres:1:0/20", "postgres:1:0/20", "postgres:1:0/30"} {
		h.add(e, at(second), CommitID{text})
	}
	for text, want := range map[string]time.Duration{
		"postgres:1:0/30": 0,
		"postgres:1:0/20": time.Second,     // 0/30 was first seen at 3
		"postgres:1:0/18": 3 * time.Second, // 0/20 at 1
		"postgres:1:0/1":  4 * time.Second,
	} {
		if got := h.lag(at(4), progressTo(e, CommitID{text})); got != want {
			t.Errorf("lag at %s is %v, want %v", text, got, want)
		}
	}
	h.add(e, at(5), CommitID{"postgres:2:0/30"}) // a failover
	if got := h.lag(at(6), progressTo(e, CommitID{"postgres:2:0/28"})); got != time.Second {
		t.Errorf("lag after a failover is %v", got)
	}
}
