package stack

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	tmpDir = "tmp" // where the server keeps its temporary files, next to its data

	mysqlConfig      = "my.cnf"
	mysqlReplication = "replication.sql"

	adminUser = "admin"
	appUser   = "app"
)

// mysql is the engine for MySQL and for MariaDB, which began as a copy of it.
type mysql struct {
	variant
	account account

	// There are passwords since every user of this machine can reach the servers.
	adminPassword, appPassword string
}

// variant is what MySQL and MariaDB do each in their own way.
type variant struct {
	scheme         string // of a URL
	number         string // the version
	server         string // the program
	initialize     func(config string) (program string, args []string)
	settings       [][2]string
	monitor        string // the privilege to see how a replica is doing
	changeSource   string // begins the statement that changes what a replica follows
	sourcePrefix   string // begins the options of that
	sourceOptions  string // more of them, for a source that is new
	statusPrefix   string // begins columns of SHOW REPLICA STATUS
	committedQuery string
	appliedQuery   string
}

func newMySQLLike(v variant) (*mysql, error) {
	a, err := unprivileged("mysql", "nobody")
	if err != nil {
		return nil, err
	}
	return &mysql{variant: v, account: a, adminPassword: rand.Text(), appPassword: rand.Text()}, nil
}

func (m *mysql) version() string { return m.number }

func (m *mysql) url(s *Server, database string) string {
	return m.urlFor(s, url.UserPassword(appUser, m.appPassword), database)
}

func (m *mysql) adminURL(s *Server, database string) string {
	return m.urlFor(s, url.UserPassword(adminUser, m.adminPassword), database)
}

func (m *mysql) urlFor(s *Server, login *url.Userinfo, database string) string {
	u := url.URL{Scheme: m.scheme, User: login, Host: s.Addr(), Path: "/" + database}
	return u.String()
}

// create makes the data of the primary and copies it for the replicas. No binary
// log is written meanwhile, so that no server begins with transactions of its own.
func (m *mysql) create(ctx context.Context, servers []*Server) error {
	for _, s := range servers {
		for _, dir := range []string{dataDir, tmpDir} {
			if err := m.account.makePrivateDir(filepath.Join(s.dir, dir)); err != nil {
				return err
			}
		}
	}
	primary, replicas := servers[0], servers[1:]
	if err := m.initializeData(ctx, primary); err != nil {
		return err
	}
	return each(ctx, replicas, func(ctx context.Context, r *Server) error {
		return run(ctx, m.account.command(r.dir, "cp", "-a",
			filepath.Join(primary.dir, dataDir)+"/.", filepath.Join(r.dir, dataDir)))
	})
}

func (m *mysql) initializeData(ctx context.Context, s *Server) error {
	if err := m.account.writeFile(filepath.Join(s.dir, "users.sql"), m.users()); err != nil {
		return err
	}
	if err := m.configure(s, replication{}); err != nil {
		return err
	}
	program, args := m.initialize(filepath.Join(s.dir, mysqlConfig))
	if err := run(ctx, m.account.command(s.dir, program, args...)); err != nil {
		return err
	}
	// Servers with one UUID would take each other's commits for their own. MySQL
	// makes a new one.
	err := os.Remove(filepath.Join(s.dir, dataDir, "auto.cnf"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// users replaces the users that the engine comes with by ours, before the data is
// copied. So a replica lets the app log in from the start, whatever its delay.
func (m *mysql) users() string {
	return strings.Join([]string{
		"FLUSH PRIVILEGES;", // MariaDB looks at no user before
		"CREATE USER '" + adminUser + "'@'%' IDENTIFIED BY '" + m.adminPassword + "';",
		"GRANT ALL ON *.* TO '" + adminUser + "'@'%' WITH GRANT OPTION;",
		"CREATE USER '" + appUser + "'@'%' IDENTIFIED BY '" + m.appPassword + "';",
		"GRANT " + m.monitor + " ON *.* TO '" + appUser + "'@'%';",
		"DROP USER root@localhost;",
		"",
	}, "\n")
}

func (m *mysql) command(s *Server) *exec.Cmd {
	return m.account.command(s.dir, m.server, "--defaults-file="+filepath.Join(s.dir, mysqlConfig))
}

func (m *mysql) stopSignal() syscall.Signal { return syscall.SIGTERM }

// quitSignal is the hard one: a server that is killed leaves nothing in the kernel.
func (m *mysql) quitSignal() syscall.Signal { return syscall.SIGKILL }
