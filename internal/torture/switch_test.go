package torture

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"freshread/internal/stack/stacktest"
)

// patch takes a fix out of a file of the site's. OFF is whether that is asked for.
type patch struct{ file, old, new string }

// fixes are those that nothing but the code that has them can switch off. Each is taken
// out of a copy, from which the site that is to be found broken is built: what is
// proven is of the real code, and the real code has no switches. Where the code has
// changed, so that a patch fits no longer, the test says so.
var fixes = map[string][]patch{
	"a commit ID is captured after COMMIT": {
		{"dbroute/write.go", "	err = c.commit(ctx, conn, open, fn)\n", `
	var before Marker
	if OFF {
		before = c.capture(ctx, conn, who)
	}
	err = c.commit(ctx, conn, open, fn)
`},
		{"dbroute/write.go", "			m = c.capture(ctx, conn, who)\n", `
			if m = before; !OFF {
				m = c.capture(ctx, conn, who)
			}
`},
	},
	"commit IDs of another timeline are not reached": {
		{"dbroute/postgres.go", "	case timeline == 0:\n		return notReached, nil\n", "	case timeline == 0 && !OFF:\n		return notReached, nil\n"},
		{"dbroute/postgres.go", "	case timeline != int64(want.timeline):\n", "	case timeline != int64(want.timeline) && !OFF:\n"},
	},
	"a replica that came back has to catch up": {
		{"dbroute/health.go", "	if h.state == Joining {\n		lost", "	if h.state == Joining && !OFF {\n		lost"},
	},
	"what a replica had is forgotten when it comes back": {
		{"dbroute/server.go", "		s.known = progress{}\n", `
		if !OFF {
			s.known = progress{}
		}
`},
		{"dbroute/server.go", "	if reached.IsZero() || e.covers(applied, reached) {\n", "	if reached.IsZero() || OFF || e.covers(applied, reached) {\n"},
	},
	"each marker has a cookie of its own": {
		{"web/marker.go", "		addCookie(h, m.cookie(name, m.encode(name, o.Marker), m.maxAge))\n", `
		if OFF {
			name = m.prefix + "one"
		}
		addCookie(h, m.cookie(name, m.encode(name, o.Marker), m.maxAge))
`},
		{"web/marker.go", "	for _, name := range todo.remove {\n", `
	if OFF && todo.set {
		return
	}
	for _, name := range todo.remove {
`},
	},
	"the guard reads the primary": {
		{"auth/guard.go", "	err = g.db.Read(ctx, \"auth.Guard\",", `
	read := g.db.Read
	if OFF {
		var scope *dbroute.Scope
		ctx, scope = g.main.NewScope(ctx)
		scope.RouteAnywhere(dbroute.Marker{})
		read = g.main.Read
	}
	err = read(ctx, "auth.Guard",`},
	},
	"a job is written in the transaction": {
		{"jobs/outbox.go", "	if _, err := tx.ExecContext(ctx, `INSERT INTO job_outbox ", "	if OFF {\n	} else if _, err := tx.ExecContext(ctx, `INSERT INTO job_outbox "},
	},
	"a job stays in the outbox until the queue has it": {
		{"jobs/outbox.go", "	case err == nil:\n		return o.delete(ctx, rows)\n", "	case err == nil || OFF:\n		return o.delete(ctx, rows)\n"},
	},
}

const (
	// offVariable lists the fixes that are switched off, and brokenVariable names a file:
	// as long as there is none, all is whole.
	offVariable    = "TORTURE_OFF"
	brokenVariable = "TORTURE_BROKEN"
)

// switches is what a package with patches has on top.
const switches = `
import (
	"os"
	"strings"
)

func switchedOff(fix string) bool {
	_, err := os.Stat(os.Getenv("` + brokenVariable + `"))
	return err == nil && strings.Contains(";"+os.Getenv("` + offVariable + `")+";", ";"+fix+";")
}
`

// isBroken reports whether a variant has begun to be what it is.
func isBroken() bool {
	_, err := os.Stat(os.Getenv(brokenVariable))
	return err == nil
}

// buildPatched builds this test once more, from files in which every fix can be switched
// off, and without the race detector, which would have the machine's time.
func buildPatched(t *testing.T) (program string) {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	write := func(file, text string) {
		path, err := filepath.Abs(filepath.Join("..", file))
		stacktest.Must(t, err)
		patched := filepath.Join(dir, strings.ReplaceAll(file, "/", "."))
		stacktest.Must(t, os.WriteFile(patched, []byte(text), 0o600))
		replace[path] = patched
	}
	texts := map[string]string{}
	for fix, patches := range fixes {
		for _, p := range patches {
			if texts[p.file] == "" {
				text, err := os.ReadFile(filepath.Join("..", p.file))
				stacktest.Must(t, err)
				texts[p.file] = string(text)
			}
			if n := strings.Count(texts[p.file], p.old); n != 1 {
				t.Fatalf("%s has %d times what the fix %q is switched off by: %q", p.file, n, fix, p.old)
			}
			texts[p.file] = strings.Replace(texts[p.file], p.old, strings.ReplaceAll(p.new, "OFF", fmt.Sprintf("switchedOff(%q)", fix)), 1)
		}
	}
	for file, text := range texts {
		write(file, text)
		name := filepath.Dir(file)
		write(name+"/switches.go", "package "+name+"\n"+switches)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	stacktest.Must(t, err)
	stacktest.Must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	program = filepath.Join(dir, "site")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the site with switches: %v\n%s", err, out)
	}
	return program
}
