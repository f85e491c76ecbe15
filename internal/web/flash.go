package web

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// Flash is a message for the next page. It travels in a cookie of its own, as a
// name and not as text, so that nobody can put words in the site's mouth.
type Flash string

const (
	FlashPostSaved      Flash = "post-saved"
	FlashPostDeleted    Flash = "post-deleted"
	FlashCommentSaved   Flash = "comment-saved"
	FlashCommentDeleted Flash = "comment-deleted"
	FlashWelcome        Flash = "welcome"
	FlashLoggedIn       Flash = "logged-in"
	FlashLoggedOut      Flash = "logged-out"
	FlashAllLoggedOut   Flash = "all-logged-out"
	FlashProfile        Flash = "profile-saved"
	FlashPassword       Flash = "password-changed"
	FlashTokenMade      Flash = "token-made"
	FlashTokenRevoked   Flash = "token-revoked"
)

func (f Flash) text() string {
	switch f {
	case FlashPostSaved:
		return "Your post is saved."
	case FlashPostDeleted:
		return "The post is deleted."
	case FlashCommentSaved:
		return "Your comment is saved."
	case FlashCommentDeleted:
		return "The comment is deleted."
	case FlashWelcome:
		return "Welcome. Your account is ready."
	case FlashLoggedIn:
		return "You are logged in."
	case FlashLoggedOut:
		return "You are logged out."
	case FlashAllLoggedOut:
		return "You are logged out everywhere."
	case FlashProfile:
		return "Your profile is saved."
	case FlashPassword:
		return "Your password is changed, and all other log-ins have ended."
	case FlashTokenMade:
		return "Your token is made."
	case FlashTokenRevoked:
		return "The token is revoked."
	}
	return ""
}

const (
	flashCookie = "flash"
	flashAge    = 60 // seconds: the next page follows at once, or never
)

// SeeOther answers a form that was saved, with a message for the page after it.
func SeeOther(c echo.Context, path string, message Flash) error {
	setCookie(c, flashCookie, string(message), flashAge)
	return c.Redirect(http.StatusSeeOther, path)
}

// takeFlash returns the message and deletes it, since it is about to be shown.
func takeFlash(c echo.Context) string {
	message := Flash(cookie(c, flashCookie))
	if message != "" {
		setCookie(c, flashCookie, "", 0)
	}
	return message.text()
}
