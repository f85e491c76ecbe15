package stack

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// commandLines returns the command lines of all processes by process ID.
func commandLines() (map[int]string, error) {
	out, err := exec.Command("ps", "-Aww", "-o", "pid=,args=").Output()
	if err != nil {
		return nil, err
	}
	lines := make(map[int]string)
	for line := range strings.Lines(string(out)) {
		id, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		pid, err := strconv.Atoi(id)
		if err != nil {
			return nil, err
		}
		lines[pid] = strings.TrimSpace(args)
	}
	return lines, nil
}

// alive reports whether a process exists.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// goesOn reports whether a process exists that is not stopped.
func goesOn(pid int) bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(string(state), "T")
}
