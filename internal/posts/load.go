package posts

import (
	"context"

	"github.com/labstack/echo/v4"

	"freshread/internal/web"
)

type postKey struct{}

// Load is the middleware that loads the post named by the route. It reads, so
// it must come after the strategy: before it, it would load the post from
// wherever the strategy has not yet said.
func Load(store *Store) web.Middleware {
	return web.Middleware{Name: "posts.Load", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			id, err := web.IDParam(c, "id")
			if err != nil {
				return err
			}
			ctx := c.Request().Context()
			post, err := store.ByID(ctx, id)
			if err != nil {
				return err
			}
			c.SetRequest(c.Request().WithContext(context.WithValue(ctx, postKey{}, post)))
			return next(c)
		}
	}}
}

// loaded returns the post that Load has put there.
func loaded(c echo.Context) Post {
	return c.Request().Context().Value(postKey{}).(Post)
}
