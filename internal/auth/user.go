// Package auth is users: accounts, passwords, log-in sessions, the guard, and
// who the current user is.
package auth

import (
	"errors"
	"fmt"
	"time"

	"freshread/internal/web"
)

// User is a person as pages show them.
type User struct {
	ID        int64
	Name      string
	Email     string
	Bio       string
	Role      Role
	CreatedAt time.Time
}

// Role is what a user may do beyond changing their own.
type Role string

const (
	Member Role = "member"
	Admin  Role = "admin"
)

// MayChange reports whether the user may edit and delete what author wrote.
// The zero User is nobody, and author is 0 for what nobody's account wrote.
func (u User) MayChange(author int64) bool {
	return u.ID != 0 && (u.ID == author || u.Role == Admin)
}

// The longest fields, in characters, and the shortest password.
const (
	MaxName     = 100
	MaxEmail    = 254
	MaxBio      = 500
	MinPassword = 10
	MaxPassword = 200
)

var (
	// ErrNotFound is a user who does not exist.
	ErrNotFound = fmt.Errorf("user %w", web.ErrNotFound)
	// ErrEmailTaken is a sign-up or a change to an address that has an account.
	ErrEmailTaken = errors.New("address has an account")
	// ErrWrongPassword is a log-in that failed. It does not tell whether the
	// address, the password or the account was at fault.
	ErrWrongPassword = errors.New("wrong address or password")
)
