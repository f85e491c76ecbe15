package web

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/templates"
)

// Renderer turns pages into HTML. It parses every template at start, so that a
// broken one stops the program and not a request.
type Renderer struct {
	cluster *dbroute.Cluster
	beside  []*dbroute.Cluster
	site    templates.Site
	parts   *template.Template
	pages   map[string]*template.Template
}

// NewRenderer parses all pages of files. What is in site is on every page. The reads
// bar shows the accesses of the cluster, and apart from them those of the clusters
// beside.
func NewRenderer(cluster *dbroute.Cluster, files fs.FS, site templates.Site, beside ...*dbroute.Cluster) (*Renderer, error) {
	assets, err := templates.Assets(files)
	if err != nil {
		return nil, fmt.Errorf("read assets: %w", err)
	}
	shared, err := template.New("").Funcs(templates.Funcs).Funcs(assets).ParseFS(files, "layout.html", "parts/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse layout: %w", err)
	}
	paths, err := fs.Glob(files, "pages/*.html")
	if err != nil {
		return nil, fmt.Errorf("find pages: %w", err)
	}
	r := &Renderer{cluster: cluster, beside: beside, site: site, parts: template.Must(shared.Clone()), pages: map[string]*template.Template{}}
	for _, path := range paths {
		page, err := template.Must(shared.Clone()).ParseFS(files, path)
		if err != nil {
			return nil, fmt.Errorf("parse page: %w", err)
		}
		name := path[len("pages/") : len(path)-len(".html")]
		r.pages[name] = page
	}
	return r, nil
}

// Part renders a template of parts/ by itself, for what changes on a live page.
func (r *Renderer) Part(name string, data any) ([]byte, error) {
	var out bytes.Buffer
	if err := r.parts.ExecuteTemplate(&out, name, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// Page is data for a template that embeds templates.Base.
type Page interface{ Common() *templates.Base }

// HTML renders pages/NAME.html, all of it before the first byte is sent.
func (r *Renderer) HTML(c echo.Context, status int, name string, page Page) error {
	t, ok := r.pages[name]
	if !ok {
		return fmt.Errorf("render %s: no such page", name)
	}
	r.fill(c, page.Common())
	// A page that failed for it says so itself, and that it could not be read.
	page.Common().ReadOnly = status < http.StatusInternalServerError && r.cluster.PrimaryDown()
	var body bytes.Buffer
	if err := t.ExecuteTemplate(&body, "layout.html", page); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	cache := "private, no-cache"
	if page.Common().Viewer.ID != 0 {
		cache = "private, no-store" // after a log-out, Back must not show the profile
	}
	c.Response().Header().Set("Cache-Control", cache)
	return c.HTMLBlob(status, body.Bytes())
}

func (r *Renderer) fill(c echo.Context, base *templates.Base) {
	ctx := c.Request().Context()
	base.Site = r.site
	if chosen := Strategy(c); chosen != "" {
		base.Strategy = chosen
	}
	if r.site.HasTour() {
		base.Tour = c.QueryParam("tour")
	}
	base.Path, base.Back = c.Request().URL.Path, "/"
	if c.Request().Method == http.MethodGet {
		base.Back = c.Request().URL.RequestURI() // what a form was sent to may be no page
	}
	base.RequestID = requestID(ctx)
	base.Viewer = viewer(ctx)
	base.Flash = takeFlash(c)
	scope := r.cluster.Scope(ctx)
	base.Unknown = scope == nil // the chain makes it after the guard and before the user is loaded
	if !r.site.ShowReads {
		return
	}
	base.Reads = &templates.Reads{Guard: shown(guardAccesses(ctx))}
	if scope != nil {
		base.Reads.Accesses = shown(scope.Accesses())
	}
	for _, other := range r.beside {
		if scope := other.Scope(ctx); scope != nil {
			base.Reads.Beside = append(base.Reads.Beside, templates.ClusterReads{Cluster: other.Name(), Accesses: shown(scope.Accesses())})
		}
	}
}

func shown(accesses []dbroute.Access) []templates.Access {
	var list []templates.Access
	for _, a := range accesses {
		list = append(list, templates.Access{
			Name: a.Name, Write: a.Write, ServerID: a.ServerID, Role: string(a.Role),
			Reason: string(a.Reason), Duration: a.Duration.Round(time.Microsecond), Failed: a.Failed,
		})
	}
	return list
}
