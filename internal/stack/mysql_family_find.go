package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mysqlPrograms is an installed MySQL or MariaDB.
type mysqlPrograms struct {
	server     string
	initialize string // makes the data
	version    string
}

// findMySQLFamily finds the server to run: in the folder that STACK_MYSQL_BIN or
// STACK_MARIADB_BIN names or else in $PATH or else where packages or scripts/install
// put it. A server of the other engine and one that is too old are passed over.
func findMySQLFamily(ctx context.Context, engine, program, oldest string) (server, version string, err error) {
	chosen := os.Getenv("STACK_" + strings.ToUpper(engine) + "_BIN")
	var refused error
	for _, dir := range mysqlDirs(engine, chosen) {
		server := filepath.Join(dir, program)
		if !isExecutable(server) {
			continue
		}
		version, found, err := mysqlVersion(ctx, server)
		if err == nil && found != engine {
			continue
		}
		if err == nil {
			err = checkVersion(server, version, oldest)
		}
		if err == nil {
			return server, version, nil
		}
		refused = errors.Join(refused, err)
	}
	return "", "", cmp.Or[error](refused, &MissingError{
		Engine:  engine,
		Program: filepath.Join(chosen, program),
		Install: fmt.Sprintf("scripts/install %s (Debian, Ubuntu), dnf install %[1]s-server (Fedora), brew install %[1]s (macOS)", engine),
	})
}

// mysqlDirs returns the folders to look in, the best first: chosen alone, if there
// is a choice.
func mysqlDirs(engine, chosen string) []string {
	if chosen != "" {
		return []string{chosen}
	}
	return append(filepath.SplitList(os.Getenv("PATH")),
		"/usr/sbin",    // Debian, Ubuntu
		"/usr/libexec", // Fedora
		"/opt/homebrew/opt/"+engine+"/bin",
		"/usr/local/opt/"+engine+"/bin", // Homebrew on Intel
		"/usr/local/mysql/bin",          // mysql.com
		filepath.Join(installedDir(engine), "usr/sbin"),
	)
}

var mysqlVersionPattern = regexp.MustCompile(`Ver (\d[\d.]*)`)

// mysqlVersion asks which version of which engine a server is, as in "mysqld  Ver 9.7.4-2 for Linux" or
// "mysqld  Ver 10.11.19-MariaDB for Linux".
func mysqlVersion(ctx context.Context, server string) (version, engine string, err error) {
	out, err := ask(ctx, server, "--no-defaults", "--version")
	if err != nil {
		return "", "", err
	}
	found := mysqlVersionPattern.FindStringSubmatch(out)
	if found == nil {
		return "", "", fmt.Errorf("%s gives no version: %q", server, out)
	}
	engine = "mysql"
	if strings.Contains(out, "MariaDB") {
		engine = "mariadb"
	}
	return found[1], engine, nil
}
