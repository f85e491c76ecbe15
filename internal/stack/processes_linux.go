package stack

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// commandLines returns the command lines of all processes by process ID. It reads
// /proc, since small containers have no ps.
func commandLines() (map[int]string, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	lines := make(map[int]string, len(paths))
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		words, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		lines[pid] = strings.ReplaceAll(string(bytes.TrimRight(words, "\x00")), "\x00", " ")
	}
	return lines, nil
}

// alive reports whether a process exists and is more than a zombie. In a container
// there may be nobody who ever buries those.
func alive(pid int) bool {
	return !strings.ContainsRune("-ZX", stateIn(filepath.Join("/proc", strconv.Itoa(pid), "stat")))
}

// goesOn reports whether a thread of a process exists that is not stopped.
func goesOn(pid int) bool {
	threads, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task/*/stat")) // fails for a bad pattern only
	return slices.ContainsFunc(threads, func(thread string) bool {
		return !strings.ContainsRune("-TZX", stateIn(thread))
	})
}

// stateIn returns the letter for the state of a process or a thread, which follows
// its name in a file of /proc; - if it is gone. The name is in parentheses and may
// hold some.
func stateIn(path string) rune {
	stat, err := os.ReadFile(path)
	if err != nil {
		return '-'
	}
	return rune(stat[bytes.LastIndexByte(stat, ')')+2])
}
