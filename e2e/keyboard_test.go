package e2e_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"freshread/internal/site/sitetest"
)

// reach presses the tab key until an element has the focus, which must be visible.
func (v *visitor) reach(selector string) {
	v.t.Helper()
	for range 80 {
		v.do(chromedp.KeyEvent(kb.Tab))
		at := evaluate[struct{ There, Visible bool }](v, fmt.Sprintf(`(() => {
			const e = document.activeElement, style = getComputedStyle(e);
			return {There: e.matches(%q), Visible: style.outlineStyle != "none" && parseFloat(style.outlineWidth) >= 2};
		})()`, selector))
		if at.There && !at.Visible {
			v.t.Errorf("on %s, one cannot see that %s has the focus", v.path(), selector)
		}
		if at.There {
			return
		}
	}
	v.t.Fatalf("on %s, the tab key does not lead to %s", v.path(), selector)
}

func (v *visitor) typing(text string) {
	v.t.Helper()
	v.do(chromedp.KeyEvent(text))
}

func (v *visitor) enter() { v.t.Helper(); v.lead(chromedp.KeyEvent(kb.Enter)) }

// Nothing here takes a mouse: sign up, write, edit, comment, choose a strategy.
func TestKeyboardAlone(t *testing.T) {
	each(t, func(t *testing.T, s *sitetest.Site) {
		v := newVisitor(t, s)
		v.open("/")
		v.reach(".skip")
		v.do(chromedp.KeyEvent(kb.Enter))
		v.open("/")
		v.reach(`.account a[href="/signup"]`)
		v.enter()
		for _, field := range []struct{ selector, value string }{
			{"#name", "Mara Lindqvist"}, {"#email", "mara@example.com"}, {"#password", "correct horse battery"},
		} {
			v.reach(field.selector)
			v.typing(field.value)
		}
		v.enter()
		v.want("[data-viewer]", "Mara Lindqvist")

		v.reach(`nav a[href="/posts/new"]`)
		v.enter()
		v.reach("#title")
		v.typing("Typed")
		v.reach("#body")
		v.typing("With the keyboard.")
		v.reach(".editor button")
		v.enter()
		v.want("[data-title]", "Typed")

		s.Applied()
		defer s.Pause()()
		v.reach(`.post a[href$="/edit"]`)
		v.enter()
		v.reach("#title")
		v.typing("Typed again") // what was there is selected
		v.enter()
		v.wantSeen("[data-title]", byTitle, seen{"Typed again", "1", notYet})

		v.reach("#comment")
		v.typing("A comment")
		v.reach(".comments > form button")
		v.enter()
		v.want("#comments-title", "1 comment")

		v.reach(choose("none"))
		v.enter()
		v.wantSeen("[data-title]", byTitle, seen{"Typed", "2", "strategy none"})
	})
}
