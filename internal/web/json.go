package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
)

// Decode reads a request's JSON body into a T. A field that T does not have is
// refused: it is most likely misspelt.
func Decode[T any](c echo.Context) (T, error) {
	var into T
	if kind, _, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType)); err != nil || kind != echo.MIMEApplicationJSON {
		return into, fmt.Errorf("%w: %q", ErrMediaType, c.Request().Header.Get(echo.HeaderContentType))
	}
	body, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return into, readError(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&into)
	switch {
	case !utf8.Valid(body):
		return into, Explain(ErrBadRequest, "The body is not UTF-8.")
	case err != nil:
		return into, decodeError(err)
	case decoder.Decode(new(any)) != io.EOF:
		return into, Explain(ErrBadRequest, "There is something after the JSON document.")
	}
	return into, nil
}

// readError tells the body limit, which echo reports, from a client that went
// away.
func readError(err error) error {
	var httpErr *echo.HTTPError
	if errors.As(err, &httpErr) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrBadRequest, err)
}

func decodeError(err error) error {
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return Invalid(wrongType.Field, "This has to be "+kindName(wrongType.Type.Kind())+".")
	case errors.As(err, &wrongType):
		return Explain(ErrBadRequest, "The body has to be a JSON object.")
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return Explain(ErrBadRequest, "There is no field "+field+".")
	}
	return Explain(ErrBadRequest, fmt.Sprintf("The body is not JSON: %v.", err))
}

// kindName calls what a field has to be as JSON does.
func kindName(kind reflect.Kind) string {
	switch kind {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	case reflect.Int:
		return "a whole number"
	}
	return "of another type"
}

// Answer is a JSON response that is not sent yet.
type Answer struct {
	Status   int
	Location string // of what was created
	ETag     string // names the version, for If-Match
	Body     any    // nil for none
}

// Send sends the answer, and the whole of it whatever If-None-Match says: an author's
// new name, or the server that answered, makes no new version.
func (a Answer) Send(c echo.Context) error {
	h := c.Response().Header()
	h.Set("Cache-Control", "no-store")
	if a.Location != "" {
		h.Set(echo.HeaderLocation, a.Location)
	}
	if a.ETag != "" {
		h.Set("ETag", a.ETag)
	}
	if a.Body == nil {
		return c.NoContent(a.Status)
	}
	body, err := EncodeJSON(a.Body)
	if err != nil {
		return err
	}
	return c.JSONBlob(a.Status, body)
}

// EncodeJSON writes addresses as they are, with no escapes that are for HTML.
func EncodeJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return out.Bytes(), nil
}

// served is where Scope leaves the scope of a request that tells who answered.
const served = "served"

// ServerID is the server that the latest read or write of a request used, for
// the field server_id; 0 if there was none, or if that is not to be told.
func ServerID(c echo.Context) int {
	scope, ok := c.Get(served).(*dbroute.Scope)
	if !ok {
		return 0
	}
	accesses := scope.Accesses()
	if len(accesses) == 0 {
		return 0
	}
	return accesses[len(accesses)-1].ServerID
}

// BeforeQuery reads the place in a list, 0 if there is none.
func BeforeQuery(c echo.Context) (int64, error) {
	return positive(c, "before", 0)
}

// How many there are in a part of a list.
const (
	standardLimit = 20
	mostLimit     = 100
)

// PartQuery reads which part of a list a program wants.
func PartQuery(c echo.Context) (before int64, limit int, err error) {
	if before, err = BeforeQuery(c); err != nil {
		return 0, 0, err
	}
	n, err := positive(c, "limit", standardLimit)
	return before, int(min(n, mostLimit)), err
}

func positive(c echo.Context, name string, standard int64) (int64, error) {
	text := c.QueryParam(name)
	if text == "" {
		return standard, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, Explain(ErrBadRequest, name+" has to be a positive number.")
	}
	return n, nil
}

// Next leads to the rest of a list, in the header Link and in the field next;
// nil if there is no rest. It keeps the request's other parameters.
func Next(c echo.Context, before int64) *string {
	if before == 0 {
		return nil
	}
	query := c.QueryParams()
	query.Set("before", strconv.FormatInt(before, 10))
	next := c.Request().URL.Path + "?" + query.Encode()
	c.Response().Header().Set("Link", fmt.Sprintf(`<%s>; rel="next"`, next))
	return &next
}

// Split cuts a list that was read with one more than limit, and returns the key of
// the last that is left, or 0 if there is no rest.
func Split[T any](list []T, limit int, key func(T) int64) ([]T, int64) {
	if len(list) <= limit {
		return list, 0
	}
	return list[:limit], key(list[limit-1])
}
