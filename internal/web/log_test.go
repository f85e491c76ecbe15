package web

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/templates"
)

// newEchoAlone returns an echo whose database is not there.
func newEchoAlone(t *testing.T, log *slog.Logger) *echo.Echo {
	t.Helper()
	cluster, err := dbroute.Open(dbroute.Config{Name: "main", Primary: "postgres://localhost"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	html, err := NewRenderer(cluster, templates.Files, templates.Site{})
	if err != nil {
		t.Fatal(err)
	}
	return NewEcho(log, cluster, html, false)
}

func TestEachFailureIsLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	e := newEchoAlone(t, slog.New(LogHandler(slog.NewTextHandler(&out, nil))))
	boom := errors.New("boom")
	for path, handler := range map[string]echo.HandlerFunc{
		"/error":      func(echo.Context) error { return boom },
		"/panic":      func(echo.Context) error { panic(boom) },
		"/panic-404":  func(echo.Context) error { panic(ErrNotFound) },
		"/late-error": func(c echo.Context) error { c.String(http.StatusOK, "ok"); return boom },
		"/late-panic": func(c echo.Context) error { c.String(http.StatusOK, "ok"); panic(boom) },
		"/not-found":  func(echo.Context) error { return ErrNotFound },
		"/fine":       func(c echo.Context) error { return c.String(http.StatusOK, "ok") },
	} {
		e.GET(path, handler)
	}
	for path, want := range map[string]struct {
		status int
		level  string
	}{
		"/error": {500, "ERROR"}, "/panic": {500, "ERROR"}, "/panic-404": {500, "ERROR"},
		"/late-error": {200, "ERROR"}, "/late-panic": {200, "ERROR"},
		"/not-found": {404, "INFO"}, "/nowhere": {404, "INFO"}, "/fine": {200, "INFO"},
	} {
		out.Reset()
		response := httptest.NewRecorder()
		e.ServeHTTP(response, httptest.NewRequest(http.MethodGet, path, nil))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if response.Code != want.status || len(lines) != 1 || !strings.Contains(lines[0], "level="+want.level) {
			t.Errorf("%s: %d, log:\n%s", path, response.Code, out.String())
		}
		if want.level == "ERROR" != strings.Contains(lines[0], "error=") {
			t.Errorf("%s: log: %s", path, lines[0])
		}
		if id := response.Header().Get("X-Request-Id"); !strings.Contains(lines[0], "request_id="+id) {
			t.Errorf("%s: log of request %s: %s", path, id, lines[0])
		}
	}
}
