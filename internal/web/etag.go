package web

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
)

// ETag is the entity tag of a version.
func ETag(version int) string { return fmt.Sprintf(`"%d"`, version) }

// etag is an entity tag as in RFC 9110, section 8.8.3, which may hold a comma, and
// etagList what If-Match holds, 13.1.1.
var (
	etag     = regexp.MustCompile(`(W/)?"[!#-~]*"`)
	etagList = regexp.MustCompile(fmt.Sprintf(`^%[1]s([ \t]*,[ \t]*%[1]s)*$`, etag))
)

// Versions is what a change may be made to; Any if it may be made to whatever is
// there.
type Versions []int

// Any is every version.
var Any = Versions(nil)

// Has reports whether a change may be made to this version.
func (v Versions) Has(version int) bool { return v == nil || slices.Contains(v, version) }

// IfMatch reads to which versions a change may be made. Without the header it
// is ErrVersionRequired.
func IfMatch(c echo.Context) (Versions, error) {
	header := headerList(c, "If-Match")
	switch {
	case header == "":
		return nil, ErrVersionRequired
	case header == "*":
		return Any, nil
	case !etagList.MatchString(header):
		return nil, Explain(ErrBadRequest, `If-Match: want ETags, as in "3", or *.`)
	}
	versions := Versions{}
	for _, tag := range etag.FindAllString(header, -1) {
		// What is not to the letter a tag of ours matches no version.
		if n, err := strconv.Atoi(strings.Trim(tag, `"`)); err == nil && ETag(n) == tag {
			versions = append(versions, n)
		}
	}
	return versions, nil
}

// headerList returns a header that holds a list, however many lines it took.
func headerList(c echo.Context, name string) string {
	return strings.TrimSpace(strings.Join(c.Request().Header.Values(name), ", "))
}
