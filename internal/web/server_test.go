package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"freshread/templates"
)

// What is served under /static/ are the files there, however a path is written.
func TestOnlyAssetsAreServed(t *testing.T) {
	site := Handler(nil, http.NotFoundHandler(), templates.Files)
	get := func(path string) *httptest.ResponseRecorder {
		response := httptest.NewRecorder()
		site.ServeHTTP(response, httptest.NewRequest(http.MethodGet, path, nil))
		return response
	}
	assets, err := templates.Assets(templates.Files)
	if err != nil {
		t.Fatal(err)
	}
	style, err := assets["asset"].(func(string) (string, error))("style.css")
	if err != nil {
		t.Fatal(err)
	}
	for path, cache := range map[string]string{
		style:               "public, max-age=31536000, immutable",
		style + "0":         "no-store", // as of another version of the site
		"/static/style.css": "no-store",
	} {
		if r := get(path); r.Code != http.StatusOK || r.Header().Get("Cache-Control") != cache ||
			!strings.HasPrefix(r.Header().Get("Content-Type"), "text/css") || !strings.Contains(r.Body.String(), ":root") {
			t.Errorf("%s: %d %v", path, r.Code, r.Header())
		}
	}
	for _, path := range []string{
		"/static/nothing.css", "/static/", "/static/%2f", "/static/.", "/static/%2e", "/static/.%2f", "/static/..%2f", "/static/..%2fstatic",
		"/static/..%2flayout.html", "/static/%2e%2e%2flayout.html", "/static/style.css%2f..%2f..%2flayout.html", "/static/..%2fpages%2fhome.html",
		"/static/..%5clayout.html", "/static/%2flayout.html", "/static/style.css%00", "/static/style.css%2f",
	} {
		if r := get(path); r.Code == http.StatusOK || strings.Contains(r.Body.String(), "style.css") || r.Header().Get("Cache-Control") != "" {
			t.Errorf("%s: %d %q\n%s", path, r.Code, r.Header().Get("Cache-Control"), r.Body)
		}
	}
}
