package stack_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// memory names a piece of shared memory by its key and its ID.
type memory []string

// sharedMemory returns the piece by which the server in dir guards its data.
func sharedMemory(t *testing.T, dir string) memory {
	t.Helper()
	pidFile, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	must(t, err)
	m := memory(strings.Fields(strings.Split(string(pidFile), "\n")[6]))
	if runtime.GOOS == "linux" && !m.exists(t) {
		t.Fatalf("the server has no shared memory %q", m)
	}
	return m
}

// exists looks the piece up where Linux lists all.
func (m memory) exists(t *testing.T) bool {
	t.Helper()
	if runtime.GOOS != "linux" {
		return false
	}
	table, err := os.ReadFile("/proc/sysvipc/shm")
	must(t, err)
	for row := range strings.Lines(string(table)) {
		if slices.Equal(strings.Fields(row)[:2], m) {
			return true
		}
	}
	return false
}
