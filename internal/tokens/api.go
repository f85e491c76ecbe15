package tokens

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/auth"
	"freshread/internal/dbroute"
	"freshread/internal/idempotency"
	"freshread/internal/web"
)

// API serves /api/tokens and /api/signup.
type API struct {
	store     *Store
	users     *auth.Store
	passwords *auth.Passwords
	limits    *auth.Limits
	guard     *auth.Guard
	signer    *Signer
}

// NewAPI returns the API of tokens.
func NewAPI(store *Store, users *auth.Store, passwords *auth.Passwords, limits *auth.Limits, guard *auth.Guard, signer *Signer) *API {
	return &API{store, users, passwords, limits, guard, signer}
}

// Register adds the routes. The Authenticator's middleware, the strategy and
// auth.Load must be in the chain of r already.
func (a *API) Register(r *web.Routes) {
	r.POST("/api/signup", a.signUp)
	r.POST("/api/tokens", a.create)
	r.GET("/api/tokens", a.list, Require(Read))
	r.DELETE("/api/tokens/:id", a.revoke)
}

// tokenJSON is a token as its owner sees it.
type tokenJSON struct {
	ID         int64      `json:"id"`
	Name       string     `json:"name"`
	Abilities  Abilities  `json:"abilities"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
	Current    bool       `json:"current"` // the request was made with it
}

func jsonOf(t Token, current int64) tokenJSON {
	return tokenJSON{
		ID: t.ID, Name: t.Name, Abilities: t.Abilities, CreatedAt: t.CreatedAt.UTC(),
		ExpiresAt: timeOrNull(t.ExpiresAt), LastUsedAt: timeOrNull(t.LastUsedAt), Current: t.ID == current,
	}
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// newTokenJSON is a token with its secret, which is shown this once.
type newTokenJSON struct {
	Token string `json:"token"`
	tokenJSON
	ServerID int `json:"server_id,omitempty"`
}

func (a *API) created(c echo.Context, t Token, secret string) error {
	return web.Answer{Status: http.StatusCreated, Body: newTokenJSON{
		Token: a.signer.text(t.ID, secret), tokenJSON: jsonOf(t, t.ID), ServerID: web.ServerID(c),
	}}.Send(c)
}

// checkDevice returns the token to be made for a device, and what is wrong with it,
// as pairs for web.Invalid. Without abilities it may do everything, without days it
// does not expire.
func checkDevice(name string, abilities []string, days int) (d draft, problems []string) {
	if abilities == nil {
		abilities = []string{string(Read), string(Write)}
	}
	var nameProblem, abilitiesProblem string
	d.name, nameProblem = web.CheckLine(name, "name for the device", MaxName)
	d.abilities, abilitiesProblem = checkAbilities(abilities)
	d.days = days
	return d, []string{"device_name", nameProblem, "abilities", abilitiesProblem, "expires_in_days", checkDays(days)}
}

func (a *API) create(c echo.Context) error {
	if err := idempotency.Refuse(c); err != nil {
		return err
	}
	sent, err := web.Decode[struct {
		Email         string   `json:"email"`
		Password      string   `json:"password"`
		DeviceName    string   `json:"device_name"`
		Abilities     []string `json:"abilities"`
		ExpiresInDays int      `json:"expires_in_days"`
	}](c)
	if err != nil {
		return err
	}
	d, problems := checkDevice(sent.DeviceName, sent.Abilities, sent.ExpiresInDays)
	if err := web.Invalid(problems...); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := a.limits.LogIn(ctx, web.ClientAddress(c), sent.Email); err != nil {
		return err
	}
	user, err := a.users.Verify(ctx, a.passwords, sent.Email, sent.Password)
	if err != nil {
		return refusePassword(err)
	}
	if err := a.limits.Token(ctx, user.UserID); err != nil {
		return err
	}
	a.guard.WriteFor(ctx, user.UserID)
	secret := newSecret()
	t, err := a.store.createFor(ctx, user, d, secret)
	if err != nil {
		return refusePassword(err)
	}
	return a.created(c, t, secret)
}

func refusePassword(err error) error {
	if errors.Is(err, auth.ErrWrongPassword) {
		return web.Explain(fmt.Errorf("%w: %w", web.ErrUnauthorized, err), "The address or the password is wrong.")
	}
	return err
}

// signUp makes an account and its first token in one transaction: a replica that
// has the token has its user.
func (a *API) signUp(c echo.Context) error {
	if err := idempotency.Refuse(c); err != nil {
		return err
	}
	sent, err := web.Decode[struct {
		Name          string   `json:"name"`
		Email         string   `json:"email"`
		Password      string   `json:"password"`
		DeviceName    string   `json:"device_name"`
		Abilities     []string `json:"abilities"`
		ExpiresInDays int      `json:"expires_in_days"`
	}](c)
	if err != nil {
		return err
	}
	d, problems := checkDevice(sent.DeviceName, sent.Abilities, sent.ExpiresInDays)
	user, more := auth.CheckSignUp(sent.Name, sent.Email, sent.Password)
	if err := web.Invalid(append(problems, more...)...); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := a.limits.SignUp(ctx, web.ClientAddress(c)); err != nil {
		return err
	}
	passwordHash, err := a.passwords.Hash(ctx, sent.Password)
	if err != nil {
		return err
	}
	var t Token
	secret := newSecret()
	err = a.users.Create(ctx, user, passwordHash, func(ctx context.Context, tx *dbroute.Tx, userID int64) (err error) {
		t, err = insert(ctx, tx, userID, d, secret)
		return err
	})
	switch {
	case errors.Is(err, auth.ErrEmailTaken):
		return web.Explain(fmt.Errorf("%w: %w", web.ErrConflict, err), "There is an account with this address. POST /api/tokens makes a token of it.")
	case err != nil:
		return err
	}
	return a.created(c, t, secret)
}

func (a *API) list(c echo.Context) error {
	before, limit, err := web.PartQuery(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	current, _ := foundFrom(ctx)
	list, err := a.store.list(ctx, current.userID, before, limit+1)
	if err != nil {
		return err
	}
	list, older := web.Split(list, limit, func(t Token) int64 { return t.ID })
	shown := make([]tokenJSON, len(list))
	for i, t := range list {
		shown[i] = jsonOf(t, current.ID)
	}
	return web.Answer{Status: http.StatusOK, Body: struct {
		Tokens   []tokenJSON `json:"tokens"`
		Next     *string     `json:"next"`
		ServerID int         `json:"server_id,omitempty"`
	}{shown, web.Next(c, older), web.ServerID(c)}}.Send(c)
}

// revoke ends a token of the one who asks. The one that is asked with may always be
// ended, whatever it may do otherwise.
func (a *API) revoke(c echo.Context) error {
	ctx := c.Request().Context()
	current, ok := foundFrom(ctx)
	if !ok {
		return web.ErrUnauthorized
	}
	id, err := web.IDParam(c, "id")
	if err != nil {
		return err
	}
	if id != current.ID && !current.Abilities.Has(Write) {
		return cannot(Write)
	}
	if err := a.store.revoke(ctx, current.userID, id); err != nil {
		return err
	}
	return web.Answer{Status: http.StatusNoContent}.Send(c)
}
