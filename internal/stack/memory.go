package stack

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// freeSharedMemory frees the shared memory that a killed PostgreSQL leaves in the
// kernel: a few bytes by which it guards its data, but there is a limit on their
// number. The last word of line 7 of postmaster.pid is its ID. What is not freed
// does no harm, so errors count for nothing.
func freeSharedMemory(dir string) {
	pidFile, err := os.ReadFile(filepath.Join(dir, dataDir, "postmaster.pid"))
	if err != nil {
		return
	}
	lines := strings.Split(string(pidFile), "\n")
	if len(lines) < 7 {
		return
	}
	words := strings.Fields(lines[6])
	if len(words) != 2 {
		return
	}
	if id, err := strconv.Atoi(words[1]); err == nil {
		unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	}
}
