package web

import (
	"bytes"
	"net/http"

	"github.com/labstack/echo/v4"
)

// EventStream is the media type of server-sent events.
const EventStream = "text/event-stream"

// BeginEvents makes a response a stream of server-sent events.
func BeginEvents(c echo.Context) {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, EventStream)
	h.Set("Cache-Control", "no-store")
}

// SendEvent sends one at once. It fails once the client is gone, and for a HEAD, whose
// client would never be seen to go.
func SendEvent(c echo.Context, event string, data []byte) error {
	if isHead(c.Request()) {
		return http.ErrBodyNotAllowed
	}
	var message bytes.Buffer
	message.WriteString("event: " + event + "\n")
	for line := range bytes.Lines(data) {
		message.WriteString("data: ")
		message.Write(bytes.TrimRight(line, "\n"))
		message.WriteByte('\n')
	}
	message.WriteByte('\n')
	if _, err := c.Response().Write(message.Bytes()); err != nil {
		return err
	}
	return http.NewResponseController(c.Response()).Flush()
}
