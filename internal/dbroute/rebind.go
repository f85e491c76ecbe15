package dbroute

import (
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
)

// Placeholders returns n of them with commas between: for IN (…). Where there are none
// it is NULL, with which neither IN nor NOT IN holds of anything.
func Placeholders(n int) string {
	if n < 1 {
		return "NULL"
	}
	return strings.Repeat("?, ", n-1) + "?"
}

// rebindDollar rewrites ? placeholders to $1, $2, …; quoted text and comments
// are left alone. PostgreSQL's operators that contain a question mark must be
// written as functions (jsonb_exists for ?).
func rebindDollar(query string) string {
	if !strings.Contains(query, "?") {
		return query
	}
	var b strings.Builder
	b.Grow(len(query) + 8)
	n, copied := 0, 0
	for i := 0; i < len(query); {
		if query[i] != '?' {
			i = opaqueEnd(query, i)
			continue
		}
		n++
		b.WriteString(query[copied:i])
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		i++
		copied = i
	}
	b.WriteString(query[copied:])
	return b.String()
}

// opaqueEnd returns where the quoted text or comment ends that begins at i, as
// PostgreSQL has them (manual section 4.1). If none does, that is the next byte.
func opaqueEnd(query string, i int) int {
	rest := query[i:]
	switch {
	case rest[0] == '\'' && i > 0 && (query[i-1] == 'E' || query[i-1] == 'e') && !inWord(query, i-1):
		return i + escapedLen(rest)
	case rest[0] == '\'', rest[0] == '"':
		return after(query, i+1, rest[:1])
	case strings.HasPrefix(rest, "--"):
		return after(query, i+2, "\n")
	case strings.HasPrefix(rest, "/*"):
		return i + commentLen(rest)
	case rest[0] == '$' && !inWord(query, i):
		if tag := dollarTag.FindString(rest); tag != "" {
			return after(query, i+len(tag), tag)
		}
	}
	return i + 1
}

var dollarTag = regexp.MustCompile(`^\$([A-Za-z_\x80-\x{10ffff}][0-9A-Za-z_\x80-\x{10ffff}]*)?\$`)

// after returns the place after the next end.
func after(query string, from int, end string) int {
	if i := strings.Index(query[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(query)
}

// inWord reports whether what is at i goes on with a word, of which it is no quote.
func inWord(query string, i int) bool {
	if i == 0 {
		return false
	}
	c := query[i-1]
	return c == '_' || c == '$' || c >= 0x80 || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// escapedLen is the length of what an escape string, E'it\'s', has from its quote on.
func escapedLen(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\', strings.HasPrefix(s[i:], "''"):
			i++
		case s[i] == '\'':
			return i + 1
		}
	}
	return len(s)
}

// commentLen is the length of a comment, in which there may be others.
func commentLen(s string) int {
	depth := 0
	for i := 0; i+1 < len(s); i++ {
		switch s[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(s)
}

// maxRebound bounds the cache against programs that build statements at run
// time; a statement beyond it is rewritten each time.
const maxRebound = 1000

// rebinder caches rewritten statements, since a program has few of them and
// runs each often. Readers take no lock.
type rebinder struct {
	rewrite func(string) string
	known   atomic.Pointer[map[string]string]
}

func (r *rebinder) rebind(query string) string {
	known := r.known.Load()
	if known != nil {
		if rebound, ok := (*known)[query]; ok {
			return rebound
		}
	}
	rebound := r.rewrite(query)
	r.add(known, query, rebound)
	return rebound
}

// add may lose to a concurrent add, in which case the statement is simply
// rewritten once more.
func (r *rebinder) add(old *map[string]string, query, rebound string) {
	next := map[string]string{query: rebound}
	if old != nil {
		if len(*old) >= maxRebound {
			return
		}
		for q, s := range *old {
			next[q] = s
		}
	}
	r.known.CompareAndSwap(old, &next)
}
