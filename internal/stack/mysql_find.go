package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// mysqlPrograms is an installed MySQL or MariaDB.
type mysqlPrograms struct {
	server, initialize string // MySQL's server needs no other program to initialize
	version            string
}

func findMySQL(ctx context.Context) (mysqlPrograms, error) {
	for _, dir := range mysqlDirs("STACK_MYSQL_BIN", "mysql") {
		server := filepath.Join(dir, "mysqld")
		if !isExecutable(server) {
			continue
		}
		version, isMariaDB, err := mysqlVersion(ctx, server)
		if err != nil {
			return mysqlPrograms{}, err
		}
		if !isMariaDB {
			return mysqlPrograms{server: server, version: version}, nil
		}
	}
	return mysqlPrograms{}, &MissingError{Engine: "mysql", Program: "mysqld", Install: "scripts/install mysql"}
}

func findMariaDB(ctx context.Context) (mysqlPrograms, error) {
	for _, dir := range mysqlDirs("STACK_MARIADB_BIN", "mariadb") {
		server := filepath.Join(dir, "mariadbd")
		if !isExecutable(server) {
			continue
		}
		version, _, err := mysqlVersion(ctx, server)
		return mysqlPrograms{server: server, version: version, initialize: filepath.Join(filepath.Dir(dir), "bin", "mariadb-install-db")}, err
	}
	return mysqlPrograms{}, &MissingError{Engine: "mariadb", Program: "mariadbd", Install: "scripts/install mariadb"}
}

// mysqlDirs returns the folders to look in, the best first.
func mysqlDirs(env, name string) []string {
	if dir := os.Getenv(env); dir != "" {
		return []string{dir}
	}
	dirs := filepath.SplitList(os.Getenv("PATH"))
	return append(dirs, "/usr/sbin", "/var/cache/freshread/"+name+"/bin")
}

var mysqlVersionPattern = regexp.MustCompile(`Ver (\d+\.\d+\.\d+)`)

func mysqlVersion(ctx context.Context, server string) (version string, isMariaDB bool, err error) {
	out, err := exec.CommandContext(ctx, server, "--no-defaults", "--version").Output()
	if err != nil {
		return "", false, fmt.Errorf("ask %s for its version: %w", server, err)
	}
	found := mysqlVersionPattern.FindSubmatch(out)
	if found == nil {
		return "", false, fmt.Errorf("%s gives no version: %q", server, out)
	}
	return string(found[1]), strings.Contains(string(out), "MariaDB"), nil
}
