package tokens

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"freshread/internal/auth"
	"freshread/internal/dbroute"
)

// Store reads and writes tokens.
type Store struct{ db dbroute.Router }

// NewStore returns a store on db.
func NewStore(db dbroute.Router) *Store { return &Store{db} }

// row is a token with the hash of its secret.
type row struct {
	Token
	userID int64
	hash   string
}

// hasSecret compares in constant time.
func (r row) hasSecret(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(r.hash), []byte(hash(secret))) == 1
}

const columns = `t.id, t.name, t.abilities, t.created_at, t.expires_at, t.last_used_at, t.user_id, t.secret_hash`

func (r *row) scan(scan func(...any) error, more ...any) error {
	var abilities string
	var expires, used sql.NullTime
	into := []any{&r.ID, &r.Name, &abilities, &r.CreatedAt, &expires, &used, &r.userID, &r.hash}
	if err := scan(append(into, more...)...); err != nil {
		return err
	}
	r.Abilities, r.ExpiresAt, r.LastUsedAt = parseAbilities(abilities), expires.Time, used.Time
	return nil
}

// byID returns a token, or ErrNotFound. All that it returns is the same for as long
// as the token lives, but for when it was last used: an old replica may lack it,
// and is not wrong about it otherwise. Whether it still lives, the guard says.
func (s *Store) byID(ctx context.Context, id int64) (row, error) {
	var r row
	err := s.db.Read(ctx, "tokens.ByID", func(q dbroute.Querier) error {
		return r.scan(q.QueryRowContext(ctx, `SELECT `+columns+` FROM tokens t WHERE t.id = ?`, id).Scan)
	})
	return r, notFound(err, id)
}

// WithOwner is the name of the read that follows where the replica has no such
// token.
const WithOwner = "tokens.WithOwner"

// withOwner reads a token and its owner on the primary.
func (s *Store) withOwner(ctx context.Context, id int64) (r row, u auth.User, err error) {
	ctx = dbroute.UsePrimary(ctx)
	err = s.db.Read(ctx, WithOwner, func(q dbroute.Querier) error {
		return r.scan(q.QueryRowContext(ctx, `
			SELECT `+columns+`, u.id, u.name, u.email, u.bio, u.role, u.created_at
			  FROM tokens t JOIN users u ON u.id = t.user_id
			 WHERE t.id = ?`, id).Scan,
			&u.ID, &u.Name, &u.Email, &u.Bio, &u.Role, &u.CreatedAt)
	})
	return r, u, notFound(err, id)
}

func notFound(err error, id int64) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("token %d: %w", id, ErrNotFound)
	}
	return err
}

// list returns a user's tokens, at most limit, newest first: those with a lower id
// than before, or the very newest if before is 0.
func (s *Store) list(ctx context.Context, userID, before int64, limit int) ([]Token, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	var list []Token
	err := s.db.Read(ctx, "tokens.List", func(q dbroute.Querier) error {
		list = nil
		rows, err := q.QueryContext(ctx, `
			SELECT `+columns+` FROM tokens t
			 WHERE t.user_id = ? AND t.id < ?
			 ORDER BY t.id DESC
			 LIMIT ?`, userID, before, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r row
			if err := r.scan(rows.Scan); err != nil {
				return err
			}
			list = append(list, r.Token)
		}
		return rows.Err()
	})
	return list, err
}

// insert saves a new token.
func insert(ctx context.Context, tx *dbroute.Tx, userID int64, d draft, secret string) (Token, error) {
	t := Token{Name: d.name, Abilities: d.abilities, CreatedAt: time.Now().UTC().Truncate(time.Second), ExpiresAt: d.expiresAt()}
	var err error
	t.ID, err = tx.InsertID(ctx, `
		INSERT INTO tokens (user_id, name, secret_hash, abilities, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)`,
		userID, t.Name, hash(secret), t.Abilities.String(), t.CreatedAt, sql.NullTime{Time: t.ExpiresAt, Valid: !t.ExpiresAt.IsZero()})
	return t, err
}

// create saves a new token of a user who is signed in, or returns
// web.ErrLogInRequired if that has ended meanwhile.
func (s *Store) create(ctx context.Context, userID int64, d draft, secret string) (t Token, err error) {
	err = s.db.Write(ctx, "tokens.Create", func(ctx context.Context, tx *dbroute.Tx) error {
		if err := auth.ConfirmSession(ctx, tx); err != nil {
			return err
		}
		t, err = insert(ctx, tx, userID, d, secret)
		return err
	})
	return t, err
}

// createFor is create for who has just given a password.
func (s *Store) createFor(ctx context.Context, user auth.Verified, d draft, secret string) (t Token, err error) {
	err = s.db.Write(ctx, "tokens.Create", func(ctx context.Context, tx *dbroute.Tx) error {
		if err := user.Confirm(ctx, tx); err != nil {
			return err
		}
		t, err = insert(ctx, tx, user.UserID, d, secret)
		return err
	})
	return t, err
}

// revoke ends a token of a user, or returns ErrNotFound.
func (s *Store) revoke(ctx context.Context, userID, id int64) error {
	return s.db.Write(ctx, "tokens.Revoke", func(ctx context.Context, tx *dbroute.Tx) error {
		var found int64
		err := tx.QueryRowContext(ctx, `SELECT id FROM tokens WHERE id = ? AND user_id = ? FOR UPDATE`, id, userID).Scan(&found)
		if err != nil {
			return notFound(err, id)
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM tokens WHERE id = ?`, id)
		return err
	})
}
