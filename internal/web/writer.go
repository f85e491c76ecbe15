package web

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// headerWriter runs its hooks just before the response header is sent, however
// that comes about: a status, a first byte of the body, a flush, a redirect, an
// error page after a panic. Echo's own Response.Before misses a flush.
type headerWriter struct {
	http.ResponseWriter
	hooks   []func(http.Header)
	sent    bool // the hooks have run
	flushed bool // the header is out, with a 200 that nobody has asked for
}

// beforeHeader registers fn to run just before the response header is sent. It
// must not do I/O: the client is waiting, and may be gone.
func beforeHeader(c echo.Context, fn func(http.Header)) {
	w, ok := c.Response().Writer.(*headerWriter)
	if !ok {
		w = &headerWriter{ResponseWriter: c.Response().Writer}
		c.Response().Writer = w
	}
	w.hooks = append(w.hooks, fn)
}

// sendsHeader is for a handler that returned without writing anything, for
// which net/http sends a 200 once all handlers are done.
func sendsHeader(c echo.Context) {
	if w, ok := c.Response().Writer.(*headerWriter); ok {
		w.runHooks()
	}
}

func headerSent(c echo.Context) bool {
	w, ok := c.Response().Writer.(*headerWriter)
	return ok && w.sent
}

func (w *headerWriter) runHooks() {
	if w.sent {
		return
	}
	w.sent = true
	for _, fn := range w.hooks {
		fn(w.Header())
	}
}

func (w *headerWriter) WriteHeader(status int) {
	if w.flushed {
		return
	}
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.runHooks()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *headerWriter) Write(b []byte) (int, error) {
	w.runHooks()
	return w.ResponseWriter.Write(b)
}

// FlushError is what http.ResponseController calls.
func (w *headerWriter) FlushError() error {
	w.flushed = w.flushed || !w.sent
	w.runHooks()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap serves http.ResponseController's other methods.
func (w *headerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
