package posts

import (
	"errors"
	"fmt"

	"github.com/labstack/echo/v4"

	"freshread/internal/auth"
	"freshread/internal/web"
)

// Check compares a page with the primary, under the strategies that may be
// stale, so that a demo can say when it is. Its reads are no part of the page.
type Check struct {
	posts *Store
	users *auth.Store
}

// NewCheck returns a check that reads primary-only stores; nil is one that never
// finds anything.
func NewCheck(posts *Store, users *auth.Store) *Check { return &Check{posts, users} }

func (k *Check) applies(c echo.Context) bool {
	return k != nil && web.MayBeStale(c)
}

// post says what the primary already has, or "".
func (k *Check) post(c echo.Context, shown Post) string {
	if !k.applies(c) {
		return ""
	}
	current, err := k.posts.ByID(c.Request().Context(), shown.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		return "on the primary this post is deleted already"
	case err == nil && current.Version > shown.Version:
		return fmt.Sprintf("the primary already has “%s”", current.Title)
	}
	return ""
}

func (k *Check) person(c echo.Context, shown auth.User) string {
	if !k.applies(c) {
		return ""
	}
	return k.users.NewerName(c.Request().Context(), shown)
}
