package web

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
)

// Scope gives each request its scope. With show it also tells in the response
// header which servers answered: X-Server-Id has the distinct ids in order of
// first use, Server-Timing each read and write.
func Scope(cluster *dbroute.Cluster, show bool) Middleware {
	return Middleware{"Scope", func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			ctx, scope := cluster.NewScope(c.Request().Context())
			c.SetRequest(c.Request().WithContext(ctx))
			if show {
				beforeHeader(c, func(h http.Header) { tellServers(h, scope.Accesses()) })
			}
			err := next(c)
			if err == nil {
				sendsHeader(c)
			}
			return err
		}
	}}
}

func tellServers(h http.Header, accesses []dbroute.Access) {
	var ids, timings []string
	seen := map[int]bool{}
	for _, a := range accesses {
		if !seen[a.ServerID] {
			seen[a.ServerID] = true
			ids = append(ids, strconv.Itoa(a.ServerID))
		}
		timings = append(timings, fmt.Sprintf(`%s;dur=%.3f;desc="server %d, %s, %s"`,
			a.Name, float64(a.Duration.Microseconds())/1000, a.ServerID, a.Role, a.Reason))
	}
	if len(ids) > 0 {
		h.Set("X-Server-Id", strings.Join(ids, ", "))
		h.Set("Server-Timing", strings.Join(timings, ", "))
	}
}
