package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"freshread/internal/stack/stacktest"
)

// patience bounds every wait for what ought to happen soon.
const patience = 30 * time.Second

// environment is variables of config by name.
type environment map[string]string

// app is a run of the program.
type app struct {
	cmd         *exec.Cmd
	out, errOut output
	ended       chan struct{}
}

// start starts the program. Of the variables of config it gets only env.
func start(t *testing.T, env environment, args ...string) *app {
	t.Helper()
	return startCommand(t, env, exec.Command(binary, args...))
}

func startCommand(t *testing.T, env environment, cmd *exec.Cmd) *app {
	t.Helper()
	a := &app{cmd: cmd, ended: make(chan struct{})}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !slices.Contains(variables(), name) {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	// A data race ends it at once, with a status that no test expects. Without
	// one it need not wait a second at its end for reports.
	cmd.Env = append(cmd.Env, "GORACE=halt_on_error=1 atexit_sleep_ms=0")
	if cmd.Stdout == nil {
		cmd.Stdout = &a.out
	}
	cmd.Stderr = &a.errOut
	stacktest.Must(t, cmd.Start())
	go func() {
		defer close(a.ended)
		cmd.Wait() // how it ended is in ProcessState
	}()
	t.Cleanup(func() { a.end(t) })
	return a
}

// end ends a run that is still under way, in order if it can.
func (a *app) end(t *testing.T) {
	t.Helper()
	if a.running() {
		a.cmd.Process.Signal(syscall.SIGTERM) // it may end by itself meanwhile
		stuck := time.AfterFunc(patience, func() { a.cmd.Process.Kill() })
		<-a.ended
		stuck.Stop()
	}
	if t.Failed() {
		t.Logf("%v\nstdout:\n%sstderr:\n%s", a.cmd.Args, &a.out, &a.errOut)
	}
}

func (a *app) running() bool {
	select {
	case <-a.ended:
		return false
	default:
		return true
	}
}

func (a *app) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	stacktest.Must(t, a.cmd.Process.Signal(sig))
}

// wantExit waits for the end of the run.
func (a *app) wantExit(t *testing.T, status int) {
	t.Helper()
	select {
	case <-a.ended:
	case <-time.After(patience):
		t.Fatalf("after %v it still runs", patience)
	}
	if got := a.cmd.ProcessState.ExitCode(); got != status {
		t.Fatalf("it ended with %v, want exit status %d", a.cmd.ProcessState, status)
	}
}

// runs runs the program to its end, which must be with this exit status, and
// returns what it printed.
func runs(t *testing.T, env environment, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	a := start(t, env, args...)
	a.wantExit(t, status)
	return a.out.String(), a.errOut.String()
}

// says waits until the program prints what matches, and returns the first group.
func (a *app) says(t *testing.T, o *output, pattern string) string {
	t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	var match []string
	eventually(t, "it says "+pattern, func() bool {
		ended := !a.running()
		match = re.FindStringSubmatch(o.String())
		if match == nil && ended {
			t.Fatalf("it ended with %v before it said %s", a.cmd.ProcessState, pattern)
		}
		return match != nil
	})
	return match[1]
}

// output is what a process has printed so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func wantOneLine(t *testing.T, stderr, want string) {
	t.Helper()
	if !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("stderr is %q, want one line with %q", stderr, want)
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v it is still not so that %s", patience, what)
		}
	}
}

// newFolder returns a folder that the account of the servers can enter, which
// t.TempDir is not.
func newFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "app-test-data-")
	stacktest.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	stacktest.Must(t, os.Chmod(dir, 0o755))
	dir, err = filepath.EvalSymlinks(dir)
	stacktest.Must(t, err)
	return dir
}

// wantEmpty fails the test if servers run in the folder or files are left there.
func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	if left := serversIn(t, dir); len(left) > 0 {
		t.Errorf("servers are left: %q", left)
	}
	if left := filesIn(t, dir); len(left) > 0 {
		t.Errorf("files are left: %q", left)
	}
}

func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	stacktest.Must(t, err)
	return files
}

// serversIn returns the command lines of the processes that work in the folder,
// which all of a server's do.
func serversIn(t *testing.T, dir string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("this test looks for servers in /proc")
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	stacktest.Must(t, err)
	var lines []string
	for _, p := range processes {
		cwd, err := os.Readlink(filepath.Join(p, "cwd"))
		if err != nil || !strings.HasPrefix(cwd, dir+"/") {
			continue // it has ended, or is another's
		}
		line, err := os.ReadFile(filepath.Join(p, "cmdline"))
		if err == nil && len(line) > 0 {
			lines = append(lines, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return lines
}
