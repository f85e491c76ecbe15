package web

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
)

// The strategies must run before any middleware that loads data, such as the
// current user or the entity that a route names. A read that comes before them
// goes to the primary with the reason undecided.

// CommitID routes reads by the commit ID in the client's marker: to a replica
// that has reached it, else to the primary.
func CommitID(m *Markers) Middleware {
	return strategy("CommitID", m, func(c echo.Context, scope *dbroute.Scope, marker dbroute.Marker) {
		scope.RouteByCommit(c.Request().Context(), marker)
	})
}

// SessionWindow routes reads by time: to the primary for as long as window
// after the client's last write. It is stale when a replica is further behind.
func SessionWindow(m *Markers, window time.Duration) Middleware {
	windowed := *m
	windowed.maxAge = 2*window + time.Minute // it has to outlive the window
	return strategy("SessionWindow", &windowed, func(_ echo.Context, scope *dbroute.Scope, marker dbroute.Marker) {
		scope.RouteByWindow(marker, window)
	})
}

// Anywhere routes reads to a replica whatever the client wrote: the strategy
// "none", to see what the others are for.
func Anywhere(m *Markers) Middleware {
	return strategy("Anywhere", m, func(_ echo.Context, scope *dbroute.Scope, marker dbroute.Marker) {
		scope.RouteAnywhere(marker)
	})
}

// The names of the strategies, in configuration and on pages.
const (
	StrategyCommit = "commit"
	StrategyWindow = "window"
	StrategyNone   = "none"
)

// Strategies returns by name what the cluster's servers can do.
func Strategies(m *Markers, window time.Duration) map[string]Middleware {
	all := map[string]Middleware{
		StrategyCommit: CommitID(m), StrategyWindow: SessionWindow(m, window), StrategyNone: Anywhere(m),
	}
	if m.cluster.Config().NoCommitIDs != "" {
		delete(all, StrategyCommit)
	}
	return all
}

// strategy reads the markers before the request and writes them before the
// response header, whatever the response turns out to be.
func strategy(name string, m *Markers, decide func(echo.Context, *dbroute.Scope, dbroute.Marker)) Middleware {
	return Middleware{name, func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			scope := m.cluster.Scope(c.Request().Context())
			got := m.read(c.Request())
			told := false
			beforeHeader(c, func(h http.Header) {
				o := scope.Outcome()
				told = o.Changed
				m.write(h, got.names, o)
			})
			decide(c, scope, m.cluster.MergeMarkers(got.marker, extraMarker(c.Request().Context())))
			err := next(c)
			if headerSent(c) && !told && scope.Outcome().Changed {
				m.log.ErrorContext(c.Request().Context(), "marker lost: the response header was sent before the write")
			}
			return err
		}
	}}
}
