package web

import (
	"context"
	"crypto/rand"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
)

type requestIDKey struct{}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// LogHandler adds the request id to whatever is logged with a request's
// context, also by packages that know nothing of HTTP.
func LogHandler(inner slog.Handler) slog.Handler { return logHandler{inner} }

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := requestID(ctx); id != "" {
		r.AddAttrs(slog.String("request_id", id))
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }

const (
	requestIDHeader = "X-Request-Id"
	errorKey        = "error" // where the error handler leaves the error for the log line
)

var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// identify gives each request an id, its proxy's if that is a decent one.
func identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := c.Request().Header.Get(requestIDHeader)
		if !requestIDForm.MatchString(id) {
			id = strings.ToLower(rand.Text()[:16])
		}
		c.Response().Header().Set(requestIDHeader, id)
		ctx := context.WithValue(c.Request().Context(), requestIDKey{}, id)
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}

// logRequests writes one line per request, with every read and why it went
// where it went. Errors are handled here, so that the line has their status.
func logRequests(log *slog.Logger, clusters []*dbroute.Cluster) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			start := time.Now()
			if err := next(c); err != nil {
				c.Error(err)
			}
			level := slog.LevelInfo
			attrs := []slog.Attr{
				slog.String("method", c.Request().Method),
				slog.String("path", c.Request().URL.Path),
				slog.Int("status", c.Response().Status),
				slog.Duration("duration", time.Since(start)),
			}
			ctx := c.Request().Context()
			if guard := guardAccesses(ctx); len(guard) > 0 {
				attrs = append(attrs, slog.Any("guard", describe(guard)))
			}
			var reads []string
			for _, cluster := range clusters {
				if scope := cluster.Scope(ctx); scope != nil {
					reads = append(reads, describe(scope.Accesses())...)
				}
			}
			if len(reads) > 0 {
				attrs = append(attrs, slog.Any("reads", reads))
			}
			if err, ok := c.Get(errorKey).(error); ok {
				level = slog.LevelError
				attrs = append(attrs, slog.Any("error", err))
			}
			log.LogAttrs(ctx, level, "request", attrs...)
			return nil
		}
	}
}

func describe(accesses []dbroute.Access) []string {
	lines := make([]string, len(accesses))
	for i, a := range accesses {
		lines[i] = a.Name + ": server " + strconv.Itoa(a.ServerID) + " (" + string(a.Role) + "), " + string(a.Reason)
	}
	return lines
}
