package auth

import (
	"context"
	"errors"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/internal/web"
	"freshread/templates"
)

type userKey struct{}

// Current returns the signed-in user of a request, or the zero User.
func Current(ctx context.Context) User {
	u, _ := ctx.Value(userKey{}).(User)
	return u
}

// Load is the middleware that loads the signed-in user, for the name in the
// navigation. It reads, so it must come after the strategy: a rename is seen on
// the next page because the marker has been applied by then.
func (g *Guard) Load(users *Store) web.Middleware {
	return web.Middleware{Name: "auth.Load", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			ctx := c.Request().Context()
			found, ok := guardedFrom(ctx)
			if !ok {
				return next(c)
			}
			scope := g.main.Scope(ctx)
			g.WriteFor(ctx, found.userID)
			user, err := g.load(ctx, users, scope, found)
			if err != nil {
				return err
			}
			if o := scope.Outcome(); o.Healed {
				g.cover(ctx, found.userID, found.writes, o.Marker)
			}
			user.Role = found.role // what somebody may do is never read from a replica
			ctx = context.WithValue(ctx, userKey{}, user)
			ctx = web.WithViewer(ctx, templates.Viewer{ID: user.ID, Name: user.Name})
			c.SetRequest(c.Request().WithContext(ctx))
			return next(c)
		}
	}}
}

func (g *Guard) load(ctx context.Context, users *Store, scope *dbroute.Scope, found guarded) (User, error) {
	if found.Owner != nil {
		return *found.Owner, nil
	}
	user, err := users.ByID(ctx, found.userID)
	if errors.Is(err, ErrNotFound) {
		// The guard says there is one, so the replica is what is late.
		scope.Pin()
		user, err = users.ByID(ctx, found.userID)
	}
	return user, err
}

// Required is the middleware for pages that are somebody's own. It sends
// visitors to log in, and back.
func Required() web.Middleware {
	return web.Middleware{Name: "auth.Required", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if Current(c.Request().Context()).ID == 0 {
				return web.ErrLogInRequired
			}
			return next(c)
		}
	}}
}

// Inside is the middleware for pages that show the inside of the site. They are for
// admins, and in a demo for everybody.
func Inside(demo bool) web.Middleware {
	return web.Middleware{Name: "auth.Inside", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			user := Current(c.Request().Context())
			switch {
			case demo || user.Role == Admin:
				return next(c)
			case user.ID == 0:
				return web.ErrLogInRequired
			}
			return web.ErrForbidden
		}
	}}
}
