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

// decide routes a scope by the marker that its client carries.
type decide func(echo.Context, *dbroute.Scope, dbroute.Marker) error

// CommitID routes reads by the commit ID in the client's marker: to a replica
// that has reached it, else to the primary.
func CommitID(m *Markers) Middleware { return strategy("CommitID", m, m, routeByCommit) }

func routeByCommit(c echo.Context, scope *dbroute.Scope, marker dbroute.Marker) error {
	scope.RouteByCommit(c.Request().Context(), marker)
	return nil
}

// SessionWindow routes reads by time: to the primary for as long as window
// after the client's last write. It is stale when a replica is further behind.
func SessionWindow(m *Markers, window time.Duration) Middleware {
	windowed := *m
	windowed.maxAge = 2*window + time.Minute // it has to outlive the window
	return strategy("SessionWindow", m, &windowed, routeByWindow(window))
}

func routeByWindow(window time.Duration) decide {
	return func(_ echo.Context, scope *dbroute.Scope, marker dbroute.Marker) error {
		scope.RouteByWindow(marker, window)
		return nil
	}
}

// Anywhere routes reads to a replica whatever the client wrote: the strategy
// "none", to see what the others are for.
func Anywhere(m *Markers) Middleware { return strategy("Anywhere", m, m, routeAnywhere) }

func routeAnywhere(_ echo.Context, scope *dbroute.Scope, marker dbroute.Marker) error {
	scope.RouteAnywhere(marker)
	return nil
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

// decideBy returns what a strategy does, by its name.
func decideBy(name string, window time.Duration) decide {
	switch name {
	case StrategyWindow:
		return routeByWindow(window)
	case StrategyNone:
		return routeAnywhere
	}
	return routeByCommit
}

// carrier is where a client keeps its markers: a browser in cookies, a program
// in headers.
type carrier interface {
	read(*http.Request) carried
	write(h http.Header, names []string, o dbroute.Outcome)
}

// strategy reads the markers before the request and writes them before the
// response header, whatever the response turns out to be.
func strategy(name string, m *Markers, client carrier, decide decide) Middleware {
	return Middleware{name, func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			scope := m.cluster.Scope(c.Request().Context())
			got := client.read(c.Request())
			told := false
			beforeHeader(c, func(h http.Header) {
				o := scope.Outcome()
				told = o.Changed
				client.write(h, got.names, o)
			})
			if err := decide(c, scope, m.cluster.MergeMarkers(got.marker, extraMarker(c.Request().Context()))); err != nil {
				return err
			}
			err := next(c)
			if headerSent(c) && !told && scope.Outcome().Changed {
				m.log.ErrorContext(c.Request().Context(), "marker lost: the response header was sent before the write")
			}
			return err
		}
	}}
}
