package web

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"freshread/internal/dbroute"
	"freshread/templates"
)

// What middleware of the features tells package web about a request.
type (
	guardKey  struct{}
	markerKey struct{}
	viewerKey struct{}
)

// WithGuard says what was read to tell who makes the request. The reads bar shows
// it apart, since it is not part of the page.
func WithGuard(ctx context.Context, accesses []dbroute.Access) context.Context {
	return context.WithValue(ctx, guardKey{}, append(slices.Clip(guardAccesses(ctx)), accesses...))
}

func guardAccesses(ctx context.Context) []dbroute.Access {
	accesses, _ := ctx.Value(guardKey{}).([]dbroute.Access)
	return accesses
}

// WithMarker adds a marker to those that the client carries. It must come before
// the strategy.
func WithMarker(ctx context.Context, m dbroute.Marker) context.Context {
	return context.WithValue(ctx, markerKey{}, m)
}

func extraMarker(ctx context.Context) dbroute.Marker {
	m, _ := ctx.Value(markerKey{}).(dbroute.Marker)
	return m
}

// WithViewer says who is signed in.
func WithViewer(ctx context.Context, v templates.Viewer) context.Context {
	return context.WithValue(ctx, viewerKey{}, v)
}

func viewer(ctx context.Context) templates.Viewer {
	v, _ := ctx.Value(viewerKey{}).(templates.Viewer)
	return v
}

// IDParam reads an id of the route. What is no id names nothing.
func IDParam(c echo.Context, name string) (int64, error) {
	id, err := strconv.ParseInt(c.Param(name), 10, 64)
	if err != nil || id < 1 {
		return 0, fmt.Errorf("%s %q: %w", name, c.Param(name), ErrNotFound)
	}
	return id, nil
}
