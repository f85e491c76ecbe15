package trial

import (
	"syscall"
	"time"
)

// CPUTime is how long the threads of this process have been on a CPU.
func CPUTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // not for this process
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
