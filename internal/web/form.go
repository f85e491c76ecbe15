package web

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
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

// CheckText cleans a field of several lines that must not be empty, and says
// what is wrong with it to the person who typed it. What it returns can always
// be shown again. The limit is in characters.
func CheckText(typed, name string, limit int) (text, problem string) {
	return check(Text, typed, name, limit)
}

// CheckLine is CheckText for a field of one line.
func CheckLine(typed, name string, limit int) (line, problem string) {
	return check(Line, typed, name, limit)
}

func check(clean func(string) (string, bool), typed, name string, limit int) (value, problem string) {
	value, ok := clean(typed)
	switch n := utf8.RuneCountInString(value); {
	case !ok:
		return value, fmt.Sprintf("The %s has characters that are not text. Please remove them.", name)
	case n == 0:
		return value, fmt.Sprintf("Please write a %s.", name)
	case n > limit:
		return value, fmt.Sprintf("The %s has %d characters. At most %d fit.", name, n, limit)
	}
	return value, ""
}

// LocalPath returns path if it is one of this site, else the front page: a form
// must not send anybody elsewhere.
func LocalPath(path string) string {
	// Browsers take a backslash for a slash and drop line ends and tabs. With other control
	// characters the header Location would be malformed.
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.Contains(path, `\`) || strings.ContainsFunc(path, unicode.IsControl) {
		return "/"
	}
	return path
}
