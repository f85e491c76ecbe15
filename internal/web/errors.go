package web

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/templates"
)

// Problem is what the user is told of an error. It never quotes the error.
type Problem struct {
	Status int
	Title  string
	Text   string
}

var (
	// ErrBadRequest is a request that no link or form of the site makes.
	ErrBadRequest = errors.New("bad request")
	// ErrNotFound is something that does not exist, or no longer.
	ErrNotFound = errors.New("not found")
	// ErrLogInRequired is a visitor where only users may be.
	ErrLogInRequired = errors.New("log-in required")
	// ErrForbidden is a user where only others may be.
	ErrForbidden = errors.New("forbidden")
)

// statusClientGone is what proxies log for a client that did not wait. It is no
// failure of ours.
const statusClientGone = 499

// problems are told by errors.Is, the first that matches.
var problems = []struct {
	err     error
	problem Problem
}{
	{dbroute.ErrPrimaryUnavailable, Problem{http.StatusServiceUnavailable, "The primary cannot be reached", "Saving, and reading what you have just saved, must wait until it is back. Please try again in a moment."}},
	{dbroute.ErrCommitUnknown, Problem{http.StatusServiceUnavailable, "It may have been saved", "The connection broke after your change was sent and before the database answered. Look whether it is there before you save again."}},
	{context.Canceled, Problem{statusClientGone, "The request was cancelled", "Its sender did not wait for the answer."}},
	{context.DeadlineExceeded, Problem{http.StatusServiceUnavailable, "That took too long", "The database is busy. Please try again in a moment."}},
	{ErrNotFound, Problem{http.StatusNotFound, "There is nothing here", "The page does not exist, or it was deleted."}},
	{ErrLogInRequired, Problem{http.StatusUnauthorized, "You are not logged in", "Log in in another tab, and then send this again."}},
	{ErrForbidden, Problem{http.StatusForbidden, "This is not yours to see or change", "Posts and comments are changed by those who wrote them, and the inside of the site is for its admins."}},
	{ErrBadRequest, Problem{http.StatusBadRequest, "The request could not be understood", "No link or form of this site makes such a request."}},
}

var statusProblems = map[int]Problem{
	http.StatusBadRequest:            {Title: "The request could not be understood", Text: "Go back and try again."},
	http.StatusForbidden:             {Title: "This form was sent from another site", Text: "For your safety it was not accepted. Open the page here and send it again."},
	http.StatusMethodNotAllowed:      {Title: "That cannot be done here", Text: "This address exists, but not for this kind of request."},
	http.StatusRequestEntityTooLarge: {Title: "That is too much text", Text: "The form was larger than we accept. Shorten it and send it again."},
	http.StatusInternalServerError:   {Title: "Something went wrong on our side", Text: "It has been logged. Please try again in a moment."},
}

// onPage is an error to be shown on the page that the user was on, so that what
// was typed there is not lost.
type onPage struct {
	err  error
	name string
	page Page
}

func (e *onPage) Error() string { return e.err.Error() }
func (e *onPage) Unwrap() error { return e.err }

// OnPage shows err, when it is handled, on pages/NAME.html instead of the
// general error page.
func OnPage(err error, name string, page Page) error { return &onPage{err, name, page} }

// errorHandler is the one place where errors become statuses.
type errorHandler struct {
	renderer *Renderer
	log      *slog.Logger
}

// handle has the signature of echo.HTTPErrorHandler.
func (h *errorHandler) handle(err error, c echo.Context) {
	if c.Response().Committed || h.problem(err).Status >= http.StatusInternalServerError {
		c.Set(errorKey, err) // for the request's log line
	}
	if c.Response().Committed {
		return
	}
	if renderErr := h.render(err, c); renderErr != nil && !c.Response().Committed {
		h.log.ErrorContext(c.Request().Context(), "error page not rendered", "error", renderErr)
		c.String(http.StatusInternalServerError, "Something went wrong on our side.\n")
	}
}

func (h *errorHandler) render(err error, c echo.Context) error {
	p := h.problem(err)
	if after, ok := retryAfter(err); ok {
		c.Response().Header().Set(echo.HeaderRetryAfter, strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
	if wantsJSON(c.Request()) {
		return problemJSON(c, p)
	}
	if errors.Is(err, ErrLogInRequired) && c.Request().Method == http.MethodGet {
		return c.Redirect(http.StatusSeeOther, "/login?next="+url.QueryEscape(c.Request().URL.RequestURI()))
	}
	var shown *onPage
	if errors.As(err, &shown) {
		base := shown.page.Common()
		base.Problem = &templates.Problem{Title: p.Title, Text: p.Text}
		return h.renderer.HTML(c, p.Status, shown.name, shown.page)
	}
	page := &templates.ErrorPage{Status: p.Status, Text: p.Text}
	page.Title = p.Title
	if p.Status >= 500 || p.Status == http.StatusUnauthorized || p.Status == http.StatusTooManyRequests {
		page.Again = sentForm(c)
	}
	return h.renderer.HTML(c, p.Status, "error", page)
}

func (h *errorHandler) problem(err error) Problem {
	var httpErr *echo.HTTPError
	if errors.As(err, &httpErr) && httpErr.Code == http.StatusNotFound {
		err = ErrNotFound // echo's own, for an address without a route
	}
	if after, ok := retryAfter(err); ok {
		return tooOften(after)
	}
	for _, known := range problems {
		if errors.Is(err, known.err) {
			return known.problem
		}
	}
	status := http.StatusInternalServerError
	if httpErr != nil {
		status = httpErr.Code
	}
	p, ok := statusProblems[status]
	if !ok {
		p = Problem{Title: http.StatusText(status), Text: "The request was not accepted."}
	}
	p.Status = status
	return p
}

// hiddenFields are those that nobody typed.
var hiddenFields = []string{"back", "next", "version"}

// sentForm returns the form of a request that may be sent again as it was, so
// that what was typed is not lost even if no handler has seen it. Passwords are
// not repeated to anybody.
func sentForm(c echo.Context) *templates.Again {
	if c.Request().Method != http.MethodPost {
		return nil
	}
	fields, err := Form(c)
	if err != nil {
		return nil
	}
	again := &templates.Again{Action: c.Request().URL.Path}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == "password" || name == "current" {
			return nil
		}
		again.Typed = again.Typed || !slices.Contains(hiddenFields, name)
		again.Fields = append(again.Fields, templates.Field{
			Name: name, Value: fields.Get(name), Hidden: slices.Contains(hiddenFields, name),
		})
	}
	return again
}

func wantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "json") && !strings.Contains(accept, "text/html")
}

// problemJSON answers with a problem document, RFC 9457.
func problemJSON(c echo.Context, p Problem) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	c.Response().Header().Set(echo.HeaderContentType, "application/problem+json")
	return c.JSON(p.Status, struct {
		Title     string `json:"title"`
		Status    int    `json:"status"`
		Detail    string `json:"detail"`
		RequestID string `json:"request_id"`
	}{p.Title, p.Status, p.Text, requestID(c.Request().Context())})
}
