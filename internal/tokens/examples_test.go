package tokens_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"freshread/internal/site"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
)

// What the page tells to paste into a shell is pasted into a shell, while the
// replica applies nothing.
func TestExamplesWorkAsTheyStand(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine, func(cfg *site.Config) { cfg.Demo = true })
		s.Seed()
		s.Pause()
		lines := s.Browser().Get("/api").Find("[data-curl]")
		var script strings.Builder
		var wants []string
		lines.Each(func(i int, line *goquery.Selection) {
			fmt.Fprintf(&script, "echo '=== %d'\n%s\necho\n", i, line.Text())
			wants = append(wants, line.Parent().AttrOr("data-status", ""))
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		shell := exec.CommandContext(ctx, "bash", "-eu", "-o", "pipefail")
		shell.Stdin = strings.NewReader(script.String())
		out, err := shell.CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		outputs := strings.Split(string(out), "=== ")[1:]
		if len(outputs) != len(wants) || len(wants) < 15 {
			t.Fatalf("%d examples, %d outputs:\n%s", len(wants), len(outputs), out)
		}
		for i, want := range wants {
			if got := statusIn(outputs[i]); got != want {
				t.Errorf("example %d: status is %q, want %q:\n%s", i, got, want, outputs[i])
			}
		}
		for _, part := range []string{
			`"name":"Mara Lindqvist"`, `"body":"The second draft."`, `"body":"The third draft."`, "Said with curl.",
			"Read-Consistency: strong", "#/body", `rel="next"`,
		} {
			if !strings.Contains(string(out), part) {
				t.Errorf("%q is nowhere in\n%s", part, out)
			}
		}
		if n := sitetest.Value[int](s, `SELECT count(*) FROM posts WHERE title = 'Written with curl'`); n != 0 {
			t.Errorf("%d posts are left behind", n)
		}
	})
}

// statusIn returns the status of the HTTP response in an output, or "".
func statusIn(output string) string {
	_, rest, ok := strings.Cut(output, "HTTP/1.1 ")
	if !ok || len(rest) < 3 {
		return ""
	}
	return rest[:3]
}
