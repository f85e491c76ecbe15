// Package status shows what the servers are doing: the page /cluster, live, and
// /metrics; and /limits, what the limits have counted of whoever looks.
package status

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"freshread/internal/auth"
	"freshread/internal/dbroute"
	"freshread/internal/web"
	"freshread/templates"
)

// Config is what the pages of status need.
type Config struct {
	Clusters []*dbroute.Cluster
	Window   time.Duration // READ_WINDOW, which should be longer than any lag
	Public   bool          // for everybody, not only for admins
	Limits   []Limit
	Done     <-chan struct{}
	// Collectors are the metrics of the site's other parts.
	Collectors []prometheus.Collector
}

// Pages serves /cluster, /metrics and /limits.
type Pages struct {
	cfg     Config
	html    *web.Renderer
	metrics http.Handler
}

// NewPages returns pages. Live pages end when cfg.Done is closed.
func NewPages(cfg Config, html *web.Renderer) *Pages {
	return &Pages{cfg, html, Metrics(cfg.Clusters, cfg.Collectors...)}
}

// Register adds the routes. auth.Load must be in the chain of r already.
func (p *Pages) Register(r *web.Routes) {
	r.GET("/limits", p.limits)
	r = r.With(auth.Inside(p.cfg.Public))
	r.GET("/cluster", p.show)
	r.GET("/cluster/events", p.events)
	r.GET("/metrics", func(c echo.Context) error {
		p.metrics.ServeHTTP(c.Response(), c.Request())
		return nil
	})
}

type clusterPage struct {
	templates.Base
	Clusters []clusterView
}

func (p *Pages) show(c echo.Context) error {
	page := &clusterPage{Clusters: p.views()}
	page.Title = "Cluster"
	return p.html.HTML(c, http.StatusOK, "cluster", page)
}

func (p *Pages) views() []clusterView {
	var views []clusterView
	for _, cluster := range p.cfg.Clusters {
		views = append(views, view(cluster, p.cfg.Window, time.Now()))
	}
	return views
}

// refresh is how often a live page gets news.
const refresh = time.Second

// Life is how long a stream lasts: the page then asks for the next, and the guard is
// asked whether its viewer may still have it.
const Life = 5 * time.Second

// events streams the changing part of the page as server-sent events. It goes on while
// the primary is down: the guard could not be asked, and no log-out could have been
// saved.
func (p *Pages) events(c echo.Context) error {
	web.BeginEvents(c)
	began := time.Now()
	ticker := time.NewTicker(refresh)
	defer ticker.Stop()
	for time.Since(began) < Life || p.cfg.Clusters[0].PrimaryDown() {
		html, err := p.html.Part("cluster-state", p.views())
		if err != nil {
			return err
		}
		if err := web.SendEvent(c, "state", html); err != nil {
			return nil // the page was closed, or only its header was asked for
		}
		select {
		case <-ticker.C:
		case <-c.Request().Context().Done():
			return nil
		case <-p.cfg.Done:
			return nil
		}
	}
	return nil
}
