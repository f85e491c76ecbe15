package dbroute

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"time"
)

// engine is what differs between database products. Everything that knows a
// product's name, SQL dialect or driver is behind it.
type engine interface {
	name() Engine

	// connector prepares connections to one server, made with dial, and tells how long
	// an attempt at one may take. With readOnly the database itself refuses to write on
	// them: a handle without Exec would not stop INSERT … RETURNING.
	connector(rawURL string, readOnly bool, dial dialFunc) (driver.Connector, time.Duration, error)

	// identify asks a new connection which server it reached. It fails if that
	// server cannot serve in role.
	identify(ctx context.Context, conn driver.QueryerContext, role Role) (identity, error)

	// rebind rewrites the ? placeholders of a statement to the engine's own.
	rebind(query string) string

	// insertID runs an INSERT into a table whose key column is id.
	insertID(ctx context.Context, tx *sql.Tx, query string, args []any) (int64, error)

	// position returns a commit ID that covers every commit visible to conn,
	// which must be a connection to the primary outside any transaction. It fails if
	// that is the primary no longer.
	position(ctx context.Context, conn *sql.Conn) (CommitID, error)

	// lastCommit returns a commit ID that covers the commit that conn has just made
	// and all before it.
	lastCommit(ctx context.Context, conn *sql.Conn, who identity) (CommitID, error)

	// visible returns a commit ID that covers every commit visible to conn, which
	// must be a connection to a replica. It may cover more, so the replica has not
	// reached it for that. On PostgreSQL the commit that is being replayed at this very
	// moment may be visible and not covered.
	visible(ctx context.Context, conn *sql.Conn) (CommitID, error)

	// parse accepts only texts that position or merge may have returned, since
	// they come from clients.
	parse(text string) (CommitID, error)

	// merge returns a commit ID that covers both, or errOtherTimeline.
	merge(a, b CommitID) (CommitID, error)

	// covers reports whether a server that has reached a has reached b too.
	covers(a, b CommitID) bool

	// parsed takes apart what covers would have to each time. Of a malformed commit
	// ID it makes one that covers nothing.
	parsed(id CommitID) parsedID

	// reached asks the replica at the other end of conn.
	reached(ctx context.Context, conn *sql.Conn, id CommitID) (reach, error)

	// wait returns once the replica at the other end of conn has reached id, and
	// after so many seconds at the latest. It is only called if the identity of
	// conn says waits; what has been reached is asked afterwards.
	wait(ctx context.Context, conn *sql.Conn, id CommitID, seconds float64) error

	// applied returns how far the replica at the other end of conn has got, or
	// the zero CommitID if it cannot tell. It fails if that is no replica.
	applied(ctx context.Context, conn *sql.Conn) (CommitID, error)

	// distance returns how far b is behind a, in the engine's own unit.
	distance(a, b CommitID) int64
	unit() string

	// missing names what the role's configuration lacks for commit IDs to work.
	missing(ctx context.Context, conn *sql.Conn, role Role) ([]string, error)

	// fault classifies an error of a statement or a connection.
	fault(err error) fault

	// full reports whether the server has answered that it takes no more connections.
	full(err error) bool

	// duplicateKey reports whether a unique index refused a row.
	duplicateKey(err error) bool

	// contended reports whether a statement gave way to others: in a deadlock, or
	// since they held a lock for too long.
	contended(err error) bool
}

// engines are all there are.
func engines() []engine { return []engine{postgres{}, newMySQL(), newMariaDB()} }

// identity is what a connection learns about its server when it opens.
type identity struct {
	serverID int     // 0 if the server was not given one
	instance string  // differs after a restart and on another server
	waits    bool    // the server can wait for a commit ID by itself
	executed gtidSet // what MySQL had executed when the connection opened
}

// reach is a replica's answer to whether it has reached a commit ID.
type reach int

const (
	notReached reach = iota
	hasReached
	onOtherTimeline // the commit ID belongs to a history that this replica does not follow
)

// fault says whose failure an error is.
type fault int

const (
	faultNone       fault = iota // not the database's: the caller's own error, or none
	faultStatement               // the server answered and refused the statement
	faultConnection              // no answer: the connection or the server is gone
)

// engineFor chooses the engine by the scheme of a database URL. MariaDB is
// also found under mysql:// if it is asked for.
func engineFor(rawURL string, asked Engine) (engine, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// The error of net/url repeats the URL, and with it the password.
		return nil, fmt.Errorf("%w: not a URL", ErrUnsupported)
	}
	found, err := engineOfScheme(u.Scheme)
	switch {
	case err != nil:
		return nil, err
	case asked == "" || asked == found.name():
		return found, nil
	case asked == MariaDB && found.name() == MySQL:
		return newMariaDB(), nil
	}
	return nil, fmt.Errorf("%w: %s:// is not a URL of the engine %q", ErrUnsupported, u.Scheme, asked)
}

func engineOfScheme(scheme string) (engine, error) {
	switch scheme {
	case "postgres", "postgresql":
		return postgres{}, nil
	case "mysql":
		return newMySQL(), nil
	case "mariadb":
		return newMariaDB(), nil
	case "sqlite", "sqlite3", "file":
		return nil, fmt.Errorf("%w: SQLite has no replicas that apply a primary's commits, so there is nothing to route", ErrUnsupported)
	case "sqlserver", "mssql":
		return nil, fmt.Errorf("%w: SQL Server tells a client no position of its commit that a secondary could be asked for", ErrUnsupported)
	default:
		return nil, fmt.Errorf("%w: scheme %q (use postgres://, mysql:// or mariadb://)", ErrUnsupported, scheme)
	}
}
