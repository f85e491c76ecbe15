package tokens

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"freshread/internal/auth"
	"freshread/internal/web"
	"freshread/templates"
)

// Pages serves /tokens, where users make and revoke their tokens, and /api, which
// explains the API.
type Pages struct {
	store   *Store
	signer  *Signer
	once    *Once
	limits  *auth.Limits
	html    *web.Renderer
	account auth.DemoAccount // of the examples
}

// NewPages returns the pages. The examples on /api use an account; if it is zero,
// whoever tries them fills in their own.
func NewPages(store *Store, signer *Signer, once *Once, limits *auth.Limits, html *web.Renderer, account auth.DemoAccount) *Pages {
	return &Pages{store, signer, once, limits, html, account}
}

// Register adds the routes. The guard, the strategy and auth.Load must be in the
// chain of r already.
func (p *Pages) Register(r *web.Routes) {
	r.GET("/api", p.explain)
	own := r.With(auth.Required())
	own.GET("/tokens", p.list)
	own.POST("/tokens", p.create)
	own.POST("/tokens/:id/revoke", p.revoke)
}

type tokensPage struct {
	templates.Base
	Tokens []Token
	Before int64 // where the list begins; 0 for the newest
	Older  int64 // where the next part begins; 0 if there is none
	Form   tokenForm
	Secret string // the text of a token that was just made
	Origin string // of this site, as the browser knows it
}

// tokenForm is the form of a new token.
type tokenForm struct {
	Name, NameError, AbilitiesError, DaysError string
	Chosen                                     Abilities
	Days                                       int
}

// MaxName is for the template.
func (tokenForm) MaxName() int { return MaxName }

// Lives are the lives that the form offers, in days.
func (tokenForm) Lives() []int { return []int{7, 30, 90, 365} }

// Abilities are those that the form offers.
func (tokenForm) Abilities() Abilities { return allAbilities }

var emptyForm = tokenForm{Chosen: allAbilities, Days: 90}

func parseToken(fields url.Values) (tokenForm, draft) {
	var f tokenForm
	var d draft
	f.Name, f.NameError = web.CheckLine(fields.Get("name"), "name", MaxName)
	f.Chosen, f.AbilitiesError = checkAbilities(fields["ability"])
	if text := fields.Get("days"); text != "" {
		days, err := strconv.Atoi(text)
		if err != nil {
			days = -1
		}
		f.Days, f.DaysError = days, checkDays(days)
	}
	d.name, d.abilities, d.days = f.Name, f.Chosen, f.Days
	return f, d
}

func (f tokenForm) valid() bool {
	return f.NameError == "" && f.AbilitiesError == "" && f.DaysError == ""
}

func newTokensPage(c echo.Context, form tokenForm) *tokensPage {
	page := &tokensPage{Form: form, Origin: origin(c)}
	page.Title = "API tokens"
	return page
}

func origin(c echo.Context) string { return c.Scheme() + "://" + c.Request().Host }

func (p *Pages) list(c echo.Context) error {
	page := newTokensPage(c, emptyForm)
	if err := p.fill(c, page); err != nil {
		return err
	}
	// Last, since this is the only copy: no error may come between it and the page.
	if made, ok := p.once.take(c); ok {
		page.Secret = p.signer.text(made.ID, made.Secret)
	}
	return p.html.HTML(c, http.StatusOK, "tokens", page)
}

// tokensOnPage is how many there are on a page.
const tokensOnPage = 20

// fill reads the part of the list that the request asks for.
func (p *Pages) fill(c echo.Context, page *tokensPage) error {
	before, err := web.BeforeQuery(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	list, err := p.store.list(ctx, auth.Current(ctx).ID, before, tokensOnPage+1)
	if err != nil {
		return err
	}
	page.Tokens, page.Older = web.Split(list, tokensOnPage, func(t Token) int64 { return t.ID })
	page.Before = before
	return nil
}

func (p *Pages) create(c echo.Context) error {
	fields, err := web.Form(c)
	if err != nil {
		return err
	}
	form, d := parseToken(fields)
	if !form.valid() {
		page := newTokensPage(c, form)
		if err := p.fill(c, page); err != nil {
			return err
		}
		return p.html.HTML(c, http.StatusUnprocessableEntity, "tokens", page)
	}
	ctx := c.Request().Context()
	if err := p.limits.Token(ctx, auth.Current(ctx).ID); err != nil {
		return web.OnPage(err, "tokens", newTokensPage(c, form))
	}
	secret := newSecret()
	t, err := p.store.create(ctx, auth.Current(ctx).ID, d, secret)
	if err != nil {
		return web.OnPage(err, "tokens", newTokensPage(c, form))
	}
	if err := p.once.give(c, made{UserID: auth.Current(ctx).ID, ID: t.ID, Secret: secret}); err != nil {
		return err
	}
	return web.SeeOther(c, "/tokens", web.FlashTokenMade)
}

func (p *Pages) revoke(c echo.Context) error {
	id, err := web.IDParam(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := p.store.revoke(ctx, auth.Current(ctx).ID, id); err != nil {
		return err
	}
	return web.SeeOther(c, "/tokens", web.FlashTokenRevoked)
}

type apiPage struct {
	templates.Base
	Origin  string
	Account auth.DemoAccount
}

func (p *Pages) explain(c echo.Context) error {
	page := &apiPage{Origin: origin(c), Account: p.account}
	if page.Account == (auth.DemoAccount{}) {
		page.Account = auth.DemoAccount{Email: "you@example.com", Password: "your password"}
	}
	page.Title = "API"
	return p.html.HTML(c, http.StatusOK, "api", page)
}
