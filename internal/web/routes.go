package web

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
)

// Middleware is an echo middleware with the name that `app routes` prints.
type Middleware struct {
	Name string
	Func echo.MiddlewareFunc
}

// Route is one row of `app routes`.
type Route struct {
	Method, Path string
	Middleware   []string // outermost first
}

// Routes registers routes behind a chain of middleware and keeps a table of
// them, since the order of the chain is what keeps reads fresh.
type Routes struct {
	echo  *echo.Echo
	chain []Middleware
	table *[]Route
}

// NewRoutes registers on e.
func NewRoutes(e *echo.Echo) *Routes { return &Routes{echo: e, table: &[]Route{}} }

// With returns routes whose chain has more at its inner end.
func (r *Routes) With(more ...Middleware) *Routes {
	return &Routes{echo: r.echo, chain: join(r.chain, more), table: r.table}
}

// GET registers a page; more runs inside the chain.
func (r *Routes) GET(path string, h echo.HandlerFunc, more ...Middleware) {
	r.add(http.MethodGet, path, h, more)
}

// POST registers what a form is sent to; more runs inside the chain.
func (r *Routes) POST(path string, h echo.HandlerFunc, more ...Middleware) {
	r.add(http.MethodPost, path, h, more)
}

// PUT registers what replaces something; more runs inside the chain.
func (r *Routes) PUT(path string, h echo.HandlerFunc, more ...Middleware) {
	r.add(http.MethodPut, path, h, more)
}

// DELETE registers what deletes something; more runs inside the chain.
func (r *Routes) DELETE(path string, h echo.HandlerFunc, more ...Middleware) {
	r.add(http.MethodDelete, path, h, more)
}

// Any registers what handles every method by itself; more runs inside the chain.
func (r *Routes) Any(path string, h echo.HandlerFunc, more ...Middleware) {
	r.add(anyMethod, path, h, more)
}

// anyMethod is the method of a route that takes all.
const anyMethod = "*"

// Table returns all routes, in order of registration.
func (r *Routes) Table() []Route { return *r.table }

func (r *Routes) add(method, path string, h echo.HandlerFunc, more []Middleware) {
	route := Route{Method: method, Path: path}
	chain := join(r.chain, more)
	for _, m := range chain {
		route.Middleware = append(route.Middleware, m.Name)
	}
	for _, m := range slices.Backward(chain) {
		h = m.Func(h) // here and once: echo would put the chain together for each request
	}
	if method == anyMethod {
		r.echo.Any(path, h)
	} else {
		r.echo.Add(method, path, h)
	}
	*r.table = append(*r.table, route)
}

func join(a, b []Middleware) []Middleware {
	return append(append([]Middleware(nil), a...), b...)
}
