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

// These are the oldest versions that the settings and statements here are for.
const (
	oldestMySQL   = "8.4"
	oldestMariaDB = "10.11"
)

// mysqlPrograms is an installed MySQL or MariaDB.
type mysqlPrograms struct {
	server     string
	initialize string // makes the data
	version    string
}

// findMySQL finds the MySQL to run: in the folder that STACK_MYSQL_BIN names or else
// in $PATH or else where packages or scripts/install put it. What is too old or is
// MariaDB under MySQL's name is passed over.
func findMySQL(ctx context.Context) (mysqlPrograms, error) {
	var refused error
	for _, dir := range mysqlDirs("mysql", os.Getenv("STACK_MYSQL_BIN")) {
		server := filepath.Join(dir, "mysqld")
		if !isExecutable(server) {
			continue
		}
		version, product, err := mysqlVersion(ctx, server)
		if err == nil && product == "mariadb" {
			continue
		}
		if err == nil {
			err = checkVersion(server, version, oldestMySQL)
		}
		if err == nil {
			return mysqlPrograms{server, server, version}, nil
		}
		refused = errors.Join(refused, err)
	}
	return mysqlPrograms{}, cmp.Or[error](refused, &MissingError{
		Engine:  "mysql",
		Program: filepath.Join(os.Getenv("STACK_MYSQL_BIN"), "mysqld"),
		Install: "scripts/install mysql (Debian, Ubuntu), dnf install mysql-server (Fedora), brew install mysql (macOS)",
	})
}

// findMariaDB finds the MariaDB to run, in the same places by STACK_MARIADB_BIN.
func findMariaDB(ctx context.Context) (mysqlPrograms, error) {
	var refused error
	for _, dir := range mysqlDirs("mariadb", os.Getenv("STACK_MARIADB_BIN")) {
		server := filepath.Join(dir, "mariadbd")
		initialize := mariaDBInitialize(dir)
		if !isExecutable(server) || initialize == "" {
			continue
		}
		version, _, err := mysqlVersion(ctx, server)
		if err == nil {
			err = checkVersion(server, version, oldestMariaDB)
		}
		if err == nil {
			return mysqlPrograms{server, initialize, version}, nil
		}
		refused = errors.Join(refused, err)
	}
	return mysqlPrograms{}, cmp.Or[error](refused, &MissingError{
		Engine:  "mariadb",
		Program: filepath.Join(os.Getenv("STACK_MARIADB_BIN"), "mariadbd"),
		Install: "scripts/install mariadb (Debian, Ubuntu), dnf install mariadb-server (Fedora), brew install mariadb (macOS)",
	})
}

// mariaDBInitialize finds the program that makes data for the server in dir. Where
// servers have a folder of their own, it is among the programs for everybody.
func mariaDBInitialize(dir string) string {
	for _, dir := range []string{dir, filepath.Join(filepath.Dir(dir), "bin")} {
		if program := filepath.Join(dir, "mariadb-install-db"); isExecutable(program) {
			return program
		}
	}
	return ""
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

// mysqlVersion asks for the version, as in "mysqld  Ver 9.7.4-2 for Linux" or
// "mysqld  Ver 10.11.19-MariaDB for Linux".
func mysqlVersion(ctx context.Context, server string) (version, product string, err error) {
	out, err := ask(ctx, server, "--no-defaults", "--version")
	if err != nil {
		return "", "", err
	}
	found := mysqlVersionPattern.FindStringSubmatch(out)
	if found == nil {
		return "", "", fmt.Errorf("%s gives no version: %q", server, out)
	}
	product = "mysql"
	if strings.Contains(out, "MariaDB") {
		product = "mariadb"
	}
	return found[1], product, nil
}
