package jobs

import (
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"riverqueue.com/riverui"

	"freshread/internal/auth"
	"freshread/internal/web"
	"freshread/templates"
)

// Pages serves /jobs and River's own pages, /river.
type Pages struct {
	queue  *Queue
	html   *web.Renderer
	public bool
	river  http.Handler
}

const riverPath = "/river"

// NewPages returns the pages of a queue. If public is set everybody may see the runs
// of jobs; River's own pages, on which jobs can be changed, are for admins in any case.
func NewPages(queue *Queue, html *web.Renderer, public bool) (*Pages, error) {
	river, err := riverui.NewHandler(&riverui.HandlerOpts{
		Endpoints: riverui.NewEndpoints(queue.client, nil), Logger: queue.cfg.Log, Prefix: riverPath,
	})
	if err != nil {
		return nil, fmt.Errorf("jobs: River's pages: %w", err)
	}
	return &Pages{queue: queue, html: html, public: public, river: river}, nil
}

// Register adds the routes. auth.Load must be in the chain of r already.
func (p *Pages) Register(r *web.Routes) {
	r.GET("/jobs", p.list, auth.Inside(p.public))
	admins := r.With(auth.Inside(false))
	admins.Any(riverPath, p.serveRiver)
	admins.Any(riverPath+"/*", p.serveRiver)
}

func (p *Pages) serveRiver(c echo.Context) error {
	// Its script draws with styles in the page.
	h := c.Response().Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "private, no-cache")
	p.river.ServeHTTP(c.Response(), c.Request())
	return nil
}

// runsOnPage is how many runs a page lists.
const runsOnPage = 50

type jobsPage struct {
	templates.Base
	Runs       []Run
	Outbox     outboxState
	Trouble    string
	OwnQueue   bool // the queue has a database of its own
	Mode       Mode // of the summaries
	CommitWait time.Duration
	Admin      bool
}

func (p *Pages) list(c echo.Context) error {
	ctx := c.Request().Context()
	page := &jobsPage{
		Trouble: p.queue.Trouble(), OwnQueue: p.queue.inTx == nil, CommitWait: p.queue.cfg.CommitWait,
		Mode: p.queue.mode(SummarisePost{}.Kind()), Admin: auth.Current(ctx).Role == auth.Admin,
	}
	var err error
	if page.Runs, err = p.queue.runs.Latest(ctx, runsOnPage); err != nil {
		return err
	}
	if page.Outbox, err = p.queue.outbox.state(ctx); err != nil {
		return err
	}
	page.Title = "Jobs"
	return p.html.HTML(c, http.StatusOK, "jobs", page)
}
