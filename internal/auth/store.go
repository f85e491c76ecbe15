package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
)

// Store reads and writes users.
type Store struct {
	db    dbroute.Router
	cache *cache.Cache
}

// NewStore returns a store on db.
func NewStore(db dbroute.Router, c *cache.Cache) *Store { return &Store{db, c} }

// ByID returns a user, or ErrNotFound.
func (s *Store) ByID(ctx context.Context, id int64) (User, error) {
	var u User
	err := s.db.Read(ctx, "users.ByID", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, `
			SELECT id, name, email, bio, role, created_at
			  FROM users
			 WHERE id = ?`, id).
			Scan(&u.ID, &u.Name, &u.Email, &u.Bio, &u.Role, &u.CreatedAt)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return User{}, fmt.Errorf("user %d: %w", id, ErrNotFound)
	}
	return u, err
}

// CountKey is the cache entry of Count.
const CountKey = "users.Count"

// countLife bounds only what bypasses the store, such as SQL typed by hand.
const countLife = 10 * time.Minute

// Count returns how many users there are, the primary's number, by way of the cache.
func (s *Store) Count(ctx context.Context) (int, error) {
	return cache.Remember(ctx, s.cache, CountKey, countLife, func(ctx context.Context, q dbroute.Querier) (n int, err error) {
		err = q.QueryRowContext(ctx, `SELECT count(*) FROM users`).Scan(&n)
		return n, err
	})
}

// NewerName says that this store, a primary-only one, has another name for a
// user than the page has shown, or "".
func (s *Store) NewerName(ctx context.Context, shown User) string {
	current, err := s.ByID(ctx, shown.ID)
	if err != nil || current.Name == shown.Name {
		return ""
	}
	return fmt.Sprintf("the primary already has the name “%s”", current.Name)
}

// credentials are what a log-in is checked against.
type credentials struct {
	userID   int64
	hash     string // empty if nobody can log in with it
	disabled bool
}

// credentialsByEmail reads the primary: an account that has just been made, a
// password that has just been changed, must count at once. An unknown address
// has the zero credentials, which no password fits.
func (s *Store) credentialsByEmail(ctx context.Context, email string) (credentials, error) {
	return s.credentials(ctx, `SELECT id, password_hash, disabled FROM users WHERE email = ?`, email)
}

func (s *Store) credentialsByID(ctx context.Context, id int64) (credentials, error) {
	return s.credentials(ctx, `SELECT id, password_hash, disabled FROM users WHERE id = ?`, id)
}

func (s *Store) credentials(ctx context.Context, query string, key any) (credentials, error) {
	ctx = dbroute.UsePrimary(ctx)
	var found credentials
	err := s.db.Read(ctx, "users.Credentials", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, query, key).Scan(&found.userID, &found.hash, &found.disabled)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return credentials{}, nil
	}
	return found, err
}

// Verified is a user whose password was right a moment ago.
type Verified struct {
	UserID int64
	hash   string
}

// Verify checks an address and a password. If they are not somebody's it returns
// ErrWrongPassword, whatever it was that was wrong.
func (s *Store) Verify(ctx context.Context, passwords *Passwords, email, password string) (Verified, error) {
	found, err := s.credentialsByEmail(ctx, foldEmail(email))
	if err != nil {
		return Verified{}, err
	}
	return found.verify(ctx, passwords, password)
}

// verifyByID is Verify for a user who is known.
func (s *Store) verifyByID(ctx context.Context, passwords *Passwords, id int64, password string) (Verified, error) {
	found, err := s.credentialsByID(ctx, id)
	if err != nil {
		return Verified{}, err
	}
	return found.verify(ctx, passwords, password)
}

func (found credentials) verify(ctx context.Context, passwords *Passwords, password string) (Verified, error) {
	ok, err := passwords.Check(ctx, password, found.hash)
	if err != nil {
		return Verified{}, err
	}
	if !ok || found.disabled {
		return Verified{}, ErrWrongPassword
	}
	return Verified{found.userID, found.hash}, nil
}

// Confirm locks the user's row, and returns ErrWrongPassword if the password was
// changed since it was verified: that change must end also what is made from the
// old one just now.
func (v Verified) Confirm(ctx context.Context, tx *dbroute.Tx) error {
	var current credentials
	err := tx.QueryRowContext(ctx, `SELECT password_hash, disabled FROM users WHERE id = ? FOR UPDATE`, v.UserID).
		Scan(&current.hash, &current.disabled)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrWrongPassword
	case err != nil:
		return err
	case current.hash != v.hash || current.disabled:
		return ErrWrongPassword
	}
	return nil
}

// Create saves a new user and, in the same transaction, what first saves: what the
// user is logged in by. The address is checked by the primary's unique index,
// since no replica can say that it is free.
func (s *Store) Create(ctx context.Context, u User, hash string, first func(ctx context.Context, tx *dbroute.Tx, userID int64) error) error {
	err := s.db.Write(ctx, "users.Create", func(ctx context.Context, tx *dbroute.Tx) error {
		id, err := tx.InsertID(ctx, `INSERT INTO users (name, email, password_hash) VALUES (?, ?, ?)`, u.Name, u.Email, hash)
		if err != nil {
			return err
		}
		if err := first(ctx, tx, id); err != nil {
			return err
		}
		return cache.Forget(ctx, tx, CountKey)
	})
	if dbroute.IsDuplicateKey(err) {
		return fmt.Errorf("sign up: %w", ErrEmailTaken)
	}
	return err
}

// UpdateProfile saves what a user says in their profile.
func (s *Store) UpdateProfile(ctx context.Context, u User) error {
	return s.db.Write(ctx, "users.UpdateProfile", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE users SET name = ?, bio = ? WHERE id = ?`, u.Name, u.Bio, u.ID)
		return err
	})
}

// setPassword saves a new password, and ends all sessions but the new one and all
// tokens. It returns ErrWrongPassword if another change came first.
func (s *Store) setPassword(ctx context.Context, user Verified, hash string, next session) error {
	return s.db.Write(ctx, "users.SetPassword", func(ctx context.Context, tx *dbroute.Tx) error {
		if err := user.Confirm(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE users SET password_hash = ? WHERE id = ?`, hash, user.UserID); err != nil {
			return err
		}
		if err := endAll(ctx, tx, user.UserID); err != nil {
			return err
		}
		return next.insert(ctx, tx, user.UserID)
	})
}
