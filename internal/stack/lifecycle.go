package stack

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// pingLimit is how long a server may take to say that it is ready.
	pingLimit = time.Second

	// quitLimit is how long a server may take to end itself.
	quitLimit = 5 * time.Second
)

// Start starts the server if it does not run, on the port and the data it had
// before, and returns once it accepts queries.
func (s *Server) Start(ctx context.Context) error {
	p, err := s.launch()
	if err == nil {
		err = s.awaitReady(ctx, p)
	}
	return s.wrap("start", err)
}

// Stop shuts the server down in order, without waiting for its clients.
func (s *Server) Stop(ctx context.Context) error {
	p := s.current()
	if !p.running() {
		return nil
	}
	p.signal(s.stack.engine.stopSignal())
	return s.wrap("stop", p.wait(ctx))
}

// Restart is Stop and Start.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Kill ends all processes of the server as a crash would, and returns when they
// are gone.
func (s *Server) Kill(ctx context.Context) error {
	err := killServer(ctx, s.dir)
	if err == nil {
		err = s.current().wait(ctx)
	}
	return s.wrap("kill", err)
}

// Hang stops all processes of the server where they are, as SIGSTOP does, and returns
// when they stand. It takes connections then and answers none, until Continue.
func (s *Server) Hang() error { return s.wrap("hang", hangServer(s.dir)) }

// Continue lets a server that hangs go on.
func (s *Server) Continue() error {
	_, err := signalAll(s.dir, syscall.SIGCONT)
	return s.wrap("continue", err)
}

// end ends the server for good. Its data is about to be deleted, so it need not
// write it out, but a server that ends itself also frees what it has in the kernel.
func (s *Server) end(ctx context.Context) error {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()

	p := s.current()
	p.signal(s.stack.engine.quitSignal())
	patience, cancel := context.WithTimeout(ctx, quitLimit)
	defer cancel()
	p.wait(patience) // what is there after that is killed
	return s.Kill(ctx)
}

func (s *Server) launch() (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, errors.New("the stack is closed")
	}
	if s.process.running() {
		return s.process, nil
	}
	if err := s.stack.engine.configure(s, s.replication); err != nil {
		return nil, err
	}
	p, err := startProcess(s.stack.engine.command(s), filepath.Join(s.dir, "log"))
	if err != nil {
		return nil, err
	}
	s.process = p
	return p, nil
}

func (s *Server) awaitReady(ctx context.Context, p *process) error {
	var unready error
	err := poll(ctx, func() (bool, error) {
		if !p.running() {
			return false, s.exited(p)
		}
		ctx, cancel := context.WithTimeout(ctx, pingLimit)
		defer cancel()
		unready = s.stack.engine.ping(ctx, s)
		return unready == nil, nil
	})
	if ctx.Err() != nil {
		err = errors.Join(err, unready)
	}
	return err
}

// exited says why a server has ended that should run by now.
func (s *Server) exited(p *process) error {
	log, err := p.tail()
	switch {
	case err != nil:
		return fmt.Errorf("%s; read its log: %w", p.cmd.ProcessState, err)
	case lostPort(log, s.Addr()):
		return fmt.Errorf("%w: %s; its log ends:\n%s", errPortTaken, p.cmd.ProcessState, log)
	}
	return fmt.Errorf("%s; its log ends:\n%s", p.cmd.ProcessState, log)
}

func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

func (s *Server) running() bool { return s.current().running() }
