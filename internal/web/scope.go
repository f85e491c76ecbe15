package web

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
)

// Scope gives each request its scope, and one on each of the clusters beside. With
// prefer, a client keeps to the replica that it says. With show it also tells in the
// response header which servers answered: X-Server-Id has the distinct ids of the
// cluster in order of first use, Server-Timing each read and write of all.
func Scope(cluster *dbroute.Cluster, show bool, prefer func(echo.Context) uint64, beside ...*dbroute.Cluster) Middleware {
	return Middleware{"Scope", func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			ctx, scope := cluster.NewScope(c.Request().Context())
			for _, other := range beside {
				ctx, _ = other.NewScope(ctx)
			}
			c.SetRequest(c.Request().WithContext(ctx))
			if cluster.Replicas() > 1 && prefer != nil {
				scope.Prefer(prefer(c))
			}
			if show {
				c.Set(served, scope)
				beforeHeader(c, func(h http.Header) {
					tellServers(h, guardAccesses(c.Request().Context()), scope.Accesses())
					for _, other := range beside {
						tellTimings(h, other.Scope(ctx).Accesses())
					}
				})
			}
			err := next(c)
			if err == nil {
				sendsHeader(c)
			}
			return err
		}
	}}
}

const replicaCookie = "replica"

// PreferByCookie returns a number that a browser keeps, so that it reads one
// replica for as long as that is up. It says nothing of who the browser's user is.
func PreferByCookie(c echo.Context) uint64 {
	if n, err := strconv.ParseUint(cookie(c, replicaCookie), 10, 16); err == nil {
		return n
	}
	n := rand.N(uint64(1 << 16))
	setCookie(c, replicaCookie, strconv.FormatUint(n, 10), int(foreverAge/time.Second))
	return n
}

// tellServers tells who answered. What the guard reads is no part of the answer,
// and so is only among the timings.
func tellServers(h http.Header, guard, accesses []dbroute.Access) {
	var ids []string
	for _, a := range accesses {
		if id := strconv.Itoa(a.ServerID); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		h.Set("X-Server-Id", strings.Join(ids, ", "))
	}
	tellTimings(h, slices.Concat(guard, accesses))
}

func tellTimings(h http.Header, accesses []dbroute.Access) {
	var timings []string
	for _, a := range accesses {
		timings = append(timings, fmt.Sprintf(`%s;dur=%.3f;desc="server %d, %s, %s"`,
			a.Name, float64(a.Duration.Microseconds())/1000, a.ServerID, a.Role, a.Reason))
	}
	if len(timings) > 0 {
		h.Add("Server-Timing", strings.Join(timings, ", "))
	}
}
