package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
)

// Whatever went wrong, the user is told what it means, and never the error.
func TestErrorsInTheUsersWords(t *testing.T) {
	e := newEchoAlone(t, slog.New(slog.DiscardHandler))
	for i, c := range []struct {
		err    error
		status int
		title  string
	}{
		{dbroute.ErrPrimaryUnavailable, 503, "The primary cannot be reached"},
		{dbroute.ErrCommitUnknown, 503, "It may have been saved"},
		{dbroute.ErrContended, 503, "Others are changing the same"},
		{context.DeadlineExceeded, 503, "That took too long"},
		{ErrNotFound, 404, "There is nothing here"},
		{ErrForbidden, 403, "This is not yours to see or change"},
		{ErrBadRequest, 400, "The request could not be understood"},
		{echo.ErrStatusRequestEntityTooLarge, 413, "That is too much text"},
		{echo.NewHTTPError(http.StatusTeapot), 418, "I'm a teapot"},
		{context.Canceled, 499, "The request was cancelled"},
		{http.ErrNotSupported, 500, "Something went wrong on our side"},
	} {
		path := fmt.Sprint("/", i)
		e.GET(path, func(echo.Context) error { return fmt.Errorf("secret detail: %w", c.err) })
		for _, accept := range []string{"text/html", "application/json"} {
			request := httptest.NewRequest(http.MethodGet, path, nil)
			request.Header.Set("Accept", accept)
			response := httptest.NewRecorder()
			e.ServeHTTP(response, request)
			body := response.Body.String()
			page, err := goquery.NewDocumentFromReader(strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			title := page.Find("h1").Text()
			if accept == "application/json" && response.Header().Get("Content-Type") == "application/problem+json" {
				_, title, _ = strings.Cut(body, `"title":"`)
				title, _, _ = strings.Cut(title, `"`)
			}
			if response.Code != c.status || title != c.title || strings.Contains(body, "secret detail") {
				t.Errorf("%v as %s: %d %q\n%s", c.err, accept, response.Code, title, body)
			}
		}
	}
}

// A form that is sent again from an error page sends every value of every field.
func TestFormSentAgainIsWhole(t *testing.T) {
	e := newEchoAlone(t, slog.New(slog.DiscardHandler))
	sent := url.Values{"name": {"agent"}, "ability": {"read", "write"}, "days": {""}, "back": {"/a", "/b"}}
	for i, err := range []error{dbroute.ErrPrimaryUnavailable, ErrLogInRequired, limited(time.Second), http.ErrNotSupported} {
		path := fmt.Sprint("/", i)
		e.POST(path, func(echo.Context) error { return err })
		request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(sent.Encode()))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response := httptest.NewRecorder()
		e.ServeHTTP(response, request)
		page, parseErr := goquery.NewDocumentFromReader(response.Body)
		if parseErr != nil {
			t.Fatal(parseErr)
		}
		again, ids := url.Values{}, map[string]bool{}
		page.Find("form.again [name]").Each(func(_ int, field *goquery.Selection) {
			again.Add(field.AttrOr("name", ""), field.AttrOr("value", field.Text()))
			if id, ok := field.Attr("id"); ok {
				if ids[id] || page.Find("label[for="+id+"]").Length() != 1 {
					t.Errorf("%v: the id %s is not of one field and its label", err, id)
				}
				ids[id] = true
			}
		})
		if diff := cmp.Diff(sent, again); diff != "" || page.Find("form.again").AttrOr("action", "") != path {
			t.Errorf("%v: what would be sent differs (-sent +again):\n%s", err, diff)
		}
	}
}

type limited time.Duration

func (l limited) Error() string             { return "secret detail" }
func (l limited) RetryAfter() time.Duration { return time.Duration(l) }

func TestWhatWasTooOftenMayComeAgain(t *testing.T) {
	e := newEchoAlone(t, slog.New(slog.DiscardHandler))
	for i, c := range []struct {
		after         time.Duration
		header, words string
	}{
		{time.Microsecond, "1", "Please try again in 1 second."},
		{time.Second, "1", "Please try again in 1 second."},
		{time.Second + 1, "2", "Please try again in 2 seconds."},
		{time.Minute, "60", "Please try again in 1 minute."},
		{90 * time.Second, "90", "Please try again in 90 seconds."},
		{91 * time.Second, "91", "Please try again in 2 minutes."},
		{3 * time.Hour, "10800", "Please try again in 3 hours."},
	} {
		path := fmt.Sprint("/", i)
		e.POST(path, func(echo.Context) error { return fmt.Errorf("save: %w", limited(c.after)) })
		for accept, selector := range map[string]string{"text/html": "section p:nth-of-type(2)", "application/json": "body"} {
			request := httptest.NewRequest(http.MethodPost, path, strings.NewReader("text=What+I+typed"))
			request.Header.Set("Accept", accept)
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			response := httptest.NewRecorder()
			e.ServeHTTP(response, request)
			page, err := goquery.NewDocumentFromReader(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			text := page.Find(selector).Text()
			if response.Code != 429 || response.Header().Get("Retry-After") != c.header || !strings.Contains(text, c.words) || strings.Contains(text, "secret") {
				t.Errorf("%v as %s: %d, Retry-After %s, %q", c.after, accept, response.Code, response.Header().Get("Retry-After"), text)
			}
			if kept := page.Find("textarea").Text(); accept == "text/html" && kept != "What I typed" {
				t.Errorf("what was typed is %q", kept)
			}
		}
	}
}
