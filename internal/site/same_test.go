package site_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

// Engines differ in time zones, in which texts they take for equal, and in what
// they cut off. The pages must not.
func TestPagesAreTheSameOnAllEngines(t *testing.T) {
	var mu sync.Mutex
	pages, first := map[string]string{}, ""
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		got := ""
		for _, email := range []string{"e@example.com", "é@example.com", "E@example.com", " e@example.com"} {
			p := s.Browser().Post("/signup", "name", "Zoë  Ωmega", "email", email, "password", "a long password")
			got += email + ": " + p.Text("h1") + " " + p.Text(".problem, .field-error") + "\n"
		}
		b := s.User("Mara")
		long := strings.Repeat("ünïcode 🙂 ", 1500)
		for _, title := range []string{"a", "A", "ä", "  blanks  ", "🙂", "back\\slash 'quote' \"double\" ? %s"} {
			b.Post("/posts", "title", title, "body", long).Want(http.StatusOK, "[data-title]", strings.TrimSpace(title))
		}
		b.Post("/posts/3", "title", "ä again", "body", "short\nlines\r\n", "version", "1")
		b.Post("/posts/3/comments", "body", "Ça va ? 🙂")
		s.Applied()
		joined := regexp.MustCompile(`Here since .* UTC`)
		for _, path := range []string{"/", "/posts/3", "/posts/1", fmt.Sprint("/people/", b.ID), "/people/1"} {
			p := s.Browser().Get(path)
			shown, err := time.Parse(time.RFC3339, p.Find("time").AttrOr("datetime", ""))
			if path != "/people/1" && (err != nil || time.Since(shown).Abs() > time.Minute) {
				t.Errorf("%s shows the time %v: %v", path, shown, err)
			}
			p.Find("footer, .reads, [data-read], time").Remove()
			got += path + ": " + joined.ReplaceAllString(p.Text("main"), "") + "\n"
		}
		mu.Lock()
		defer mu.Unlock()
		if pages[engine] = got; first == "" {
			first = engine
		}
		if diff := cmp.Diff(pages[first], got); diff != "" {
			t.Errorf("%s (-) and %s (+) differ:\n%s", first, engine, diff)
		}
	})
}
