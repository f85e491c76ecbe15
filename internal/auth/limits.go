package auth

import (
	"context"
	"slices"
	"strconv"

	"freshread/internal/web"
)

// Limits bound how often clients and users do what helps to guess passwords, or
// costs much.
type Limits struct {
	LogInByAddress, LogInByAccount web.Limiter
	SignUpByAddress                web.Limiter
	WritesByUser                   web.Limiter // posts, comments, profiles
	TokensByUser                   web.Limiter

	// Published are the addresses of accounts whose password everybody is told. There
	// is nothing to guess, and all who try the site out use the same few, so that nobody
	// may change it.
	Published []string
}

// LogIn counts an attempt to log in, whether or not it succeeds and whether or not
// there is such an account: nobody can find out by it. It comes before the password
// is looked at.
func (l *Limits) LogIn(ctx context.Context, address, email string) error {
	if err := l.LogInByAddress.Hit(ctx, address); err != nil {
		return err
	}
	if l.published(foldEmail(email)) {
		return nil
	}
	return l.Password(ctx, email)
}

func (l *Limits) published(email string) bool { return slices.Contains(l.Published, email) }

// Password counts an attempt to give an account's password, however its address is
// written.
func (l *Limits) Password(ctx context.Context, email string) error {
	return l.LogInByAccount.Hit(ctx, foldEmail(email))
}

// SignUp counts a sign-up.
func (l *Limits) SignUp(ctx context.Context, address string) error {
	return l.SignUpByAddress.Hit(ctx, address)
}

// Write counts something that a user saves or deletes.
func (l *Limits) Write(ctx context.Context, userID int64) error {
	return l.WritesByUser.Hit(ctx, Subject(userID))
}

// Token counts a token that a user makes.
func (l *Limits) Token(ctx context.Context, userID int64) error {
	return l.TokensByUser.Hit(ctx, Subject(userID))
}

// Subject is what limits by user are kept by.
func Subject(userID int64) string { return strconv.FormatInt(userID, 10) }
