package stack_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// folders returns the names of what lies in dir.
func folders(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// processes returns the processes whose command line has one of the names in it:
// for the name of a stack's folder, its servers with all that they started.
func processes(t *testing.T, names ...string) []string {
	t.Helper()
	out, err := exec.Command("ps", "-Aww", "-o", "pid=,args=").Output()
	must(t, err)
	var found []string
	for line := range strings.Lines(string(out)) {
		if slices.ContainsFunc(names, func(name string) bool { return strings.Contains(line, name) }) {
			found = append(found, line)
		}
	}
	return found
}

func wantNoProcesses(t *testing.T, names ...string) {
	t.Helper()
	if found := processes(t, names...); len(found) > 0 {
		t.Errorf("still running:\n%s", strings.Join(found, ""))
	}
}

func wantFolders(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := folders(t, dir); !slices.Equal(got, want) {
		t.Errorf("folders in %s: %q, want %q", dir, got, want)
	}
}
