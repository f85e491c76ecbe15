package auth

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/web"
)

// RegisterAPI adds /api/me. Load and what requires a token must be in the chain of r
// already.
func RegisterAPI(r *web.Routes) {
	r.GET("/api/me", me)
}

// meJSON is a user as only they see themselves.
type meJSON struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"`
	Email     string    `json:"email"`
	Bio       string    `json:"bio"`
	Role      Role      `json:"role"`
	CreatedAt time.Time `json:"created_at"`
	ServerID  int       `json:"server_id,omitempty"`
}

func me(c echo.Context) error {
	u := Current(c.Request().Context())
	return web.Answer{Status: http.StatusOK, Body: meJSON{
		ID: u.ID, Name: u.Name, Email: u.Email, Bio: u.Bio, Role: u.Role,
		CreatedAt: u.CreatedAt.UTC(), ServerID: web.ServerID(c),
	}}.Send(c)
}
