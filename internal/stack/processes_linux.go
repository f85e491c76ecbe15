package stack

import (
	"bytes"
	"os"
	"path/filepath"
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
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	// The state follows the name, which is in parentheses and may hold some.
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" "))
	return !bytes.HasPrefix(state, []byte("Z")) && !bytes.HasPrefix(state, []byte("X"))
}
