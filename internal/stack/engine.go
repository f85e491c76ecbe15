package stack

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// engine is what one database does in its own way. What awaits something does so
// until it happens or ctx ends.
type engine interface {
	name() string
	version() string
	owner() account // of the servers' data
	url(s *Server, database string) string
	adminURL(s *Server, database string) string

	// create makes the data of all servers, the primary first.
	create(ctx context.Context, servers []*Server) error
	// configure writes the configuration that the server reads when it starts.
	configure(s *Server, r replication) error
	// reload lets a server that runs take up what configure wrote about replication.
	reload(ctx context.Context, s *Server) error

	// command runs the server in the foreground, with its log on stderr.
	command(s *Server) *exec.Cmd
	// stopSignal makes it shut down in order, without waiting for its clients, and
	// quitSignal without writing its data out first.
	stopSignal() syscall.Signal
	quitSignal() syscall.Signal
	// ping fails as long as the server does not accept queries.
	ping(ctx context.Context, s *Server) error
	awaitStreaming(ctx context.Context, replica *Server) error

	createDatabase(ctx context.Context, primary *Server, name string) error
	dropDatabase(ctx context.Context, primary *Server, name string) error

	// committed returns a position that covers all commits so far.
	committed(ctx context.Context, primary *Server) (position string, err error)
	awaitApplied(ctx context.Context, replica *Server, position string) error
	pauseApply(ctx context.Context, replica *Server) error
	resumeApply(ctx context.Context, replica *Server) error
	promote(ctx context.Context, replica *Server) error
	demote(ctx context.Context, primary *Server) error
	reinstate(ctx context.Context, demoted *Server) error
}

func newEngine(ctx context.Context, name string) (engine, error) {
	switch name {
	case "postgres", "postgres19":
		return newPostgres(ctx, name)
	case "mysql":
		return newMySQL(ctx)
	case "mariadb":
		return newMariaDB(ctx)
	}
	return nil, fmt.Errorf("unknown engine %q: want postgres, mysql or mariadb", name)
}

// Installed returns a MissingError if an engine is not installed.
func Installed(ctx context.Context, engine string) error {
	_, err := newEngine(ctx, engine)
	return err
}

// CheckDelay refuses a delay that an engine cannot keep to.
func CheckDelay(engine string, d time.Duration) error {
	unit := time.Millisecond
	if engine == "mysql" || engine == "mariadb" {
		unit = time.Second
	}
	switch {
	case d < 0:
		return fmt.Errorf("delay %s is negative", d)
	case d%unit != 0:
		return fmt.Errorf("delay %s: %s would round it to steps of %s", d, engine, unit)
	}
	return nil
}

// MissingError says that an engine is not installed.
type MissingError struct {
	Engine  string
	Program string // what was looked for
	Install string // the commands that install it
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s: %s not found; install it: %s", e.Engine, e.Program, e.Install)
}
