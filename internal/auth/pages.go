package auth

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"freshread/internal/web"
	"freshread/templates"
)

// Pages serves sign-up, log-in, log-out and the profile.
type Pages struct {
	store     *Store
	guard     *Guard
	cookies   *Cookies
	passwords *Passwords
	limits    *Limits
	html      *web.Renderer
	demo      Demo
}

// Demo is what a site that is there to be tried out has on top; else it is zero.
type Demo struct {
	Accounts []DemoAccount // offered on the log-in page
	Check    *Store        // primary-only; with it, a stale profile says so
}

// Account returns the account for examples, zero if there is none.
func (d Demo) Account() DemoAccount {
	if len(d.Accounts) == 0 {
		return DemoAccount{}
	}
	return d.Accounts[0]
}

// Addresses are those of the accounts.
func (d Demo) Addresses() []string {
	var list []string
	for _, a := range d.Accounts {
		list = append(list, a.Email)
	}
	return list
}

// DemoAccount can be used by everybody who tries the site out.
type DemoAccount struct {
	Name            string
	Role            Role
	Email, Password string
}

// NewPages returns the pages of auth.
func NewPages(store *Store, guard *Guard, cookies *Cookies, passwords *Passwords, limits *Limits, html *web.Renderer, demo Demo) *Pages {
	return &Pages{store, guard, cookies, passwords, limits, html, demo}
}

// Register adds the routes. The guard, the strategy and Load must be in the
// chain of r already.
func (p *Pages) Register(r *web.Routes) {
	r.GET("/signup", p.signUpForm)
	r.POST("/signup", p.signUp)
	r.GET("/login", p.logInForm)
	r.POST("/login", p.logIn)
	r.POST("/logout", p.logOut)

	own := r.With(Required())
	own.GET("/profile", p.profile)
	own.POST("/profile", p.updateProfile)
	own.POST("/profile/password", p.changePassword)
	own.POST("/logout/everywhere", p.logOutEverywhere)
}

type signUpPage struct {
	templates.Base
	Form signUpForm
}

func (p *Pages) signUpPage(c echo.Context, status int, form signUpForm) error {
	return p.html.HTML(c, status, "signup", newSignUpPage(form))
}

func newSignUpPage(form signUpForm) *signUpPage {
	page := &signUpPage{Form: form}
	page.Title = "Sign up"
	return page
}

func (p *Pages) signUpForm(c echo.Context) error {
	return p.signUpPage(c, http.StatusOK, signUpForm{})
}

func (p *Pages) signUp(c echo.Context) error {
	fields, err := web.Form(c)
	if err != nil {
		return err
	}
	form := parseSignUp(fields)
	if !form.valid() {
		return p.signUpPage(c, http.StatusUnprocessableEntity, form)
	}
	ctx := c.Request().Context()
	if err := p.limits.SignUp(ctx, web.ClientAddress(c)); err != nil {
		return web.OnPage(err, "signup", newSignUpPage(form))
	}
	hash, err := p.passwords.Hash(ctx, form.password)
	if err != nil {
		return err
	}
	login := newSession()
	err = p.store.Create(ctx, User{Name: form.Name, Email: form.Email}, hash, login.insert)
	switch {
	case errors.Is(err, ErrEmailTaken):
		form.EmailError = "There is an account with this address. Log in instead?"
		return p.signUpPage(c, http.StatusUnprocessableEntity, form)
	case err != nil:
		return web.OnPage(err, "signup", newSignUpPage(form))
	}
	if err := p.cookies.set(c.Request(), c.Response(), login); err != nil {
		return err
	}
	return web.SeeOther(c, "/profile", web.FlashWelcome)
}

type logInPage struct {
	templates.Base
	Form     logInForm
	Accounts []DemoAccount // of a demo
}

func (p *Pages) newLogInPage(form logInForm) *logInPage {
	page := &logInPage{Form: form, Accounts: p.demo.Accounts}
	page.Title = "Log in"
	return page
}

func (p *Pages) logInForm(c echo.Context) error {
	form := logInForm{Next: web.LocalPath(c.QueryParam("next"))}
	return p.html.HTML(c, http.StatusOK, "login", p.newLogInPage(form))
}

func (p *Pages) logIn(c echo.Context) error {
	fields, err := web.Form(c)
	if err != nil {
		return err
	}
	form := parseLogIn(fields)
	_, err = p.enter(c, form.Email, form.password)
	switch {
	case errors.Is(err, ErrWrongPassword):
		form.Error = "The address or the password is wrong."
		return p.html.HTML(c, http.StatusUnprocessableEntity, "login", p.newLogInPage(form))
	case err != nil:
		return web.OnPage(err, "login", p.newLogInPage(form))
	}
	return web.SeeOther(c, form.Next, web.FlashLoggedIn)
}

// enter counts an attempt to log in, and gives the browser a session. What the request
// writes from here on is the user's. It returns ErrWrongPassword if the address and the
// password are not somebody's.
func (p *Pages) enter(c echo.Context, email, password string) (Verified, error) {
	ctx := c.Request().Context()
	if err := p.limits.LogIn(ctx, web.ClientAddress(c), email); err != nil {
		return Verified{}, err
	}
	user, err := p.store.Verify(ctx, p.passwords, email, password)
	if err != nil {
		return Verified{}, err
	}
	p.guard.WriteFor(ctx, user.UserID)
	login := newSession()
	if err := p.store.startSession(ctx, user, login); err != nil {
		return Verified{}, err
	}
	return user, p.cookies.set(c.Request(), c.Response(), login)
}

func (p *Pages) logOut(c echo.Context) error {
	if found, ok := guardedFrom(c.Request().Context()); ok {
		if err := p.store.endSession(c.Request().Context(), found.sessionID); err != nil {
			return err
		}
	}
	return p.loggedOut(c, web.FlashLoggedOut)
}

func (p *Pages) logOutEverywhere(c echo.Context) error {
	ctx := c.Request().Context()
	if err := p.store.endEverything(ctx, Current(ctx).ID); err != nil {
		return err
	}
	return p.loggedOut(c, web.FlashAllLoggedOut)
}

func (p *Pages) loggedOut(c echo.Context, message web.Flash) error {
	if err := p.cookies.clear(c.Request(), c.Response()); err != nil {
		return err
	}
	return web.SeeOther(c, "/", message)
}

const passwordIsPublished = "Everybody who tries this site out can use this account, so its password stays as the log-in page has it."

type profilePage struct {
	templates.Base
	User     User
	Form     profileForm
	Password passwordForm
	Keeps    string // why the password stays as it is; empty if it may be changed
}

func (p *Pages) newProfilePage(u User, form profileForm, password passwordForm) *profilePage {
	page := &profilePage{User: u, Form: form, Password: password}
	if p.limits.published(u.Email) {
		page.Keeps = passwordIsPublished
	}
	page.Title = "Your profile"
	return page
}

func (p *Pages) profile(c echo.Context) error {
	u := Current(c.Request().Context())
	page := p.newProfilePage(u, profileOf(u), passwordForm{})
	page.Stale = p.stale(c, u)
	return p.html.HTML(c, http.StatusOK, "profile", page)
}

// stale says what the primary already has, if the strategy in effect has shown
// something older.
func (p *Pages) stale(c echo.Context, shown User) string {
	if p.demo.Check == nil || !web.MayBeStale(c) {
		return ""
	}
	return p.demo.Check.NewerName(c.Request().Context(), shown)
}

func profileOf(u User) profileForm { return profileForm{Name: u.Name, Bio: u.Bio} }

func (p *Pages) updateProfile(c echo.Context) error {
	fields, err := web.Form(c)
	if err != nil {
		return err
	}
	form := parseProfile(fields)
	u := Current(c.Request().Context())
	page := p.newProfilePage(u, form, passwordForm{})
	if !form.valid() {
		return p.html.HTML(c, http.StatusUnprocessableEntity, "profile", page)
	}
	u.Name, u.Bio = form.Name, form.Bio
	ctx := c.Request().Context()
	if err = p.limits.Write(ctx, u.ID); err == nil {
		err = p.store.UpdateProfile(ctx, u)
	}
	if err != nil {
		return web.OnPage(err, "profile", page)
	}
	return web.SeeOther(c, "/profile", web.FlashProfile)
}

func (p *Pages) changePassword(c echo.Context) error {
	fields, err := web.Form(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	form := parsePassword(fields)
	u := Current(ctx)
	if p.limits.published(u.Email) {
		return web.OnPage(web.Explain(web.ErrForbidden, passwordIsPublished), "profile", p.newProfilePage(u, profileOf(u), form))
	}
	if err := p.limits.Password(ctx, u.Email); err != nil {
		return web.OnPage(err, "profile", p.newProfilePage(u, profileOf(u), form))
	}
	login := newSession()
	user, err := p.store.verifyByID(ctx, p.passwords, u.ID, form.current)
	if err == nil && form.PasswordError == "" {
		err = p.setPassword(ctx, user, form.password, login)
	}
	if errors.Is(err, ErrWrongPassword) {
		form.CurrentError, err = "This is not your present password.", nil
	}
	page := p.newProfilePage(u, profileOf(u), form)
	switch {
	case err != nil:
		return web.OnPage(err, "profile", page)
	case form.CurrentError != "" || form.PasswordError != "":
		return p.html.HTML(c, http.StatusUnprocessableEntity, "profile", page)
	}
	if err := p.cookies.set(c.Request(), c.Response(), login); err != nil {
		return err
	}
	return web.SeeOther(c, "/profile", web.FlashPassword)
}

func (p *Pages) setPassword(ctx context.Context, user Verified, password string, next session) error {
	hash, err := p.passwords.Hash(ctx, password)
	if err != nil {
		return err
	}
	return p.store.setPassword(ctx, user, hash, next)
}
