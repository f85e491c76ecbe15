package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"freshread/templates"
)

// Limiter counts what a subject, such as a client's address, does. If that is too
// often, the error has a method RetryAfter() time.Duration, and becomes a 429. On any
// other error too, what was to be done must not be done.
type Limiter interface {
	Hit(ctx context.Context, subject string) error
}

func retryAfter(err error) (after time.Duration, ok bool) {
	var limited interface{ RetryAfter() time.Duration }
	if ok = errors.As(err, &limited); ok {
		after = limited.RetryAfter()
	}
	return after, ok
}

func tooOften(after time.Duration) Problem {
	return Problem{Status: http.StatusTooManyRequests, Title: "That was too often", Text: fmt.Sprintf("Please try again in %s.", templates.InWords(after))}
}
