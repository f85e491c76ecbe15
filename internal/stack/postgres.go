package stack

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

const (
	// dataDir is where the server keeps its data, next to its configuration and
	// its log in the folder of the server.
	dataDir = "data"

	adminRole = "postgres"
	appRole   = "app"
)

// postgres is the engine for PostgreSQL.
type postgres struct {
	engineName string
	programs   postgresPrograms
	account    account

	// There are passwords since every user of this machine can reach the servers.
	adminPassword, appPassword string
}

func newPostgres(ctx context.Context, name string) (*postgres, error) {
	programs, err := findPostgres(ctx, name)
	if err != nil {
		return nil, err
	}
	a, err := unprivileged("postgres")
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return &postgres{
		engineName:    name,
		programs:      programs,
		account:       a,
		adminPassword: rand.Text(),
		appPassword:   rand.Text(),
	}, nil
}

func (p *postgres) name() string    { return p.engineName }
func (p *postgres) version() string { return p.programs.version }
func (p *postgres) owner() account  { return p.account }

func (p *postgres) url(s *Server, database string) string {
	return postgresURL(s, url.UserPassword(appRole, p.appPassword), database)
}

func (p *postgres) adminURL(s *Server, database string) string {
	return postgresURL(s, url.UserPassword(adminRole, p.adminPassword), database)
}

func postgresURL(s *Server, login *url.Userinfo, database string) string {
	u := url.URL{Scheme: "postgres", User: login, Host: s.Addr(), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// create makes the data of the primary and copies it for the replicas. A standby
// streams from a copy as well as from a base backup, and the copy needs no server.
func (p *postgres) create(ctx context.Context, servers []*Server) error {
	for _, s := range servers {
		if err := p.account.makePrivateDir(filepath.Join(s.dir, dataDir)); err != nil {
			return err
		}
		if err := p.account.writeFile(filepath.Join(s.dir, "pg_hba.conf"), postgresAccess); err != nil {
			return err
		}
	}
	primary, replicas := servers[0], servers[1:]
	if err := p.initialize(ctx, primary); err != nil {
		return err
	}
	if err := p.createRoles(ctx, primary); err != nil {
		return err
	}
	return each(ctx, replicas, func(ctx context.Context, r *Server) error {
		return p.copyData(ctx, primary, r)
	})
}

func (p *postgres) initialize(ctx context.Context, s *Server) error {
	return run(ctx, p.account.command(s.dir, p.programs.initdb,
		"--username="+adminRole,
		"--auth=reject", // applies to a file of initdb's that we replace
		"--encoding=UTF8",
		"--locale="+utf8Locale(),
		"--no-sync",
		"--no-instructions",
		"-D", filepath.Join(s.dir, dataDir),
	))
}

// utf8Locale returns a locale that sorts by code point and knows all letters.
func utf8Locale() string {
	if runtime.GOOS == "darwin" {
		return "en_US.UTF-8" // does so there; not every macOS has C.UTF-8
	}
	return "C.UTF-8"
}

// createRoles creates the roles before the data is copied, in a server without a
// port. So a replica lets the app log in from the start, whatever its delay.
func (p *postgres) createRoles(ctx context.Context, s *Server) error {
	cmd := p.account.command(s.dir, p.programs.postgres,
		"--single", "-D", filepath.Join(s.dir, dataDir), "-c", "fsync=off", "-c", "exit_on_error=on", "postgres")
	cmd.Stdin = strings.NewReader(strings.Join([]string{
		"ALTER ROLE " + adminRole + " PASSWORD '" + p.adminPassword + "'",
		"CREATE ROLE " + appRole + " LOGIN PASSWORD '" + p.appPassword + "'",
		"GRANT pg_read_all_stats TO " + appRole,
		"",
	}, "\n"))
	return run(ctx, cmd)
}

// copyData copies the data together with the file that makes it a standby's.
func (p *postgres) copyData(ctx context.Context, from, to *Server) error {
	signal := filepath.Join(to.dir, "standby.signal")
	if err := p.account.writeFile(signal, ""); err != nil {
		return err
	}
	return run(ctx, p.account.command(to.dir, "cp", "-a",
		filepath.Join(from.dir, dataDir)+"/.", signal, filepath.Join(to.dir, dataDir)))
}

func (p *postgres) command(s *Server) *exec.Cmd {
	return p.account.command(s.dir, p.programs.postgres, "-D", s.dir)
}

// These are PostgreSQL's fast and immediate shutdown.
func (p *postgres) stopSignal() syscall.Signal { return syscall.SIGINT }
func (p *postgres) quitSignal() syscall.Signal { return syscall.SIGQUIT }
