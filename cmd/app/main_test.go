package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"freshread/internal/stack/stacktest"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndTest(m)) }

func buildAndTest(m *testing.M) int {
	dir, err := os.MkdirTemp("", "app-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "app")
	if out, err := exec.Command("go", "build", "-race", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return stacktest.Main(m)
}

func TestHelpListsTheCommands(t *testing.T) {
	for _, arg := range []string{"help", "-h", "--help"} {
		stdout, stderr := runs(t, nil, 0, arg)
		if stdout != usage || stderr != "" {
			t.Errorf("app %s prints %q and on stderr %q", arg, stdout, stderr)
		}
	}
}

func TestNoCommandIsWrong(t *testing.T) {
	stdout, stderr := runs(t, nil, 2)
	if stdout != "" || stderr != usage {
		t.Errorf("prints %q and on stderr %q", stdout, stderr)
	}
}

func TestUnknownCommandIsWrong(t *testing.T) {
	stdout, stderr := runs(t, nil, 2, "sevre")
	if stdout != "" || stderr != "app: no command \"sevre\"\n\n"+usage {
		t.Errorf("prints %q and on stderr %q", stdout, stderr)
	}
}

func TestEachCommandExplainsItsFlags(t *testing.T) {
	for _, command := range []string{"demo", "lab", "torture", "serve", "worker", "migrate", "routes", "healthcheck"} {
		if !strings.Contains(usage, "\n  "+command+" ") {
			t.Errorf("app help does not name %s", command)
		}
		stdout, stderr := runs(t, nil, 0, command, "-h")
		if !strings.HasPrefix(stdout, "Usage") || stderr != "" {
			t.Errorf("app %s -h prints %q and on stderr %q", command, stdout, stderr)
		}
	}
}

// Whoever mistypes gets one line that says so, before anything is started.
func TestWrongArgumentsAreRefusedInOneLine(t *testing.T) {
	for args, c := range map[string]struct {
		status int
		want   string
	}{
		"demo --replcas 2":                   {2, "-replcas"},
		"demo --replicas none":               {2, `"none" for flag -replicas`},
		"demo --replicas -1":                 {1, "--replicas -1: want 0 to 8"},
		"demo --replicas 9":                  {1, "--replicas 9: want 0 to 8"},
		"demo --delay soon":                  {2, `"soon" for flag -delay`},
		"demo --delay 5s,1s":                 {1, "--delay 5s,1s: want one for all, or one for each of 1 replicas"},
		"demo --delay 5s,soon":               {2, `"5s,soon" for flag -delay`},
		"demo --delay -1s":                   {1, "--delay -1s"},
		"demo --delay 1000h":                 {1, "--delay 1000h0m0s: want 0 to 24h0m0s"},
		"demo --engine mysql --delay 1500ms": {1, "--delay: delay 1.5s: mysql would round it to steps of 1s"},
		"lab --engine mariadb --delay 0.5s":  {1, "--delay: delay 500ms: mariadb would round it to steps of 1s"},
		"demo --strategy maybe":              {2, "want commit, window or none"},
		"demo --window 0s":                   {1, "--window 0s: want more than 0"},
		"demo --addr nowhere":                {1, "--addr: listen tcp: address nowhere"},
		"demo --engine sqlite":               {1, "--engine sqlite: dbroute: open primary: unsupported database: SQLite has no replicas"},
		"demo --engine sqlserver":            {1, "SQL Server tells a client no position"},
		"demo --engine oracle":               {1, `scheme "oracle" (use postgres://, mysql:// or mariadb://)`},
		"demo now":                           {2, `unexpected argument "now"`},
		"lab nonsense":                       {1, `no experiment "nonsense": app lab --list names them`},
		"lab --engine sqlite":                {1, "SQLite has no replicas"},
		"lab --delay -1s":                    {1, "--delay -1s"},
		"serve now":                          {2, `unexpected argument "now"`},
		"migrate --up":                       {2, "-up"},
		"routes --strategy maybe":            {2, "want commit, window or none"},
		"routes /posts":                      {2, `unexpected argument "/posts"`},
		"healthcheck --timeout soon":         {2, `"soon" for flag -timeout`},
	} {
		t.Run(args, func(t *testing.T) {
			stdout, stderr := runs(t, nil, c.status, strings.Fields(args)...)
			wantOneLine(t, stderr, c.want)
			if stdout != "" {
				t.Errorf("stdout is %q", stdout)
			}
		})
	}
}

func TestRoutesShowTheStrategyBeforeWhatLoads(t *testing.T) {
	for strategy, want := range map[string]string{
		"commit": "GET /posts/:id auth.Guard → Scope → CommitID → auth.Load → posts.Load",
		"window": "GET /posts/:id auth.Guard → Scope → SessionWindow → auth.Load → posts.Load",
		"none":   "GET /posts/:id auth.Guard → Scope → Anywhere → auth.Load → posts.Load",
	} {
		stdout, _ := runs(t, nil, 0, "routes", "--strategy", strategy)
		if !hasRoute(stdout, want) {
			t.Errorf("with --strategy %s there is no line %q in\n%s", strategy, want, stdout)
		}
	}
	stdout, _ := runs(t, nil, 0, "routes")
	if want := "GET /api/posts/:id CommitIDHeader → Scope → tokens.Find → tokens.Guard → ReadConsistency → auth.Load → tokens.Allow(read) → posts.Load"; !hasRoute(stdout, want) {
		t.Errorf("there is no line %q in\n%s", want, stdout)
	}
	if want := "GET /posts/:id auth.Guard → Scope → CommitID → auth.Load → posts.Load"; !hasRoute(stdout, want) {
		t.Errorf("without --strategy there is no line %q in\n%s", want, stdout)
	}
}

func hasRoute(table, want string) bool {
	for line := range strings.Lines(table) {
		if strings.Join(strings.Fields(line), " ") == want {
			return true
		}
	}
	return false
}
