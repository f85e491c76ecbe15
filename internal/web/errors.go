package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// API is what a program is told in place of Text, where that speaks of pages.
	API string
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
	// ErrUnauthorized is a call of the API without a valid token, where it needs one.
	ErrUnauthorized = errors.New("no valid token")
	// ErrInvalid is a request that is well-formed and cannot be done as it is.
	ErrInvalid = errors.New("invalid")
	// ErrConflict is a request that what is there already excludes.
	ErrConflict = errors.New("conflict")
	// ErrChanged is a change to a version that is no longer the current one.
	ErrChanged = errors.New("changed meanwhile")
	// ErrVersionRequired is a change that does not say to which version.
	ErrVersionRequired = errors.New("version required")
	// ErrBusy is something that too many do at this moment.
	ErrBusy = errors.New("busy")
	// ErrUnavailable is something that cannot be done now, or not on this site.
	ErrUnavailable = errors.New("unavailable")
	// ErrMediaType is a body in a format that is not understood.
	ErrMediaType = errors.New("unsupported media type")
)

// Explain returns err with a text for whoever made the request, in place of the
// general one.
func Explain(err error, text string) error { return &explained{err, text} }

type explained struct {
	err  error
	text string
}

func (e *explained) Error() string { return fmt.Sprintf("%v: %s", e.err, e.text) }
func (e *explained) Unwrap() error { return e.err }

// Invalid returns an ErrInvalid that tells what is wrong with fields of a JSON
// body. It takes pairs of a field's name and its problem, and is nil if no
// problem is told.
func Invalid(pairs ...string) error {
	var wrong invalid
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			wrong = append(wrong, fieldProblem{Pointer: "#/" + pairs[i], Detail: pairs[i+1]})
		}
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, &wrong)
}

// fieldProblem points into the body as RFC 9457 shows it.
type fieldProblem struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

type invalid []fieldProblem

func (v *invalid) Error() string { return fmt.Sprint(*v) }

// statusClientGone is what proxies log for a client that did not wait. It is no
// failure of ours.
const statusClientGone = 499

// problems are told by errors.Is, the first that matches.
var problems = []struct {
	err     error
	problem Problem
}{
	{dbroute.ErrPrimaryUnavailable, Problem{Status: http.StatusServiceUnavailable, Title: "The primary cannot be reached", Text: "Saving, and reading what you have just saved, must wait until it is back. Please try again in a moment."}},
	{dbroute.ErrCommitUnknown, Problem{Status: http.StatusServiceUnavailable, Title: "It may have been saved",
		Text: "The connection broke after your change was sent and before the database answered. Look whether it is there before you save again.",
		API:  "The connection broke after the change was sent and before the database answered. With the same Idempotency-Key it is safe to send it again."}},
	{dbroute.ErrContended, Problem{Status: http.StatusServiceUnavailable, Title: "Others are changing the same", Text: "Nothing was saved. Please try again in a moment."}},
	{ErrBusy, Problem{Status: http.StatusTooManyRequests, Title: "There is no room at the moment", Text: "Please try again in a moment."}},
	{ErrUnavailable, Problem{Status: http.StatusServiceUnavailable, Title: "Not now", Text: "Please try again in a moment."}},
	{context.Canceled, Problem{Status: statusClientGone, Title: "The request was cancelled", Text: "Its sender did not wait for the answer."}},
	{context.DeadlineExceeded, Problem{Status: http.StatusServiceUnavailable, Title: "That took too long", Text: "The database is busy. Please try again in a moment."}},
	{ErrNotFound, Problem{Status: http.StatusNotFound, Title: "There is nothing here",
		Text: "The page does not exist, or it was deleted.", API: "It does not exist, or it was deleted. The page /api tells what there is."}},
	{ErrLogInRequired, Problem{Status: http.StatusUnauthorized, Title: "You are not logged in", Text: "Log in in another tab, and then send this again."}},
	{ErrUnauthorized, Problem{Status: http.StatusUnauthorized, Title: "This needs a valid token", Text: "Send it as Authorization: Bearer TOKEN. The page /tokens and POST /api/tokens make one."}},
	{ErrForbidden, Problem{Status: http.StatusForbidden, Title: "This is not yours to see or change", Text: "Posts and comments are changed by those who wrote them, and the inside of the site is for its admins."}},
	{ErrChanged, Problem{Status: http.StatusPreconditionFailed, Title: "It was changed meanwhile", Text: "Get it again, and send your change with its new ETag in If-Match."}},
	{ErrVersionRequired, Problem{Status: http.StatusPreconditionRequired, Title: "Say which version you change", Text: "Send If-Match with the ETag of what you have read, or If-Match: * to replace whatever is there."}},
	{ErrMediaType, Problem{Status: http.StatusUnsupportedMediaType, Title: "Only JSON is understood", Text: "Send the body with Content-Type: application/json."}},
	{ErrConflict, Problem{Status: http.StatusConflict, Title: "There is one already", Text: "What is there excludes what you have sent."}},
	{ErrInvalid, Problem{Status: http.StatusUnprocessableEntity, Title: "This cannot be saved as it is", Text: "What is wrong is told in errors."}},
	{ErrBadRequest, Problem{Status: http.StatusBadRequest, Title: "The request could not be understood",
		Text: "No link or form of this site makes such a request.", API: "The page /api tells what is."}},
}

var statusProblems = map[int]Problem{
	http.StatusBadRequest:            {Title: "The request could not be understood", Text: "Go back and try again.", API: "The page /api tells what is."},
	http.StatusForbidden:             {Title: "This form was sent from another site", Text: "For your safety it was not accepted. Open the page here and send it again."},
	http.StatusMethodNotAllowed:      {Title: "That cannot be done here", Text: "This address exists, but not for this kind of request.", API: "The header Allow names the methods that this address has."},
	http.StatusRequestEntityTooLarge: {Title: "That is too much text", Text: "The form was larger than we accept. Shorten it and send it again.", API: "A body has at most 512 KiB."},
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
	after, ok := retryAfter(err)
	if !ok && p.Status == http.StatusServiceUnavailable {
		after, ok = restartTime, true
	}
	if ok {
		c.Response().Header().Set(echo.HeaderRetryAfter, strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
	if isAPI(c.Request()) || wantsJSON(c.Request()) {
		return problemJSON(c, p, err)
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
	switch {
	case p.Status >= 500 || p.Status == http.StatusUnauthorized || p.Status == http.StatusTooManyRequests:
		page.Again = sentForm(c)
	case p.Status == http.StatusNotFound, errors.Is(err, ErrForbidden): // again it would be the same, but what was typed may serve elsewhere
		if kept := sentForm(c); kept != nil && kept.Typed {
			page.Kept = kept.Fields
		}
	}
	return h.renderer.HTML(c, p.Status, "error", page)
}

// problem returns what is told of err, with err's own explanation if it has one.
func (h *errorHandler) problem(err error) Problem {
	p := general(err)
	var own *explained
	if errors.As(err, &own) {
		p.Text, p.API = own.text, ""
	}
	return p
}

func general(err error) Problem {
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
		hidden := slices.Contains(hiddenFields, name)
		again.Typed = again.Typed || !hidden
		for _, value := range fields[name] {
			again.Fields = append(again.Fields, templates.Field{Name: name, Value: value, Hidden: hidden})
		}
	}
	return again
}

func wantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "json") && !strings.Contains(accept, "text/html")
}

// isAPI reports whether a request is a program's; /api itself is a page.
func isAPI(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/") }

// restartTime is how long a primary that restarts is away.
const restartTime = 2 * time.Second

// problemJSON answers with a problem document, RFC 9457.
func problemJSON(c echo.Context, p Problem, err error) error {
	h := c.Response().Header()
	h.Set("Cache-Control", "no-store")
	h.Set(echo.HeaderContentType, "application/problem+json")
	if p.Status == http.StatusUnauthorized {
		h.Set(echo.HeaderWWWAuthenticate, "Bearer")
	}
	document := struct {
		Title     string   `json:"title"`
		Status    int      `json:"status"`
		Detail    string   `json:"detail"`
		Errors    *invalid `json:"errors,omitempty"`
		RequestID string   `json:"request_id"`
	}{p.Title, p.Status, cmp.Or(p.API, p.Text), nil, requestID(c.Request().Context())}
	errors.As(err, &document.Errors)
	return c.JSON(p.Status, document)
}
