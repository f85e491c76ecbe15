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
	site    templates.Site
	pages   map[string]*template.Template
}

// NewRenderer parses all pages of files. What is in site is on every page.
func NewRenderer(cluster *dbroute.Cluster, files fs.FS, site templates.Site) (*Renderer, error) {
	shared, err := template.New("").Funcs(templates.Funcs).ParseFS(files, "layout.html", "parts/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse layout: %w", err)
	}
	paths, err := fs.Glob(files, "pages/*.html")
	if err != nil {
		return nil, fmt.Errorf("find pages: %w", err)
	}
	r := &Renderer{cluster: cluster, site: site, pages: map[string]*template.Template{}}
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

// Page is data for a template that embeds templates.Base.
type Page interface{ Common() *templates.Base }

// HTML renders pages/NAME.html, all of it before the first byte is sent.
func (r *Renderer) HTML(c echo.Context, status int, name string, page Page) error {
	t, ok := r.pages[name]
	if !ok {
		return fmt.Errorf("render %s: no such page", name)
	}
	r.fill(c, page.Common())
	var body bytes.Buffer
	if err := t.ExecuteTemplate(&body, "layout.html", page); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	h := c.Response().Header()
	h.Set("Cache-Control", "private, no-cache") // Back must not show what was there before a save
	return c.HTMLBlob(status, body.Bytes())
}

func (r *Renderer) fill(c echo.Context, base *templates.Base) {
	base.Site = r.site
	base.Path = c.Request().URL.Path
	base.RequestID = requestID(c.Request().Context())
	if !r.site.ShowReads {
		return
	}
	base.Reads = &templates.Reads{}
	if scope := r.cluster.Scope(c.Request().Context()); scope != nil {
		for _, a := range scope.Accesses() {
			base.Reads.Accesses = append(base.Reads.Accesses, templates.Access{
				Name: a.Name, Write: a.Write, ServerID: a.ServerID, Role: string(a.Role),
				Reason: string(a.Reason), Duration: a.Duration.Round(time.Microsecond), Failed: a.Failed,
			})
		}
	}
}

// SeeOther answers a form that was saved.
func SeeOther(c echo.Context, path string) error { return c.Redirect(http.StatusSeeOther, path) }
