package dbroute

import (
	"errors"
	"strings"
	"testing"
)

const (
	a1 = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	b2 = "8a94f357-aab4-11df-86ab-c80aa9429562"
)

func gtids(t *testing.T, text string) gtidSet {
	t.Helper()
	set, err := parseGTIDSet(text)
	if err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	return set
}

func TestGTIDSetHasOneText(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		a1 + ":1":                             a1 + ":1",
		a1 + ":1-1":                           a1 + ":1",
		a1 + ":1-5:7":                         a1 + ":1-5:7",
		a1 + ":7:1-5":                         a1 + ":1-5:7",
		a1 + ":1-3:4-5:2":                     a1 + ":1-5",
		strings.ToUpper(a1) + ":1-5":          a1 + ":1-5",
		b2 + ":1-2,\n" + a1 + ":1-5":          a1 + ":1-5," + b2 + ":1-2",
		" " + a1 + " : 1 - 5 , ":              a1 + ":1-5",
		a1 + ":1-5," + a1 + ":6":              a1 + ":1-6",
		a1 + ":1-5:blue:1-2":                  a1 + ":1-5," + a1 + ":blue:1-2",
		a1 + ":blue:1-2:red_1:7," + a1 + ":1": a1 + ":1," + a1 + ":blue:1-2," + a1 + ":red_1:7",
	} {
		if got := gtids(t, text).String(); got != want {
			t.Errorf("parse %q: %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{
		a1, a1 + ":", a1 + ":0", a1 + ":5-1", a1 + ":1-", a1 + ":-5", a1 + ":+1", a1 + ":1:", a1 + ":blue",
		a1 + ":blue:", a1 + ":blue:red:1", a1 + ":1-9223372036854775807", "1-5", "x" + a1[1:] + ":1", a1 + ":1';",
		a1 + ":1 2", a1[:35] + ":1", a1 + ":" + strings.Repeat("t", 33) + ":1",
	} {
		if set, err := parseGTIDSet(text); !errors.Is(err, ErrMalformed) {
			t.Errorf("parse %q: %v, %v", text, set, err)
		}
	}
}

func TestGTIDSetCovers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{a1 + ":1-5", "", true},
		{"", a1 + ":1", false},
		{a1 + ":1-5", a1 + ":2-4", true},
		{a1 + ":1-5", a1 + ":5-6", false},
		{a1 + ":1-5:7-9", a1 + ":6", false},
		{a1 + ":1-5:7-9", a1 + ":4-8", false},
		{a1 + ":1-5:7-9", a1 + ":3:8-9", true},
		{a1 + ":1-5," + b2 + ":1", a1 + ":1," + b2 + ":1", true},
		{a1 + ":1-5", a1 + ":1," + b2 + ":1", false},
		{a1 + ":1-5", a1 + ":blue:1", false},
	} {
		if got := gtids(t, c.a).covers(gtids(t, c.b)); got != c.want {
			t.Errorf("%q covers %q: %v", c.a, c.b, got)
		}
	}
}

func TestGTIDSetMissing(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int64
	}{
		{a1 + ":1-5", "", 5},
		{a1 + ":1-5:8", a1 + ":1-2:4", 3},
		{a1 + ":1-5", a1 + ":1-9", 0},
		{a1 + ":1-5," + b2 + ":1-3", a1 + ":3-4", 6},
	} {
		if got := gtids(t, c.a).missing(gtids(t, c.b)); got != c.want {
			t.Errorf("%q lacks %d of %q, want %d", c.b, got, c.a, c.want)
		}
	}
}

func TestGTIDPosition(t *testing.T) {
	for text, want := range map[string]string{"": "", "0-1-7": "0-1-7", "1-2-9,0-1-7": "0-1-7,1-2-9", " 0-1-7 , 1-2-9": "0-1-7,1-2-9"} {
		p, err := parseGTIDPosition(text)
		if err != nil || p.String() != want {
			t.Errorf("parse %q: %q, %v", text, p, err)
		}
	}
	for _, text := range []string{"0-1", "0-1-7-1", "0-1-x", "0-1-7,0-2-8", "-1-1-7", "4294967296-1-1", "0-1-+7", ",", "0-1-7,"} {
		if p, err := parseGTIDPosition(text); !errors.Is(err, ErrMalformed) {
			t.Errorf("parse %q: %v, %v", text, p, err)
		}
	}
	for _, c := range []struct {
		a, b   string
		covers bool
		behind int64
	}{
		{"0-1-7", "0-2-7", true, 0}, // within a domain the sequence alone counts
		{"0-1-7", "0-1-8", false, 0},
		{"0-1-9", "0-1-7,1-1-1", false, 2},
		{"0-1-9,1-1-2", "0-1-7,1-1-1", true, 3},
		{"0-1-9", "", true, 9},
	} {
		a, _ := parseGTIDPosition(c.a)
		b, _ := parseGTIDPosition(c.b)
		if a.covers(b) != c.covers || a.missing(b) != c.behind {
			t.Errorf("%q covers %q: %v, and is %d ahead", c.a, c.b, a.covers(b), a.missing(b))
		}
	}
}

// The zero commit ID of a fresh server merges with anything, and everything
// covers it.
func TestMergeGTIDs(t *testing.T) {
	for primary, ids := range map[string][3]string{
		"mysql://localhost":   {"mysql:" + a1 + ":1-3", "mysql:" + a1 + ":3-5+" + b2 + ":1", "mysql:" + a1 + ":1-5+" + b2 + ":1"},
		"mariadb://localhost": {"mariadb:0-1-9", "mariadb:0-1-7+1-1-1", "mariadb:0-1-9+1-1-1"},
	} {
		c, err := Open(Config{Name: "test", Primary: primary})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a, b, want := CommitID{ids[0]}, CommitID{ids[1]}, CommitID{ids[2]}
		for _, order := range [][]CommitID{{a, b}, {b, a}, {b, {}, a, b}} {
			if got, err := c.MergeCommitIDs(order...); got != want || err != nil {
				t.Errorf("merge %v: %v, %v", order, got, err)
			}
		}
		if got, err := c.MergeCommitIDs(CommitID{}, CommitID{}); !got.IsZero() || err != nil {
			t.Errorf("merge of fresh servers: %v, %v", got, err)
		}
		if _, err := c.MergeCommitIDs(); !errors.Is(err, ErrNoCommitID) {
			t.Errorf("merge of nothing: %v", err)
		}
		if c.engine.covers(a, b) || c.engine.covers(b, a) || !c.engine.covers(want, a) || !c.engine.covers(want, b) {
			t.Error("a part is taken for the whole, or the whole for less than its parts")
		}
		if !c.engine.covers(a, CommitID{}) {
			t.Error("nothing is not covered")
		}
	}
}

func TestParseCommitIDOfGTIDs(t *testing.T) {
	for _, e := range []engine{newMySQL(), newMariaDB()} {
		for _, text := range []string{
			"mysql:" + a1 + ":1-5", "mysql:" + a1 + ":1-5+" + a1 + ":blue:1+" + b2 + ":7:9", "mariadb:0-1-7", "mariadb:0-1-7+1-2-9",
		} {
			id, err := e.parse(text)
			if ours := strings.HasPrefix(text, string(e.name())+":"); ours && (err != nil || id.String() != text) || !ours && !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: parse %q: %v, %v", e.name(), text, id, err)
			}
		}
		for _, text := range []string{
			"", "mysql", "mysql:", "mariadb:", "mysql:" + a1, "mysql:" + a1 + ":5-1", "mysql:" + a1 + ":1-5,", "mysql:" + a1 + ":1-5+",
			"mysql:" + b2 + ":1+" + a1 + ":1", "mysql:" + a1 + ":1,2", "mysql:" + strings.ToUpper(a1) + ":1", "mysql:" + a1 + ":1\n",
			"mysql:" + a1 + ":01", "mariadb:00-1-7", "mariadb:0-1-7,1-1-1", "mariadb:1-1-1+0-1-7", "mariadb:0-1-7 ", "postgres:1:0/1",
		} {
			if id, err := e.parse(text); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: parse %q: %v, %v", e.name(), text, id, err)
			}
		}
	}
}

func FuzzParseGTIDCommitID(f *testing.F) {
	f.Add("mysql:" + a1 + ":1-5:7+" + b2 + ":1")
	f.Add("mariadb:0-1-7+1-2-9")
	f.Fuzz(func(t *testing.T, text string) {
		for _, e := range []engine{newMySQL(), newMariaDB()} {
			if id, err := e.parse(text); err == nil && (id.String() != text || strings.ContainsAny(text, " ,\n\"';")) {
				t.Errorf("parse %q: %q", text, id)
			}
		}
	})
}

func TestOwnersAreLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		"": "", a1 + ":4#12": a1 + ":4", a1 + ":4#12:5#13," + b2 + ":1#7": a1 + ":4:5," + b2 + ":1",
	} {
		if got := withoutOwners(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
