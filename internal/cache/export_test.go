package cache

import (
	"fmt"

	"freshread/internal/dbroute"
)

// CleanUpOnce is one round of CleanUp.
var CleanUpOnce = cleanUp

// HitSQL is the statement of Limiter.Hit.
var HitSQL = hitSQL

// FindSQL is the statement of a look-up of one entry.
func FindSQL(e dbroute.Engine) string { return fmt.Sprintf(newStatements(e).find, "?") }

// Row is the key of a subject's row.
func (l *Limiter) Row(subject string) string { return l.row(subject) }
