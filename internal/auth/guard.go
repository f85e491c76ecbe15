package auth

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/internal/web"
)

// Guard answers, once per request with a session or a token and from the primary,
// whether that is still valid and how far its user's own writes have got. It is
// what makes a log-out count at once, and what makes a write from one browser
// seen in the next, or by a program, which has no marker of it.
//
// A user's row counts the user's commits (writes), in the transactions themselves, and
// how many of them commit_id covers (covered). Where the two differ, since a
// process died between COMMIT and the capture, the user's position is unknown.
type Guard struct {
	db      *dbroute.Cluster // primary-only
	main    *dbroute.Cluster // whose commit IDs are kept
	cookies *Cookies
	log     *slog.Logger
}

// NewGuard returns a guard of the users of main.
func NewGuard(main *dbroute.Cluster, cookies *Cookies, log *slog.Logger) *Guard {
	return &Guard{db: main.PrimaryOnly("guard"), main: main, cookies: cookies, log: log}
}

// Credential is what a request says who it is by, and how the guard finds it.
type Credential struct {
	// Query selects GuardColumns of the user u whose valid credential this is,
	// and then what More points to.
	Query string
	Args  []any
	More  []any
	// Owner is the user, if that was read already.
	Owner *User

	sessionID string
}

// GuardColumns are what the guard has to know of a user.
const GuardColumns = `u.id, u.role, u.writes, u.covered, u.commit_id, u.written_ms`

// guarded is what the guard knows of a request with a valid credential.
type guarded struct {
	Credential
	userID int64
	role   Role
	writes int64
	marker dbroute.Marker
}

type guardKey struct{}

func guardedFrom(ctx context.Context) (guarded, bool) {
	g, ok := ctx.Value(guardKey{}).(guarded)
	return g, ok
}

// Middleware asks for requests that carry a session. It runs before the
// strategy, which it gives the user's marker. Anonymous requests cost nothing.
func (g *Guard) Middleware() web.Middleware {
	return web.Middleware{Name: "auth.Guard", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			secret := g.cookies.secret(c.Request())
			if secret == "" {
				return next(c)
			}
			id := sessionID(secret)
			if _, err := g.Admit(c, Credential{
				Query: `
					SELECT ` + GuardColumns + `
					  FROM sessions s JOIN users u ON u.id = s.user_id
					 WHERE s.id = ? AND s.expires_at > ? AND NOT u.disabled`,
				Args: []any{id, time.Now()}, sessionID: id,
			}); err != nil {
				return err
			}
			return next(c)
		}
	}}
}

// Admit asks the primary whether a credential is valid. If it is, the request is
// its user's from here on: the strategy gets the user's marker, and Load the user.
func (g *Guard) Admit(c echo.Context, credential Credential) (ok bool, err error) {
	ctx, scope := g.db.NewScope(c.Request().Context())
	found, ok, err := g.lookUp(ctx, credential)
	ctx = web.WithGuard(ctx, scope.Accesses())
	if ok {
		ctx = context.WithValue(ctx, guardKey{}, found)
		ctx = web.WithMarker(ctx, found.marker)
	}
	c.SetRequest(c.Request().WithContext(ctx))
	return ok, err
}

// lookUp finds a credential by its primary key. It is not ok if that has ended
// or its account is disabled.
func (g *Guard) lookUp(ctx context.Context, credential Credential) (_ guarded, ok bool, err error) {
	found := guarded{Credential: credential}
	var covered, writtenMS int64
	var commitID string
	err = g.db.Read(ctx, "auth.Guard", func(q dbroute.Querier) error {
		columns := []any{&found.userID, &found.role, &found.writes, &covered, &commitID, &writtenMS}
		return q.QueryRowContext(ctx, credential.Query, credential.Args...).Scan(append(columns, credential.More...)...)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return guarded{}, false, nil
	case err != nil:
		return guarded{}, false, err
	case found.writes == 0:
		return found, true, nil
	}
	found.marker.Written = time.UnixMilli(writtenMS)
	found.marker.Commit, err = g.main.ParseCommitID(commitID)
	if err != nil || found.writes != covered {
		found.marker = dbroute.Marker{Written: found.marker.Written, Unknown: true}
	}
	return found, true, nil
}

// WriteFor makes what a request writes from here on a user's, who sees it with
// every session and token.
func (g *Guard) WriteFor(ctx context.Context, userID int64) {
	g.main.Scope(ctx).OnWrite(func(ctx context.Context, tx *dbroute.Tx) error { return g.count(ctx, tx, userID) })
}

// count counts a user's commit in its own transaction, and saves its commit ID
// afterwards.
func (g *Guard) count(ctx context.Context, tx *dbroute.Tx, userID int64) error {
	if _, err := tx.ExecContext(ctx, `UPDATE users SET writes = writes + 1, written_ms = ? WHERE id = ?`,
		time.Now().UnixMilli(), userID); err != nil {
		return err
	}
	var writes int64
	if err := tx.QueryRowContext(ctx, `SELECT writes FROM users WHERE id = ?`, userID).Scan(&writes); err != nil {
		return err
	}
	tx.AfterCommit(func(ctx context.Context, m dbroute.Marker) { g.cover(ctx, userID, writes, m) })
	return nil
}

// cover saves that a commit ID covers the first writes of a user. The row was
// locked up to each COMMIT, so the order of writes is the order of commits. If
// it fails, the user's position stays unknown, and the next request heals it.
func (g *Guard) cover(ctx context.Context, userID, writes int64, m dbroute.Marker) {
	if m.Unknown {
		return
	}
	err := g.db.Touch(ctx, "auth.Cover", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, `
			UPDATE users SET commit_id = ?, covered = ?, written_ms = greatest(written_ms, ?)
			 WHERE id = ? AND covered <= ?`,
			m.Commit.String(), writes, m.Written.UnixMilli(), userID, writes)
		return err
	})
	if err != nil {
		g.log.WarnContext(ctx, "commit ID of a user not saved", "user", userID, "error", err)
	}
}
