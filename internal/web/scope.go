package web

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
)

// Scope gives each request its scope, and one on each of the clusters beside. With
// show it also tells in the response header which servers answered: X-Server-Id has
// the distinct ids of the cluster in order of first use, Server-Timing each read and
// write of all.
func Scope(cluster *dbroute.Cluster, show bool, beside ...*dbroute.Cluster) Middleware {
	return Middleware{"Scope", func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			ctx, scope := cluster.NewScope(c.Request().Context())
			for _, other := range beside {
				ctx, _ = other.NewScope(ctx)
			}
			c.SetRequest(c.Request().WithContext(ctx))
			if cluster.Replicas() > 1 {
				scope.Prefer(preference(c, "replica."+cluster.Name()))
			}
			if show {
				beforeHeader(c, func(h http.Header) {
					tellServers(h, scope.Accesses())
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

// preference is a number that a browser keeps, so that it reads one replica for
// as long as that is up. It says nothing of who the browser's user is.
func preference(c echo.Context, name string) uint64 {
	if cookie, err := c.Cookie(name); err == nil {
		if n, err := strconv.ParseUint(cookie.Value, 10, 16); err == nil {
			return n
		}
	}
	n := rand.N(uint64(1 << 16))
	setCookie(c, name, strconv.FormatUint(n, 10), int(foreverAge/time.Second))
	return n
}

func tellServers(h http.Header, accesses []dbroute.Access) {
	var ids []string
	seen := map[int]bool{}
	for _, a := range accesses {
		if !seen[a.ServerID] {
			seen[a.ServerID] = true
			ids = append(ids, strconv.Itoa(a.ServerID))
		}
	}
	if len(ids) > 0 {
		h.Set("X-Server-Id", strings.Join(ids, ", "))
	}
	tellTimings(h, accesses)
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
