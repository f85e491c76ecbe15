package auth

import (
	"errors"
	"fmt"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/internal/web"
)

// EnterDemo returns who is signed in. A visitor of a demo is logged in as its first
// person, as by the button on the log-in page.
func (p *Pages) EnterDemo(c echo.Context) (User, error) {
	ctx := c.Request().Context()
	if u := Current(ctx); u.ID != 0 {
		return u, nil
	}
	account := p.demo.Account()
	user, err := p.enter(c, account.Email, account.Password)
	if errors.Is(err, ErrWrongPassword) {
		return User{}, web.Explain(fmt.Errorf("enter demo: %w", web.ErrUnavailable),
			"The people of the demo are not in this database. app migrate --seed adds them to an empty one.")
	}
	if err != nil {
		return User{}, err
	}
	return p.store.ByID(dbroute.UsePrimary(ctx), user.UserID)
}
