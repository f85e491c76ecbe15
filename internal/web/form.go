package web

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"
)

// Form returns the fields of a form that was sent in the body.
func Form(c echo.Context) (url.Values, error) {
	_, err := c.FormParams()
	var httpErr *echo.HTTPError
	switch {
	case errors.As(err, &httpErr): // the body limit
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	return c.Request().PostForm, nil
}

// Text returns what was typed into a field of several lines, with line ends as
// \n. It is not ok if databases would refuse it: bytes that are no text.
func Text(field string) (text string, ok bool) {
	text = strings.TrimSpace(strings.ReplaceAll(field, "\r\n", "\n"))
	return text, utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// Line is Text for a field of one line.
func Line(field string) (line string, ok bool) {
	line, ok = Text(field)
	return strings.Join(strings.Fields(line), " "), ok
}
