package e2e_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"freshread/internal/stack/stacktest"
)

// axe is the program that finds what keeps people out. scripts/install puts it here.
const axe = "node_modules/axe-core/axe.min.js"

// inaccessible is a rule that a page breaks.
type inaccessible struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML string }
}

// wantAccessible lets axe look at the page.
func (v *visitor) wantAccessible(program string) {
	v.t.Helper()
	evaluate[chromedp.Void](v, program)
	broken := evaluate[[]inaccessible](v, `axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations.map(v => ({
		ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.map(n => ({HTML: n.html}))})))`, chromedp.EvalAwaitPromise)
	for _, rule := range broken {
		report := v.t.Logf
		if rule.Impact == "serious" || rule.Impact == "critical" {
			report = v.t.Errorf
		}
		report("%s: %s, %s: %s: %+v", v.path(), rule.ID, rule.Impact, rule.Help, rule.Nodes)
	}
}

// Each page on a desk and on a phone, by day and by night. They look the same on every
// engine, so one will do.
func TestPages(t *testing.T) {
	requireBrowser(t)
	program, err := os.ReadFile(axe)
	if err != nil {
		missing(t, err)
	}
	engine := stacktest.Engines()[0]
	stacktest.Only(t, engine)
	s := newDemo(t, engine)
	v := newVisitor(t, s)
	v.excuse("status of 404") // of the page that is not there
	v.signUp("Mara Lindqvist")
	post := v.write("Q3 pricing")
	v.fill("#comment", "Looks right to me.")
	v.follow(".comments > form button")
	v.until(post, "its job has run", func() bool { return v.text(".summary:not([data-pending]) [data-summary-comments]") == "1 comment" })
	person := v.attribute(".byline a", "href")
	v.open("/tokens")
	v.fill("#name", "Backup script")
	v.follow("main form.narrow button")

	for _, path := range []string{
		"/", "/posts", "/posts/new", post, post + "/edit", "/profile", person, "/tokens", "/api",
		"/lab", "/lab/no-routing", "/cluster", "/jobs", "/limits", "/login", "/signup", "/posts/404404",
	} {
		for _, width := range []int64{1100, 390} {
			for _, dark := range []bool{false, true} {
				v.screen(width, dark)
				v.open(path)
				v.wantAccessible(string(program))
				v.picture(path)
			}
		}
	}
}

// picture keeps what the page looks like, if go test is told to keep artifacts.
func (v *visitor) picture(name string) {
	v.t.Helper()
	picture, err := chromedp.Run(v.ctx, chromedp.FullScreenshot(100))
	stacktest.Must(v.t, err)
	file := cmp.Or(strings.ReplaceAll(strings.Trim(name, "/"), "/", "-"), "home") + "-" + v.look + ".png"
	stacktest.Must(v.t, os.WriteFile(filepath.Join(v.t.ArtifactDir(), file), picture, 0o600))
}
