package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
)

// Headers keeps the markers of programs, which have no cookies, in the header
// Commit-Id: a response to a write has one, and any request may carry some, of
// this client or of another. Clients cannot merge them: a response to a request that
// carried several has one that covers them all. With Read-Consistency a request says what its reads
// must cover.
type Headers struct {
	markers *Markers
	session decide // what reads cover by default
}

// NewHeaders keeps markers signed with the keys of m. What reads cover by default
// is what the site's strategy does.
func NewHeaders(m *Markers, strategy string, window time.Duration) *Headers {
	return &Headers{markers: m, session: decideBy(strategy, window)}
}

const (
	commitIDHeader    = "Commit-Id"
	consistencyHeader = "Read-Consistency"
	consistencyParam  = "read_consistency"
)

// What the reads of a request cover.
const (
	eventual = "eventual" // nothing in particular
	session  = "session"  // what the request's markers say, and what its user has written
	strong   = "strong"   // all that was committed before the request began
)

// asked is what a request says of its reads.
type asked struct {
	consistency string
	carried     carried
}

type askedKey struct{}

// Parse is the middleware that reads the headers. It comes first, since what is
// wrong with them must cost no query.
func (h *Headers) Parse() Middleware {
	return Middleware{"CommitIDHeader", func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			consistency, err := readConsistency(c)
			if err != nil {
				return err
			}
			got, err := h.parse(c)
			if err != nil {
				return err
			}
			ctx := context.WithValue(c.Request().Context(), askedKey{}, asked{consistency, got})
			c.SetRequest(c.Request().WithContext(ctx))
			return next(c)
		}
	}}
}

func readConsistency(c echo.Context) (string, error) {
	said := append(c.Request().Header.Values(consistencyHeader), c.QueryParams()[consistencyParam]...)
	if len(said) == 0 {
		return session, nil
	}
	for _, one := range said {
		if one != said[0] || !slices.Contains([]string{eventual, session, strong}, one) {
			return "", Explain(ErrBadRequest, "Read-Consistency: want one of eventual, session and strong, in the header or in the parameter read_consistency.")
		}
	}
	return said[0], nil
}

func (h *Headers) parse(c echo.Context) (carried, error) {
	var got carried
	var all []dbroute.Marker
	for id := range strings.SplitSeq(headerList(c, commitIDHeader), ",") {
		if id = strings.TrimSpace(id); id == "" {
			continue
		}
		if len(all) == maxMarkers {
			return carried{}, Explain(ErrBadRequest, fmt.Sprintf("Commit-Id: at most %d fit into a request. Each covers those that its request carried.", maxMarkers))
		}
		marker, err := h.markers.open(h.name(), id)
		if err != nil {
			return carried{}, Explain(fmt.Errorf("%w: %w", ErrBadRequest, err),
				"Commit-Id: this is none of ours. Send back, unchanged, what a response has said.")
		}
		all, got.names = append(all, marker), append(got.names, id)
	}
	got.marker = h.markers.cluster.MergeMarkers(all...)
	return got, nil
}

// name is part of what is signed, so that no marker passes for another's: the
// cluster's, or a cookie's.
func (h *Headers) name() string { return commitIDHeader + "." + h.markers.cluster.Name() }

func (h *Headers) read(r *http.Request) carried { return askedOf(r).carried }

func askedOf(r *http.Request) asked {
	a, _ := r.Context().Value(askedKey{}).(asked)
	return a
}

func (h *Headers) write(header http.Header, sent []string, o dbroute.Outcome) {
	if o.Changed || len(sent) > 1 {
		header.Set(commitIDHeader, h.markers.encode(h.name(), o.Marker))
	}
}

// Consistency is the middleware that routes reads as the request asks. Parse
// must have run.
func (h *Headers) Consistency() Middleware {
	return strategy("ReadConsistency", h.markers, h, func(c echo.Context, scope *dbroute.Scope, marker dbroute.Marker) error {
		consistency := askedOf(c.Request()).consistency
		c.Response().Header().Set(consistencyHeader, consistency)
		switch consistency {
		case eventual:
			return routeAnywhere(c, scope, marker)
		case strong:
			return h.routeStrong(c, scope, marker)
		}
		return h.session(c, scope, marker)
	})
}

// routeStrong asks the primary how far it is, and reads a replica that has got
// there. To read the primary would spare the question, and would keep off the
// replicas what they can answer: on a calm cluster, everything. Where servers issue
// no commit IDs there is nothing to ask.
func (h *Headers) routeStrong(c echo.Context, scope *dbroute.Scope, marker dbroute.Marker) error {
	cluster := h.markers.cluster
	if cluster.Config().NoCommitIDs != "" {
		scope.Pin()
		return h.session(c, scope, marker)
	}
	now, err := cluster.LastCommitID(c.Request().Context())
	if err != nil {
		return err
	}
	return routeByCommit(c, scope, cluster.MergeMarkers(marker, dbroute.Marker{Commit: now, Written: time.Now()}))
}
