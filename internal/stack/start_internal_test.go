package stack

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// hindrance is an engine whose primary finds its first port taken, and then is slow. The
// port is free again by the time that the primary has ended.
type hindrance struct {
	engine
	taken net.Listener
}

func (e *hindrance) configure(s *Server, r replication) error {
	if s.id == 1 && s.port != 0 && e.taken == nil {
		l, err := net.Listen("tcp4", s.Addr())
		if err != nil {
			return err
		}
		e.taken = l
	}
	return e.engine.configure(s, r)
}

func (e *hindrance) ping(ctx context.Context, s *Server) error {
	if s.id == 1 && s.Addr() == e.taken.Addr().String() {
		<-s.current().done
		return errors.Join(errors.New("it has ended"), e.taken.Close())
	}
	return e.engine.ping(ctx, s)
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
	for _, name := range []string{"postgres", "mysql", "mariadb"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testHinderedStart(t, name)
		})
	}
}

func testHinderedStart(t *testing.T, name string) {
	if engines := strings.Fields(os.Getenv("TEST_ENGINES")); len(engines) > 0 && !slices.Contains(engines, name) {
		t.Skipf("TEST_ENGINES does not name %s", name)
	}
	real, err := newEngine(t.Context(), name)
	if errors.As(err, new(*MissingError)) && os.Getenv("TEST_ENGINES") == "" {
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
	e := &hindrance{engine: real}
	s := newStack(e, f, []time.Duration{0})
	defer s.Close()

	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, taken := s.Primary().Addr(), e.taken.Addr().String(); got == taken {
		t.Errorf("the primary has the address %s, which is taken", got)
	}
	if !streams(t, real, s) {
		t.Error("the replica does not stream")
	}
}

// streams reports whether the replica receives at this moment what is committed.
func streams(t *testing.T, e engine, s *Stack) (yes bool) {
	var err error
	switch e := e.(type) {
	case *postgres:
		err = e.connect(t.Context(), s.Primary(), func(conn *pgx.Conn) error {
			return conn.QueryRow(t.Context(), "SELECT count(*) = 1 FROM pg_stat_replication").Scan(&yes)
		})
	case *mysqlFamily:
		err = e.connect(t.Context(), s.Replicas()[0], func(conn *sql.Conn) error {
			st, err := e.status(t.Context(), conn)
			yes = st.receiving
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return yes
}
