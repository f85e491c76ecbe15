// Package web is what all pages share: the order of the middleware, the two
// strategies and the markers they keep in cookies, errors, rendering.
package web

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"freshread/internal/dbroute"
	"freshread/templates"
)

// maxBody bounds a request's body: the longest post, its characters percent-
// encoded four bytes each, with room to spare.
const maxBody = "512K"

// NewEcho returns an echo with what every route of the site shares. With
// secureCookies, cookies travel over TLS only. Trusted proxies say whom requests come
// from, and whether over TLS.
func NewEcho(log *slog.Logger, cluster *dbroute.Cluster, renderer *Renderer, secureCookies bool, trustedProxies ...netip.Prefix) *echo.Echo {
	e := echo.New()
	e.IPExtractor, e.SchemeExtractor = addressOf(trustedProxies), schemeOf(trustedProxies)
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = (&errorHandler{renderer: renderer, log: log}).handle
	e.Use(
		identify,
		logRequests(log, append([]*dbroute.Cluster{cluster}, renderer.beside...)),
		middleware.RecoverWithConfig(middleware.RecoverConfig{
			LogErrorFunc: func(_ echo.Context, err error, stack []byte) error {
				return fmt.Errorf("panic: %v\n%s", err, stack) // whatever it wraps, it is a fault of ours
			},
		}),
		secure(siteCookies{cluster.Name(), secureCookies}),
		middleware.BodyLimit(maxBody),
		refuseCrossOrigin(),
	)
	return e
}

type headKey struct{}

// isHead reports whether a request that handlers take for a GET is a HEAD.
func isHead(r *http.Request) bool { return r.Context().Value(headKey{}) != nil }

// Handler serves a site: its pages by echo, its assets and health, and HEAD for
// every GET.
func Handler(cluster *dbroute.Cluster, pages http.Handler, assets fs.FS) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", Healthz)
	mux.HandleFunc("GET /readyz", Readyz(cluster))
	mux.HandleFunc("GET /static/{file}", serveAsset(assets))
	mux.Handle("/", pages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			// net/http drops the body by the request that it holds itself.
			r = r.WithContext(context.WithValue(r.Context(), headKey{}, true))
			r.Method = http.MethodGet
		}
		mux.ServeHTTP(w, r)
	})
}

// serveAsset serves the files of static/, and nothing else of files: a name may hold an
// escaped slash, or be that of a folder. Browsers may keep an asset whose URL names its
// content, which it does not while another version of the site is rolled out: a page of
// that one names its own.
func serveAsset(files fs.FS) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := "static/" + r.PathValue("file")
		content, err := fs.ReadFile(files, path)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		cache := "no-store"
		if r.URL.Query().Get("v") == templates.AssetHash(content) {
			cache = "public, max-age=31536000, immutable"
		}
		w.Header().Set("Cache-Control", cache)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		http.ServeContent(w, r, path, time.Time{}, bytes.NewReader(content))
	}
}

// siteCookies is what the site's cookies without a secret have in common. Their names end in
// the cluster's: a cookie is for all ports of a host, and other clusters' sites are there.
type siteCookies struct {
	cluster string
	secure  bool // for TLS only
}

// cookiesKey is where a request finds its site's cookies.
const cookiesKey = "cookies"

func secure(shared siteCookies) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set(cookiesKey, shared)
			h := c.Response().Header()
			h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; font-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Referrer-Policy", "same-origin")
			return next(c)
		}
	}
}

func cookiesOf(c echo.Context) siteCookies {
	shared, _ := c.Get(cookiesKey).(siteCookies)
	return shared
}

func (s siteCookies) name(name string) string { return name + "." + s.cluster }

// cookie returns the value of one that setCookie has set, or "".
func cookie(c echo.Context, name string) string {
	found, err := c.Cookie(cookiesOf(c).name(name))
	if err != nil {
		return ""
	}
	return found.Value
}

// setCookie sets a cookie that holds no secret; an empty value deletes it.
func setCookie(c echo.Context, name, value string, maxAge int) {
	if value == "" {
		maxAge = -1
	}
	shared := cookiesOf(c)
	c.SetCookie(&http.Cookie{
		Name: shared.name(name), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: shared.secure,
	})
}

// refuseCrossOrigin uses only the check of http.CrossOriginProtection: its own
// handler answers in plain text. The API heeds no cookie, so that a request from
// another site can do nothing there that its sender could not do alone.
func refuseCrossOrigin() echo.MiddlewareFunc {
	protection := http.NewCrossOriginProtection()
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if err := protection.Check(c.Request()); err != nil && !isAPI(c.Request()) {
				return echo.NewHTTPError(http.StatusForbidden).SetInternal(err)
			}
			return next(c)
		}
	}
}
