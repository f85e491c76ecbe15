package status

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"freshread/internal/cache"
	"freshread/templates"
)

// Limit is a limit as /limits shows it to whom it concerns.
type Limit struct {
	Limiter *cache.Limiter
	Title   string
	Subject func(echo.Context) string // "" for whom it does not concern
}

type limitsPage struct {
	templates.Base
	Limits []limitView
}

// limitView is what a client has used of a limit.
type limitView struct {
	Name, Title string
	Limit       cache.Limit
	Usage       cache.Usage
}

// Left is how many hits the client has at this moment.
func (v limitView) Left() int { return v.Limit.Hits - v.Usage.Used }

// MeterWidth is the width of the meter in the template's units, and Filled how much
// of it is used.
func (limitView) MeterWidth() int { return meterWidth }
func (v limitView) Filled() int   { return meterWidth * v.Usage.Used / v.Limit.Hits }

const meterWidth = 600

// Server is the server that has told the usage; nil if that is not to be seen.
func (p *limitsPage) Server(limit string) *templates.Access {
	if p.Reads == nil {
		return nil
	}
	for _, cluster := range p.Reads.Beside {
		for _, a := range cluster.Accesses {
			if a.Name == "limits."+limit {
				return &a
			}
		}
	}
	return nil
}

// limits shows what is counted of whoever looks, and counts nothing.
func (p *Pages) limits(c echo.Context) error {
	page := &limitsPage{}
	page.Title = "Limits"
	for _, l := range p.cfg.Limits {
		subject := l.Subject(c)
		if subject == "" {
			continue
		}
		usage, err := l.Limiter.Usage(c.Request().Context(), subject)
		if err != nil {
			return err
		}
		page.Limits = append(page.Limits, limitView{l.Limiter.Name(), l.Title, l.Limiter.Limit(), usage})
	}
	return p.html.HTML(c, http.StatusOK, "limits", page)
}
