package stack

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// tailLines is how much of its log an error quotes when a server will not start.
const tailLines = 10

// process is one run of a server. The methods work on nil too, as on a run that
// is over.
type process struct {
	cmd   *exec.Cmd
	log   string
	start int64         // where the log of this run begins
	done  chan struct{} // closed when it is over
}

// startProcess starts a command that writes to the end of a log file.
func startProcess(cmd *exec.Cmd, log string) (*process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	start, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, log: log, start: start, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.cmd.Wait() // how it ended is in ProcessState
	}()
	return p, nil
}

func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends a signal. A process that is already gone needs none.
func (p *process) signal(sig syscall.Signal) {
	if p.running() {
		p.cmd.Process.Signal(sig)
	}
}

// wait waits for the end of the process.
func (p *process) wait(ctx context.Context) error {
	if p == nil {
		return nil
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tail returns the last lines that this run has logged.
func (p *process) tail() ([]byte, error) {
	f, err := os.Open(p.log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	log, err := io.ReadAll(io.NewSectionReader(f, p.start, 1<<20))
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")), nil
}
