package web

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// Choice lets each visitor of a demo choose the strategy of their own reads, to see
// the difference on the same page.
type Choice struct {
	standard string
	options  map[string]Middleware
}

// NewChoice offers strategies; standard is the one of who chose none.
func NewChoice(options map[string]Middleware, standard string) *Choice {
	return &Choice{standard, options}
}

const choiceCookie = "strategy"

func (s *Choice) of(c echo.Context) string {
	chosen := cookie(c, choiceCookie)
	if _, ok := s.options[chosen]; ok {
		return chosen
	}
	return s.standard
}

// Middleware runs the strategy that the visitor chose.
func (s *Choice) Middleware() Middleware {
	return Middleware{"Choice", func(next echo.HandlerFunc) echo.HandlerFunc {
		chosen := map[string]echo.HandlerFunc{}
		for name, m := range s.options {
			chosen[name] = m.Func(next)
		}
		return func(c echo.Context) error {
			name := s.of(c)
			c.Set(strategyKey, name)
			return chosen[name](c)
		}
	}}
}

// strategyKey is where the strategy in effect is kept, if it is not the site's.
const strategyKey = "strategy"

// Strategy returns the strategy in effect for a request, or "" if it is the
// site's.
func Strategy(c echo.Context) string {
	name, _ := c.Get(strategyKey).(string)
	return name
}

// MayBeStale reports whether the strategy in effect may show a client less than
// it has written.
func MayBeStale(c echo.Context) bool { return Strategy(c) != StrategyCommit }

// Save takes the form of the switch in the page header, and goes back to the
// page that it was on.
func (s *Choice) Save(c echo.Context) error {
	fields, err := Form(c)
	if err != nil {
		return err
	}
	name := fields.Get("strategy")
	if _, ok := s.options[name]; !ok {
		return echo.NewHTTPError(http.StatusBadRequest)
	}
	s.Choose(c, name)
	return c.Redirect(http.StatusSeeOther, LocalPath(fields.Get("back")))
}

// Choose makes a strategy the visitor's, for as long as the browser runs.
func (s *Choice) Choose(c echo.Context, name string) { setCookie(c, choiceCookie, name, 0) }

// Reset takes back what the visitor has chosen.
func (s *Choice) Reset(c echo.Context) { setCookie(c, choiceCookie, "", 0) }
