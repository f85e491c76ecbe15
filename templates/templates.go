// Package templates holds the pages, their layout and assets, and the data that
// every page has in common.
package templates

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// Files holds layout.html, parts/, pages/ and static/.
//
//go:embed layout.html parts pages static
var Files embed.FS

// Site is the same on every page.
type Site struct {
	Demo      bool   // the site runs to be tried out
	Lab       bool   // it has the pages of the lab
	ShowReads bool   // the reads bar is shown
	Strategy  string // commit, window or none
	Window    time.Duration

	NoCommitIDs bool // the servers issue none, so the strategy commit is not offered
}

// Strategies are those that a visitor of a demo can choose from.
func (s Site) Strategies() []string {
	if s.NoCommitIDs {
		return []string{"window", "none"}
	}
	return []string{"commit", "window", "none"}
}

// HasTour reports whether the site leads from the bug to its cure.
func (s Site) HasTour() bool { return s.Demo && !s.NoCommitIDs }

// The steps of the tour.
const (
	TourBug  = "bug"
	TourCure = "cure"
	TourWhy  = "why"
)

// Base is what every page's data embeds.
type Base struct {
	Site
	Title     string
	Path      string
	Back      string // where a form that changes nothing on this page leads back to
	RequestID string
	Viewer    Viewer
	Unknown   bool     // nobody has looked who is signed in: the request got to no page
	Flash     string   // what the form before this page has done
	Tour      string   // the step of the tour that has led here
	Stale     string   // what the primary already has, if this page is old
	Problem   *Problem // an error to show on this page
	ReadOnly  bool     // the primary is down: this page could be read, and nothing can be saved
	Reads     *Reads   // nil if the reads bar is off
}

// Common gives package web access to the base of any page.
func (b *Base) Common() *Base { return b }

// Viewer is who is signed in; the zero Viewer is nobody.
type Viewer struct {
	ID   int64
	Name string
}

// Problem is an error in the user's words.
type Problem struct{ Title, Text string }

// ErrorPage is pages/error.html.
type ErrorPage struct {
	Base
	Status int
	Text   string
	Again  *Again  // what was sent, if it was a form that can be sent again
	Kept   []Field // what was sent, if all that can be done is to copy it
}

// Again is a form that can be sent again as it was.
type Again struct {
	Action string
	Fields []Field
	Typed  bool // there is a field that somebody typed
}

// Field is a field of a form.
type Field struct {
	Name, Value string
	Hidden      bool
}

// Reads is the bar at the foot of a page that says what was read and where.
type Reads struct {
	Guard    []Access // what says whether the session is valid; not part of the page
	Accesses []Access
	Beside   []ClusterReads // what other clusters were asked, such as the cache; not part of the page's state
}

// ClusterReads are the accesses of one cluster.
type ClusterReads struct {
	Cluster  string
	Accesses []Access
}

// Access is one read or write.
type Access struct {
	Name     string
	Write    bool
	ServerID int
	Role     string // primary or replica
	Reason   string
	Duration time.Duration
	Failed   bool
}

// Kind is "read" or "write".
func (a Access) Kind() string {
	if a.Write {
		return "write"
	}
	return "read"
}

// Summary says in one line where a page comes from.
func (r *Reads) Summary() string {
	if len(r.Accesses) == 0 {
		for _, cluster := range r.Beside {
			if slices.ContainsFunc(cluster.Accesses, func(a Access) bool { return !a.Write }) {
				return "This page was read from the cluster " + cluster.Cluster
			}
		}
		return "This page read nothing from the database"
	}
	var where []string
	seen := map[int]bool{}
	for _, a := range r.Accesses {
		if !seen[a.ServerID] {
			seen[a.ServerID] = true
			where = append(where, fmt.Sprintf("server %d (%s)", a.ServerID, a.Role))
		}
	}
	return "This page was read from " + strings.Join(where, " and ")
}

// Funcs are the functions that templates may call.
var Funcs = template.FuncMap{
	"ms":         func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) },
	"ago":        func(t time.Time) string { return ago(time.Since(t)) },
	"date":       func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
	"clock":      func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"seconds":    func(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) },
	"iso":        func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"paragraphs": func(text string) []string { return strings.Split(text, "\n\n") },
	"inWords":    InWords,
	"plural": func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, many)
	},
}

// InWords is how long one has to wait, rounded up so that nobody comes too early.
func InWords(d time.Duration) string {
	size, unit := time.Second, "second"
	switch {
	case d > 90*time.Minute || d == time.Hour:
		size, unit = time.Hour, "hour"
	case d > 90*time.Second || d == time.Minute:
		size, unit = time.Minute, "minute"
	}
	n := (d + size - 1) / size
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// Assets returns the function asset, which gives the URL of a file in static/
// with its content's hash, so that browsers may keep it for ever.
func Assets(files fs.FS) (template.FuncMap, error) {
	urls := map[string]string{}
	err := fs.WalkDir(files, "static", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		urls[strings.TrimPrefix(path, "static/")] = "/" + path + "?v=" + AssetHash(content)
		return err
	})
	asset := func(name string) (string, error) {
		if url, ok := urls[name]; ok {
			return url, nil
		}
		return "", fmt.Errorf("no asset %q", name)
	}
	return template.FuncMap{"asset": asset}, err
}

// AssetHash is what the URL of an asset has of its content.
func AssetHash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:6])
}

func ago(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		one  string
		many string
	}{
		{365 * 24 * time.Hour, "a year", "years"},
		{30 * 24 * time.Hour, "a month", "months"},
		{24 * time.Hour, "a day", "days"},
		{time.Hour, "an hour", "hours"},
		{time.Minute, "a minute", "minutes"},
	} {
		switch n := int(d / unit.size); {
		case n == 1:
			return unit.one + " ago"
		case n > 1:
			return fmt.Sprintf("%d %s ago", n, unit.many)
		}
	}
	return "just now"
}
