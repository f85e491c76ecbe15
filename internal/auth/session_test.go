package auth

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestSessionKeysRotate(t *testing.T) {
	key := func(b string) []byte { return bytes.Repeat([]byte(b), 32) }
	cookies := func(keys ...[]byte) *Cookies {
		c, err := NewCookies("main", keys, false)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	written := func(c *Cookies) *http.Request {
		response := httptest.NewRecorder()
		if err := c.set(httptest.NewRequest(http.MethodGet, "/", nil), response, session{"the secret"}); err != nil {
			t.Fatal(err)
		}
		next := httptest.NewRequest(http.MethodGet, "/", nil)
		next.AddCookie(response.Result().Cookies()[0])
		return next
	}
	before, rotated, after := cookies(key("a")), cookies(key("b"), key("a")), cookies(key("b"))
	for _, c := range []struct {
		name    string
		request *http.Request
		reader  *Cookies
		want    string
	}{
		{"an old session after the rotation", written(before), rotated, "the secret"},
		{"a new session after the rotation", written(rotated), after, "the secret"},
		{"an old session once the old key is gone", written(before), after, ""},
	} {
		if got := c.reader.secret(c.request); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestSitesOnPortsOfOneHostKeepTheirSessions(t *testing.T) {
	keys := [][]byte{bytes.Repeat([]byte("a"), 32)}
	next := httptest.NewRequest(http.MethodGet, "/", nil)
	clusters := []string{"first", "second"}
	for _, name := range clusters {
		c, err := NewCookies(name, keys, false)
		if err != nil {
			t.Fatal(err)
		}
		response := httptest.NewRecorder()
		if err := c.set(next, response, session{name}); err != nil {
			t.Fatal(err)
		}
		next.AddCookie(response.Result().Cookies()[0])
	}
	for _, name := range clusters {
		c, err := NewCookies(name, keys, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.secret(next); got != name {
			t.Errorf("the session of %s is %q", name, got)
		}
	}
}
