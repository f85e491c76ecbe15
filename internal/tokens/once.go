package tokens

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gorilla/securecookie"
	"github.com/labstack/echo/v4"

	"freshread/internal/auth"
	"freshread/internal/web"
)

// Once carries the secret of a new token over the redirect to the page that shows
// it, once. A secret does not belong into a URL, which is kept in histories and
// logs, nor into the database. To show it in answer to the POST would spare the
// cookie, and a reload of that page would make a second token. The cookie is
// encrypted, is sent to /tokens alone, and is gone once that has been shown.
type Once struct {
	name   string
	codecs []securecookie.Codec
	secure bool
}

const (
	oncePath = "/tokens"
	onceLife = time.Minute
)

// NewOnce derives keys of its own from keys; see web.NewMarkers. The cluster's name
// tells the cookie from those of sites on other ports. With secure it travels over
// TLS only.
func NewOnce(clusterName string, keys [][]byte, secure bool) (*Once, error) {
	derived, err := web.DeriveKeys(keys, "freshread new token", 64)
	if err != nil {
		return nil, fmt.Errorf("new token: %w", err)
	}
	o := &Once{name: "new-token." + clusterName, secure: secure}
	for _, key := range derived {
		codec := securecookie.New(key[:32], key[32:]).MaxAge(int(onceLife / time.Second))
		o.codecs = append(o.codecs, codec.SetSerializer(securecookie.JSONEncoder{}))
	}
	return o, nil
}

// made is a token that was just made.
type made struct {
	UserID, ID int64
	Secret     string
}

func (o *Once) give(c echo.Context, m made) error {
	value, err := securecookie.EncodeMulti(o.name, m, o.codecs...)
	if err != nil {
		return fmt.Errorf("new token: %w", err)
	}
	c.SetCookie(o.cookie(value, int(onceLife/time.Second)))
	return nil
}

// take returns what was given to the signed-in user, and takes it from the browser.
func (o *Once) take(c echo.Context) (made, bool) {
	cookie, err := c.Cookie(o.name)
	if err != nil {
		return made{}, false
	}
	c.SetCookie(o.cookie("", -1))
	var m made
	err = securecookie.DecodeMulti(o.name, cookie.Value, &m, o.codecs...)
	return m, err == nil && m.UserID == auth.Current(c.Request().Context()).ID
}

func (o *Once) cookie(value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: o.name, Value: value, Path: oncePath, MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: o.secure,
	}
}
