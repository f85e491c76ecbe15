package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// process is one process of the site, which is started again whenever it ends: a
// process needs the primary to start, and that may be away.
type process struct {
	number int
	addr   string
	log    string
	start  func(env []string) *exec.Cmd
	env    []string

	mu      sync.Mutex
	cmd     *exec.Cmd
	killed  *exec.Cmd // by us
	down    bool      // it must not be started
	stopped bool      // for good
	failed  error     // it ended by itself while it served
	changed chan struct{}
	done    chan struct{}
}

var errEnded = errors.New("nobody asked for it")

// restartPause is how long a process that ended stays away.
const restartPause = 200 * time.Millisecond

func startProcess(number int, dir string, start func(env []string) *exec.Cmd, env []string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p := &process{
		number: number, addr: addr, log: filepath.Join(dir, fmt.Sprintf("process-%d.log", number)),
		start: start, env: append(env[:len(env):len(env)], "ADDR="+addr),
		changed: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go p.supervise()
	return p, nil
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

func (p *process) supervise() {
	defer close(p.done)
	for {
		p.mu.Lock()
		stopped, down := p.stopped, p.down
		p.mu.Unlock()
		switch {
		case stopped:
			return
		case down:
			<-p.changed
		default:
			p.runOnce()
			select {
			case <-time.After(restartPause):
			case <-p.changed:
			}
		}
	}
}

// runOnce runs the process up to its end.
func (p *process) runOnce() {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.fail(err)
		return
	}
	defer log.Close()
	cmd := p.start(p.env)
	cmd.Stdout, cmd.Stderr = log, log
	p.mu.Lock()
	if p.stopped || p.down {
		p.mu.Unlock()
		return
	}
	err = cmd.Start()
	p.cmd = cmd
	p.mu.Unlock()
	if err != nil {
		p.fail(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan bool, 1)
	go func() { served <- p.serves(ctx) }()
	err = cmd.Wait()
	cancel()
	p.mu.Lock()
	asked := p.stopped || p.killed == cmd
	p.mu.Unlock()
	if <-served && !asked {
		p.fail(fmt.Errorf("process %d ended by itself: %w; its log ends:\n%s", p.number, errors.Join(err, errEnded), p.tail()))
	}
}

// serves reports, when ctx ends, whether the process has answered by then.
func (p *process) serves(ctx context.Context) bool {
	for ctx.Err() == nil {
		if p.get(ctx, "/healthz") == nil {
			<-ctx.Done()
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

func (p *process) get(ctx context.Context, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// ready returns once the process serves and a server answers it.
func (p *process) ready(ctx context.Context) error {
	for {
		err := p.get(ctx, "/readyz")
		if err == nil {
			return nil
		}
		if failed := p.failure(); failed != nil {
			return failed
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("process %d is not ready: %w; its log ends:\n%s", p.number, err, p.tail())
		}
	}
}

func (p *process) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = errors.Join(p.failed, err)
}

func (p *process) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// tail is the end of the log.
func (p *process) tail() string {
	log, _ := os.ReadFile(p.log)
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-20):], []byte("\n")))
}

// kill ends the process as a crash would, until revive.
func (p *process) kill() {
	p.mu.Lock()
	p.down, p.killed = true, p.cmd
	if p.cmd != nil && p.cmd.Process != nil {
		p.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	}
	p.mu.Unlock()
}

func (p *process) revive() {
	p.mu.Lock()
	p.down = false
	p.mu.Unlock()
	p.wake()
}

func (p *process) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// stop ends the process for good.
func (p *process) stop() {
	p.mu.Lock()
	p.stopped = true
	if p.cmd != nil && p.cmd.Process != nil {
		p.cmd.Process.Signal(syscall.SIGKILL)
	}
	p.mu.Unlock()
	p.wake()
	<-p.done
}
