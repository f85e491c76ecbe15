package stack

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// hindrance is an engine whose primary finds its first port taken and then is slow.
type hindrance struct {
	engine
	taken net.Listener
}

func (e *hindrance) configure(s *Server, r replication) error {
	if s.id == 1 && e.taken == nil {
		l, err := net.Listen("tcp4", s.Addr())
		if err != nil {
			return err
		}
		e.taken = l
	}
	return e.engine.configure(s, r)
}

func (e *hindrance) command(s *Server) *exec.Cmd {
	cmd := e.engine.command(s)
	if s.id == 1 {
		cmd.Path = "/bin/sh"
		cmd.Args = append([]string{"sh", "-c", `sleep 0.3; exec "$0" "$@"`}, cmd.Args...)
	}
	return cmd
}

func TestStartEndsWithAPairThatStreamsOnFreePorts(t *testing.T) {
	t.Parallel()
	postgres, err := newPostgres(t.Context())
	if missing := new(MissingError); errors.As(err, &missing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "stack-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, dirMode); err != nil {
		t.Fatal(err)
	}
	f, err := createFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	e := &hindrance{engine: postgres}
	s := newStack(e, f, []time.Duration{0})
	defer s.Close()

	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer e.taken.Close()
	if got, taken := s.Primary().Addr(), e.taken.Addr().String(); got == taken {
		t.Errorf("the primary has the address %s, which is taken", got)
	}
	var senders int
	err = postgres.connect(t.Context(), s.Primary(), func(conn *pgx.Conn) error {
		return conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_replication").Scan(&senders)
	})
	if err != nil || senders != 1 {
		t.Errorf("the primary streams to %d replicas, want 1 (%v)", senders, err)
	}
}
