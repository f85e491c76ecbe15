package stack

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// killLimit is how long killed processes may take to go.
	killLimit = 10 * time.Second

	// hangLimit is how long stopped processes may take to stand.
	hangLimit = 10 * time.Second
)

// killServer kills the processes of the server in dir, whoever started them, and
// returns when they are gone. It looks again until it finds none, since a process
// that is about to be killed can still start another.
func killServer(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, killLimit, errors.New("killed processes do not go"))
	defer cancel()
	var killed []int
	err := poll(ctx, func() (bool, error) {
		pids, err := killProcesses(dir)
		killed = append(killed, pids...)
		return len(pids) == 0 && !slices.ContainsFunc(killed, alive), err
	})
	if err == nil && len(killed) > 0 {
		freeSharedMemory(dir)
	}
	return err
}

func killProcesses(dir string) ([]int, error) { return signalAll(dir, syscall.SIGKILL) }

// hangServer stops the processes of the server in dir, and returns when all of their
// threads stand. The kernel stops them one after the other, and until then they can
// still answer.
func hangServer(dir string) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), hangLimit, errors.New("stopped processes go on"))
	defer cancel()
	return poll(ctx, func() (bool, error) {
		pids, err := signalAll(dir, syscall.SIGSTOP)
		return err == nil && !slices.ContainsFunc(pids, goesOn), err
	})
}

// signalAll signals all processes of the server in dir.
func signalAll(dir string, signal syscall.Signal) ([]int, error) {
	lines, err := commandLines()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for pid, line := range lines {
		if !runsIn(dir, line) {
			continue
		}
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("signal process %d: %w", pid, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// runsIn reports whether a command line is that of the server in dir. It names the
// folder; what PostgreSQL forks shows the name of the server instead.
func runsIn(dir, line string) bool {
	line += " "
	return strings.Contains(line, " -D "+dir+" ") ||
		strings.Contains(line, " -D "+dir+"/") ||
		strings.Contains(line, " --defaults-file="+dir+"/") ||
		strings.HasPrefix(line, "postgres: "+processTitle(dir)+": ")
}

// processTitle names the server in dir in the list of processes.
func processTitle(dir string) string {
	return filepath.Join(filepath.Base(filepath.Dir(dir)), filepath.Base(dir))
}
