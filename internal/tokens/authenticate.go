package tokens

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/auth"
	"freshread/internal/dbroute"
	"freshread/internal/web"
)

// Authenticator tells by its token who a request is by. It heeds no cookie.
type Authenticator struct {
	cluster *dbroute.Cluster
	primary *dbroute.Cluster // primary-only
	store   *Store
	signer  *Signer
	guard   *auth.Guard
	log     *slog.Logger
}

// NewAuthenticator returns an authenticator of the users of cluster.
func NewAuthenticator(cluster *dbroute.Cluster, store *Store, signer *Signer, guard *auth.Guard, log *slog.Logger) *Authenticator {
	return &Authenticator{cluster, cluster.PrimaryOnly("tokens"), store, signer, guard, log}
}

// found is a token that a request carries.
type found struct {
	row
	owner *auth.User // if the primary has told
}

type foundKey struct{}

func foundFrom(ctx context.Context) (found, bool) {
	f, ok := ctx.Value(foundKey{}).(found)
	return f, ok
}

// errInvalid does not tell a forged token from a revoked one.
var errInvalid = web.Explain(web.ErrUnauthorized, "The token is misspelt, or it has expired, or it was revoked.")

// Find is the middleware that looks a request's token up: on a replica, which
// nearly always has it; on the primary, together with its owner, where that has
// not heard of it yet. A text that was never a token costs no query.
func (a *Authenticator) Find() web.Middleware {
	return web.Middleware{Name: "tokens.Find", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			text, ok := bearer(c.Request())
			if !ok {
				return next(c)
			}
			id, secret, ok := a.signer.parse(text)
			if !ok {
				return errInvalid
			}
			token, err := a.find(c, id, secret)
			if err != nil {
				return err
			}
			c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), foundKey{}, token)))
			return next(c)
		}
	}}
}

// bearer returns what a request gives as its token; not ok if it gives nothing.
func bearer(r *http.Request) (string, bool) {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		return "", false
	}
	scheme, text, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimSpace(text), true
}

// find asks a replica in a scope of its own: what a replica says of a token that it
// knows is true however late it is, so that there is nothing for a strategy to
// decide. A replica that does not know it pins the request to the primary.
func (a *Authenticator) find(c echo.Context, id int64, secret string) (found, error) {
	ctx := c.Request().Context()
	scope := a.cluster.Scope(ctx)
	scope.Prefer(uint64(id))
	token, complete, err := a.onReplica(c, id)
	switch {
	case err == nil && token.hasSecret(secret):
		return found{row: token}, nil
	case err != nil && !errors.Is(err, ErrNotFound):
		return found{}, err
	case complete:
		return found{}, errInvalid
	}
	scope.Pin()
	token, owner, err := a.store.withOwner(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && !token.hasSecret(secret):
		return found{}, errInvalid
	case err != nil:
		return found{}, err
	}
	return found{row: token, owner: &owner}, nil
}

// onReplica also reports whether it was the primary that answered, for want of a
// replica: then there is nobody else to ask.
func (a *Authenticator) onReplica(c echo.Context, id int64) (token row, complete bool, err error) {
	ctx, scope := a.cluster.NewScope(c.Request().Context())
	scope.Prefer(uint64(id))
	scope.RouteAnywhere(dbroute.Marker{})
	token, err = a.store.byID(ctx, id)
	accesses := scope.Accesses()
	c.SetRequest(c.Request().WithContext(web.WithGuard(c.Request().Context(), accesses)))
	return token, len(accesses) > 0 && accesses[len(accesses)-1].Role == dbroute.Primary, err
}

// Guard is the middleware that asks the primary whether the token that Find has
// found is valid now, and how far its owner's writes have got.
func (a *Authenticator) Guard() web.Middleware {
	return web.Middleware{Name: "tokens.Guard", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			token, ok := foundFrom(c.Request().Context())
			if !ok {
				return next(c)
			}
			var lastUsed sql.NullTime
			ok, err := a.guard.Admit(c, auth.Credential{
				// The hash too: after a failover that lost tokens, their ids are given again.
				Query: `
					SELECT ` + auth.GuardColumns + `, t.last_used_at
					  FROM tokens t JOIN users u ON u.id = t.user_id
					 WHERE t.id = ? AND t.secret_hash = ? AND (t.expires_at IS NULL OR t.expires_at > ?) AND NOT u.disabled`,
				Args: []any{token.ID, token.hash, time.Now()}, More: []any{&lastUsed}, Owner: token.owner,
			})
			if err != nil {
				return err
			}
			if !ok {
				return errInvalid
			}
			a.touch(c, token.ID, lastUsed.Time)
			return next(c)
		}
	}}
}

// used is how exact last_used_at is.
const used = time.Minute

// touch notes that a token is used, at most once a minute. It leaves no marker: it
// must not keep a busy program on the primary.
func (a *Authenticator) touch(c echo.Context, id int64, last time.Time) {
	now := time.Now()
	if now.Sub(last) < used {
		return
	}
	ctx, scope := a.primary.NewScope(c.Request().Context())
	err := a.primary.Touch(ctx, "tokens.Touch", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE tokens SET last_used_at = ? WHERE id = ? AND (last_used_at IS NULL OR last_used_at <= ?)`,
			now, id, now.Add(-used))
		return err
	})
	if err != nil {
		a.log.WarnContext(ctx, "use of a token not noted", "token", id, "error", err)
	}
	c.SetRequest(c.Request().WithContext(web.WithGuard(ctx, scope.Accesses())))
}

// Allow is the middleware for what visitors may do too, and tokens with an ability.
func Allow(ability Ability) web.Middleware {
	return web.Middleware{Name: "tokens.Allow(" + string(ability) + ")", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			token, ok := foundFrom(c.Request().Context())
			if ok && !token.Abilities.Has(ability) {
				return cannot(ability)
			}
			return next(c)
		}
	}}
}

// Require is the middleware for what takes a token with an ability.
func Require(ability Ability) web.Middleware {
	return web.Middleware{Name: "tokens.Require(" + string(ability) + ")", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			switch token, ok := foundFrom(c.Request().Context()); {
			case !ok:
				return web.ErrUnauthorized
			case !token.Abilities.Has(ability):
				return cannot(ability)
			}
			return next(c)
		}
	}}
}

func cannot(ability Ability) error {
	return web.Explain(web.ErrForbidden, "This token lacks the ability "+string(ability)+".")
}
