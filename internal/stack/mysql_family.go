package stack

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	tmpDir          = "tmp" // where a server keeps its temporary files, next to its data
	configFile      = "my.cnf"
	replicationFile = "replication.sql"
	usersFile       = "users.sql"

	adminUser = "admin"
	appUser   = "app"
)

// mysqlFamily is the engine for MySQL and for MariaDB, which began as a copy of it.
type mysqlFamily struct {
	variant
	account account

	// There are passwords since every user of this machine can reach the servers.
	adminPassword, appPassword string
}

// variant is what MySQL and MariaDB do each in its own way.
type variant struct {
	scheme   string // of a URL; also the name of the engine
	programs mysqlPrograms

	initializeArgs []string // make data, and run usersFile on it
	removeUsers    []string // statements that remove the users who come with it

	ownSettings     []setting
	readOnlySetting string

	// The statement that sets up a replica and how its options begin, as in
	// CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 1.
	changeStatement, optionPrefix string
	// Options by which a replica asks its primary for what it lacks, or goes on with
	// what is in its own files.
	byGTID, byFile string
	stopForDelay   string // the statement before one that changes the delay

	sourceColumn, replicaColumn string // how columns of a replica's status begin
	receivedColumn              string

	committedQuery, reachedQuery string // a position; whether it is applied
}

type setting struct{ name, value string }

func newMySQLFamily(v variant) (*mysqlFamily, error) {
	a, err := unprivileged("mysql", "nobody")
	if err != nil {
		return nil, err
	}
	return &mysqlFamily{variant: v, account: a, adminPassword: rand.Text(), appPassword: rand.Text()}, nil
}

func (m *mysqlFamily) name() string    { return m.scheme }
func (m *mysqlFamily) version() string { return m.programs.version }
func (m *mysqlFamily) owner() account  { return m.account }

func (m *mysqlFamily) url(s *Server, database string) string {
	return m.urlFor(s, url.UserPassword(appUser, m.appPassword), database)
}

func (m *mysqlFamily) adminURL(s *Server, database string) string {
	return m.urlFor(s, url.UserPassword(adminUser, m.adminPassword), database)
}

func (m *mysqlFamily) urlFor(s *Server, login *url.Userinfo, database string) string {
	u := url.URL{Scheme: m.scheme, User: login, Host: s.Addr(), Path: "/" + database}
	return u.String()
}

// create makes the data of the primary and copies it for the replicas. The binary log
// is off meanwhile, so that no server begins with transactions of its own.
func (m *mysqlFamily) create(ctx context.Context, servers []*Server) error {
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

func (m *mysqlFamily) initializeData(ctx context.Context, s *Server) error {
	if err := m.account.writeFile(filepath.Join(s.dir, usersFile), m.users()); err != nil {
		return err
	}
	if err := m.configure(s, replication{}); err != nil {
		return err
	}
	args := append([]string{"--defaults-file=" + filepath.Join(s.dir, configFile)}, m.initializeArgs...)
	if err := run(ctx, m.account.command(s.dir, m.programs.initialize, args...)); err != nil {
		return err
	}
	// It holds MySQL's UUID, of which each server then makes its own: servers with one
	// UUID would take each other's commits for theirs.
	return os.RemoveAll(filepath.Join(s.dir, dataDir, "auto.cnf"))
}

// users returns the statements that put our users in place of those that the engine
// comes with. They run before the data is copied, so a replica lets the app log in
// from the start, whatever its delay.
func (m *mysqlFamily) users() string {
	return strings.Join(append(slices.Clone(m.removeUsers),
		"CREATE USER "+adminUser+" IDENTIFIED BY '"+m.adminPassword+"'",
		"GRANT ALL ON *.* TO "+adminUser+" WITH GRANT OPTION",
		"CREATE USER "+appUser+" IDENTIFIED BY '"+m.appPassword+"'",
		"",
	), ";\n")
}

func (m *mysqlFamily) command(s *Server) *exec.Cmd {
	return m.account.command(s.dir, m.programs.server, "--defaults-file="+filepath.Join(s.dir, configFile))
}

func (m *mysqlFamily) stopSignal() syscall.Signal { return syscall.SIGTERM }

// quitSignal is the hard one: a server that is killed leaves nothing in the kernel.
func (m *mysqlFamily) quitSignal() syscall.Signal { return syscall.SIGKILL }
