package dbroute

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mysqlFamily is what MySQL and MariaDB have in common: the protocol, its
// driver, and the numbers of its errors.
type mysqlFamily struct{}

// newMySQLConnector reads mysql://user:password@host:port/database?option=value;
// the options are those of go-sql-driver/mysql and system variables.
func newMySQLConnector(rawURL string, readOnly bool, dial dialFunc, readOnlyVariable, isolationVariable string) (driver.Connector, time.Duration, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, 0, errors.New("parse URL") // the error of net/url repeats the password
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	if n, err := strconv.Atoi(port); err != nil || n > 65535 {
		return nil, 0, fmt.Errorf("parse URL: invalid port %q", port)
	}
	// Of the address, the driver makes the name that a TLS certificate has to bear.
	cfg, err := mysql.ParseDSN("tcp(" + net.JoinHostPort(u.Hostname(), port) + ")/?" + u.RawQuery)
	if err != nil {
		return nil, 0, fmt.Errorf("parse URL: %w", err)
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.DBName = strings.TrimPrefix(u.Path, "/")
	cfg.DialFunc = dial
	cfg.Logger = &mysql.NopLogger{} // what it would log is in the errors
	cfg.ParseTime = true
	cfg.ClientFoundRows = true   // as elsewhere, a row counts that is updated to what it was
	cfg.InterpolateParams = true // one round trip per statement, not three
	cfg.RejectReadOnly = !readOnly
	set(cfg, "time_zone", "'+00:00'")
	// As elsewhere. Under REPEATABLE READ a transaction that has waited for a
	// lock would go on to read what was there before.
	set(cfg, isolationVariable, "'READ-COMMITTED'")
	seconds := strconv.Itoa(int(lockTimeout.Seconds()))
	set(cfg, "innodb_lock_wait_timeout", seconds) // for rows
	set(cfg, "lock_wait_timeout", seconds)        // for tables
	if readOnly {
		cfg.Params[readOnlyVariable] = "1"
	}
	inner, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, 0, err
	}
	return mysqlConnector{inner}, cmp.Or(cfg.Timeout, connectTimeout), nil
}

// set gives a variable a value unless the URL does.
func set(cfg *mysql.Config, variable, value string) {
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	if _, given := cfg.Params[variable]; !given {
		cfg.Params[variable] = value
	}
}

// errWritable: a replica that accepts writes of its own has left the primary's
// history, or is a primary.
var errWritable = fmt.Errorf("%w: read_only is OFF, so the server is a primary, not a replica", errWrongRole)

// errReadOnly: a primary that was demoted keeps its connections.
var errReadOnly = fmt.Errorf("%w: read_only is ON, so the server is a replica, not a primary", errWrongRole)

// identifyMySQL runs a query for read_only, the server id, what tells instances
// apart, and what MySQL has executed. Instances are told apart by the second of its
// start, which is exact since its uptime is counted on the same clock, and for two
// starts in one second the clock sequence of its UUIDs, which a server draws when it
// starts.
func identifyMySQL(ctx context.Context, conn driver.QueryerContext, role Role, product Engine, query string) (identity, error) {
	version, err := firstRow(ctx, conn, `SELECT version()`)
	if err != nil {
		return identity{}, err
	}
	if isMariaDB := strings.Contains(text(version[0]), "MariaDB"); isMariaDB != (product == MariaDB) {
		return identity{}, fmt.Errorf("%w: the server is %s, not %s", errWrongRole, text(version[0]), product)
	}
	row, err := firstRow(ctx, conn, query)
	if err != nil {
		return identity{}, err
	}
	readOnly, serverID, instance := text(row[0]) == "1", text(row[1]), text(row[2])
	switch {
	case readOnly && role == Primary:
		return identity{}, errReadOnly
	case !readOnly && role == Replica:
		return identity{}, errWritable
	}
	who := identity{instance: instance, waits: true}
	if who.executed, err = parseGTIDSet(text(row[3])); err != nil {
		return identity{}, fmt.Errorf("gtid_executed: %w", err)
	}
	if who.serverID, err = strconv.Atoi(serverID); err != nil {
		return identity{}, fmt.Errorf("server_id: %w", err)
	}
	return who, nil
}

// text is a value of a row, whichever type the driver gave it.
func text(v driver.Value) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(v)
}

func (mysqlFamily) rebind(query string) string { return query }

func (mysqlFamily) insertID(ctx context.Context, tx *sql.Tx, query string, args []any) (int64, error) {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func (mysqlFamily) fault(err error) fault {
	var refused *mysql.MySQLError
	var netErr net.Error
	switch {
	case err == nil, errors.Is(err, sql.ErrNoRows):
		return faultNone
	case errors.As(err, &refused):
		if endsConnection[refused.Number] {
			return faultConnection
		}
		return faultStatement
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return faultNone // somebody did not want to wait longer, for a busy server perhaps
	case errors.As(err, &netErr), errors.Is(err, mysql.ErrInvalidConn),
		errors.Is(err, mysql.ErrMalformPkt), errors.Is(err, mysql.ErrPktSync),
		errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return faultConnection
	}
	return faultNone
}

// endsConnection are the errors with which a server ends a connection, perhaps after it
// has done what it was asked. Those with which it refuses one are none of them, since
// some also refuse a statement, as 1044 and 1049 do.
var endsConnection = map[uint16]bool{
	1053: true, // shutdown in progress
	1079: true, // normal shutdown
	1158: true, // 1158 to 1161: network packets
	1159: true,
	1160: true,
	1161: true,
	1927: true, // MariaDB: connection was killed
	4031: true, // closed for inactivity
}

func (mysqlFamily) full(err error) bool {
	var refused *mysql.MySQLError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Number {
	case 1040, 1203, 1226: // of the server, of a user, by the user's own limit
		return true
	}
	return false
}

func (mysqlFamily) duplicateKey(err error) bool {
	var refused *mysql.MySQLError
	return errors.As(err, &refused) && refused.Number == 1062
}

func (mysqlFamily) contended(err error) bool {
	var refused *mysql.MySQLError
	return errors.As(err, &refused) && (refused.Number == 1213 || refused.Number == 1205) // deadlock, lock wait timeout
}
