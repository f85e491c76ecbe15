package lab

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/internal/tokens"
	"freshread/internal/web"
)

// naive is the router that one writes first, with the bugs that one writes
// first. It stands behind the interface that the stores use, so that pages and
// stores are the real ones.
//
// It remembers in a cookie when a client last wrote, and sends the client's
// reads to the primary for a window, from the moment that applyMarker has run:
// earlier reads of the same request go to the replica. With shared, it
// remembers that for all clients together.
type naive struct {
	cluster *dbroute.Cluster
	window  time.Duration
	shared  *lastWrite // nil: by client
	// wholeSeconds is set if it keeps and compares times without their fractions.
	wholeSeconds bool
}

// replicaOnly reads tokens as one does who does not think of the primary.
type replicaOnly struct{ *dbroute.Cluster }

func (r replicaOnly) Read(ctx context.Context, name string, fn func(dbroute.Querier) error) error {
	if name == tokens.WithOwner {
		return sql.ErrNoRows // the replica was asked; there is no second look
	}
	return r.Cluster.Read(ctx, name, fn)
}

// naiveCookie holds a Unix time in milliseconds. It is not signed: one more bug.
const naiveCookie = "last_write"

type naiveKey struct{}

// naiveRequest is what naive knows of a request.
type naiveRequest struct{ wrote bool }

// Read goes where the context says; the scope beneath is routed nowhere.
func (n *naive) Read(ctx context.Context, name string, fn func(dbroute.Querier) error) error {
	return n.cluster.Read(ctx, name, fn)
}

func (n *naive) Write(ctx context.Context, name string, fn func(context.Context, *dbroute.Tx) error) error {
	err := n.cluster.Write(ctx, name, fn)
	if request, ok := ctx.Value(naiveKey{}).(*naiveRequest); ok && err == nil {
		request.wrote = true
		if n.shared != nil {
			n.shared.set(time.Now())
		}
	}
	return err
}

// remember sets the cookie after a write.
func (n *naive) remember() web.Middleware {
	return web.Middleware{Name: "lab.remember", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			request := &naiveRequest{}
			c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), naiveKey{}, request)))
			c.Response().Before(func() {
				if request.wrote {
					c.SetCookie(&http.Cookie{Name: naiveCookie, Path: "/", Value: fmt.Sprint(time.Now().UnixMilli())})
				}
			})
			return next(c)
		}
	}}
}

// applyMarker sends what the request reads from here on to the primary, if the
// client wrote within the window.
func (n *naive) applyMarker() web.Middleware {
	return web.Middleware{Name: "lab.applyMarker", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if n.round(time.Now()).Sub(n.round(n.lastWrite(c))) < n.window {
				c.SetRequest(c.Request().WithContext(dbroute.UsePrimary(c.Request().Context())))
			}
			return next(c)
		}
	}}
}

func (n *naive) round(t time.Time) time.Time {
	if n.wholeSeconds {
		return t.Truncate(time.Second)
	}
	return t
}

func (n *naive) lastWrite(c echo.Context) time.Time {
	if n.shared != nil {
		return n.shared.get()
	}
	cookie, err := c.Cookie(naiveCookie)
	if err != nil {
		return time.Time{}
	}
	millis, err := strconv.ParseInt(cookie.Value, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}
