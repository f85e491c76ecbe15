package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gorilla/sessions"

	"freshread/internal/dbroute"
	"freshread/internal/web"
)

// sessionLife is how long a log-in lasts.
const sessionLife = 30 * 24 * time.Hour

// session is a log-in. The browser holds the secret; the database its hash.
type session struct{ secret string }

func newSession() session { return session{rand.Text()} }

func (s session) id() string { return sessionID(s.secret) }

func sessionID(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// insert saves a log-in in place of the one that the request came with, which its
// browser forgets and could not end any more. That may be somebody else's, so no user's
// row may be locked after it.
func (s session) insert(ctx context.Context, tx *dbroute.Tx, userID int64) error {
	// Nobody else looks after what has expired.
	if _, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE user_id = ? AND expires_at < ?`, userID, time.Now()); err != nil {
		return err
	}
	if found, ok := guardedFrom(ctx); ok {
		if err := endOne(ctx, tx, found.sessionID); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO sessions (id, user_id, expires_at) VALUES (?, ?, ?)`,
		s.id(), userID, time.Now().Add(sessionLife))
	return err
}

// startSession saves a log-in. It is a write like any other: the marker that it
// leaves makes the next page see the account, however new.
func (s *Store) startSession(ctx context.Context, user Verified, next session) error {
	return s.db.Write(ctx, "sessions.Start", func(ctx context.Context, tx *dbroute.Tx) error {
		if err := user.Confirm(ctx, tx); err != nil {
			return err
		}
		return next.insert(ctx, tx, user.UserID)
	})
}

// endSession ends one log-in.
func (s *Store) endSession(ctx context.Context, id string) error {
	return s.db.Write(ctx, "sessions.End", func(ctx context.Context, tx *dbroute.Tx) error {
		return endOne(ctx, tx, id)
	})
}

func endOne(ctx context.Context, tx *dbroute.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE id = ?`, id)
	return err
}

// endEverything ends all of a user's log-ins.
func (s *Store) endEverything(ctx context.Context, userID int64) error {
	return s.db.Write(ctx, "sessions.EndAll", func(ctx context.Context, tx *dbroute.Tx) error {
		return endAll(ctx, tx, userID)
	})
}

// ConfirmSession returns web.ErrLogInRequired if the session that a request came with
// has ended since the guard let it in: what ends it must end also what is made with it
// just now. Who ends a user's sessions locks the user's row first, and so has whoever
// makes something for the user: see Guard.WriteFor.
func ConfirmSession(ctx context.Context, tx *dbroute.Tx) error {
	found, _ := guardedFrom(ctx)
	var id string
	err := tx.QueryRowContext(ctx, `SELECT id FROM sessions WHERE id = ? FOR UPDATE`, found.sessionID).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return web.ErrLogInRequired
	}
	return err
}

// endAll ends sessions and tokens: a token is a program's log-in, and may be what a
// thief of the password has left behind.
func endAll(ctx context.Context, tx *dbroute.Tx, userID int64) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE user_id = ?`, userID); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM tokens WHERE user_id = ?`, userID)
	return err
}

// Cookies keeps the session's secret in the browser. Only log-in, log-out and a
// changed password write it: a slow page must not bring back a session that has
// ended meanwhile.
type Cookies struct {
	store *sessions.CookieStore
	name  string
}

const secretKey = "secret"

// NewCookies derives keys of its own from keys; see web.NewMarkers. A cookie is
// for all ports of a host, so its name has the cluster's in it: nobody is logged
// out by logging in to another cluster's site there.
func NewCookies(clusterName string, keys [][]byte, secure bool) (*Cookies, error) {
	derived, err := web.DeriveKeys(keys, "freshread session", 64)
	if err != nil {
		return nil, fmt.Errorf("session cookies: %w", err)
	}
	var pairs [][]byte
	for _, key := range derived {
		pairs = append(pairs, key[:32], key[32:])
	}
	store := sessions.NewCookieStore(pairs...)
	store.Options = &sessions.Options{Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure}
	store.MaxAge(int(sessionLife / time.Second))
	return &Cookies{store: store, name: "session." + clusterName}, nil
}

// secret returns what the browser holds, or "" if it is not logged in.
func (c *Cookies) secret(r *http.Request) string {
	if _, err := r.Cookie(c.name); err != nil {
		return "" // and no session is made for a visitor who has none
	}
	s, err := c.store.Get(r, c.name)
	if err != nil {
		return "" // not ours, or of a key that is gone
	}
	secret, _ := s.Values[secretKey].(string)
	return secret
}

func (c *Cookies) set(r *http.Request, w http.ResponseWriter, s session) error {
	cookie, _ := c.store.New(r, c.name) // an unreadable one is replaced
	cookie.Values = map[any]any{secretKey: s.secret}
	if err := cookie.Save(r, w); err != nil {
		return fmt.Errorf("save session cookie: %w", err)
	}
	return nil
}

func (c *Cookies) clear(r *http.Request, w http.ResponseWriter) error {
	cookie, _ := c.store.New(r, c.name)
	cookie.Values, cookie.Options.MaxAge = nil, -1
	if err := cookie.Save(r, w); err != nil {
		return fmt.Errorf("delete session cookie: %w", err)
	}
	return nil
}
