// Package tokens is API tokens: how they are made, shown and revoked, and how
// they tell who a request of the API is by.
package tokens

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"freshread/internal/web"
)

// Token is what its owner can see of a token. The secret is not kept.
type Token struct {
	ID         int64
	Name       string
	Abilities  Abilities
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero if it does not expire
	LastUsedAt time.Time // zero if it was not used yet; to the minute
}

// Expired reports whether the token has expired.
func (t Token) Expired() bool { return !t.ExpiresAt.IsZero() && !time.Now().Before(t.ExpiresAt) }

// Ability is something that a token may be used for.
type Ability string

const (
	Read  Ability = "read"
	Write Ability = "write"
)

// Abilities are those of one token.
type Abilities []Ability

// allAbilities are all there are, in the order in which they are shown.
var allAbilities = Abilities{Read, Write}

// Has reports whether a is among them.
func (s Abilities) Has(a Ability) bool { return slices.Contains(s, a) }

// String lists them, separated by spaces. It is also how they are saved.
func (s Abilities) String() string {
	texts := make([]string, len(s))
	for i, a := range s {
		texts[i] = string(a)
	}
	return strings.Join(texts, " ")
}

func parseAbilities(text string) Abilities {
	var s Abilities
	for field := range strings.FieldsSeq(text) {
		s = append(s, Ability(field))
	}
	return s
}

// MaxName is the longest name, in characters; MaxDays the longest life.
const (
	MaxName = 100
	MaxDays = 3650
)

// ErrNotFound is a token that does not exist, or is somebody else's.
var ErrNotFound = fmt.Errorf("token %w", web.ErrNotFound)

// draft is a token to be made.
type draft struct {
	name      string
	abilities Abilities
	days      int // until it expires; 0 for never
}

func (d draft) expiresAt() time.Time {
	if d.days == 0 {
		return time.Time{}
	}
	return time.Now().AddDate(0, 0, d.days).UTC().Truncate(time.Second)
}

// checkAbilities orders what was chosen, and says what is wrong with it.
func checkAbilities(chosen []string) (s Abilities, problem string) {
	for _, a := range chosen {
		if !allAbilities.Has(Ability(a)) {
			return nil, "The abilities are read and write."
		}
	}
	for _, a := range allAbilities {
		if slices.Contains(chosen, string(a)) {
			s = append(s, a)
		}
	}
	if len(s) == 0 {
		return nil, "Please choose what the token may do."
	}
	return s, ""
}

func checkDays(days int) (problem string) {
	if days < 0 || days > MaxDays {
		return fmt.Sprintf("A token lives 1 to %d days. Without a number it does not expire.", MaxDays)
	}
	return ""
}
