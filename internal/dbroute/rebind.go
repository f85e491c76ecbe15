package dbroute

import (
	"strconv"
	"strings"
	"sync/atomic"
)

// Placeholders returns n of them, at least one, with commas between: for IN (…).
func Placeholders(n int) string { return strings.Repeat("?, ", n-1) + "?" }

// rebindDollar rewrites ? placeholders to $1, $2, …; quoted text and comments
// are left alone. PostgreSQL's operators that contain a question mark must be
// written as functions (jsonb_exists for ?).
func rebindDollar(query string) string {
	if !strings.Contains(query, "?") {
		return query
	}
	var b strings.Builder
	b.Grow(len(query) + 8)
	for n := 1; query != ""; {
		i := strings.IndexAny(query, "?'\"-/")
		if i < 0 {
			break
		}
		b.WriteString(query[:i])
		query = query[i:]
		if query[0] == '?' {
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
			n++
			query = query[1:]
			continue
		}
		end := opaqueLen(query)
		b.WriteString(query[:end])
		query = query[end:]
	}
	b.WriteString(query)
	return b.String()
}

// opaqueLen returns the length of the quoted text or comment at the start of s,
// or 1 if there is neither.
func opaqueLen(s string) int {
	end := ""
	switch {
	case s[0] == '\'' || s[0] == '"':
		end = s[:1]
	case strings.HasPrefix(s, "--"):
		end = "\n"
	case strings.HasPrefix(s, "/*"):
		end = "*/"
	default:
		return 1
	}
	if i := strings.Index(s[len(end):], end); i >= 0 {
		return i + 2*len(end)
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
