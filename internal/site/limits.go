package site

import (
	"cmp"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/auth"
	"freshread/internal/cache"
	"freshread/internal/status"
	"freshread/internal/web"
)

// Limits are how often things may be done, and the variables of the environment that
// say so.
type Limits struct {
	LogInByAddress  cache.Limit `env:"LIMIT_LOGIN_ADDRESS"` // attempts to log in
	LogInByAccount  cache.Limit `env:"LIMIT_LOGIN_ACCOUNT"` // attempts to give the account's password
	SignUpByAddress cache.Limit `env:"LIMIT_SIGNUP"`
	WritesByUser    cache.Limit `env:"LIMIT_WRITES"` // posts, comments, profiles
	TokensByUser    cache.Limit `env:"LIMIT_TOKENS"`
}

// DefaultLimits are in nobody's way who types, and in the way of who does not.
// Several people may come from one address.
var DefaultLimits = Limits{
	LogInByAddress:  cache.Limit{Hits: 30, Per: time.Minute},
	LogInByAccount:  cache.Limit{Hits: 10, Per: time.Minute},
	SignUpByAddress: cache.Limit{Hits: 20, Per: time.Hour},
	WritesByUser:    cache.Limit{Hits: 60, Per: time.Minute},
	TokensByUser:    cache.Limit{Hits: 20, Per: time.Hour},
}

// SameLimits are limits that are all the same, for sites whose visitors are in a
// hurry: experiments and tests.
func SameLimits(each cache.Limit) Limits { return Limits{each, each, each, each, each} }

// newLimits makes the limiters, for the features and for the page /limits.
func (cfg *Config) newLimits() (*auth.Limits, []status.Limit, error) {
	limits := &auth.Limits{}
	var shown []status.Limit
	for _, l := range []struct {
		name            string
		limit, standard cache.Limit
		limiter         *web.Limiter
		title           string
		subject         func(echo.Context) string
	}{
		{"log-in-address", cfg.Limits.LogInByAddress, DefaultLimits.LogInByAddress, &limits.LogInByAddress, "Log-ins from your address", web.ClientAddress},
		{"log-in-account", cfg.Limits.LogInByAccount, DefaultLimits.LogInByAccount, &limits.LogInByAccount, "Passwords tried for your account", account},
		{"sign-up", cfg.Limits.SignUpByAddress, DefaultLimits.SignUpByAddress, &limits.SignUpByAddress, "Sign-ups from your address", web.ClientAddress},
		{"writes", cfg.Limits.WritesByUser, DefaultLimits.WritesByUser, &limits.WritesByUser, "What you save and delete", user},
		{"tokens", cfg.Limits.TokensByUser, DefaultLimits.TokensByUser, &limits.TokensByUser, "API tokens that you make", user},
	} {
		limiter, err := cache.NewLimiter(cfg.Cache, l.name, cmp.Or(l.limit, l.standard))
		if err != nil {
			return nil, nil, fmt.Errorf("site: %w", err)
		}
		*l.limiter = limiter
		if cfg.Limiter != nil {
			*l.limiter = cfg.Limiter(limiter)
		}
		shown = append(shown, status.Limit{Limiter: limiter, Title: l.title, Subject: l.subject})
	}
	return limits, shown, nil
}

// account and user are subjects of whoever is signed in, or "".

func account(c echo.Context) string { return auth.Current(c.Request().Context()).Email }

func user(c echo.Context) string {
	if id := auth.Current(c.Request().Context()).ID; id != 0 {
		return auth.Subject(id)
	}
	return ""
}
