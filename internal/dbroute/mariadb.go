package dbroute

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"
)

// mariadbEngine is MariaDB 10.11 and later. Its commit ID is a GTID position:
// "mariadb:0-1-7", and a plus sign between the domains where there are several.
type mariadbEngine struct {
	mysqlFamily
	gtidIDs[gtidPosition]
}

func newMariaDB() mariadbEngine {
	return mariadbEngine{gtidIDs: gtidIDs[gtidPosition]{MariaDB, parseGTIDPosition}}
}

func (mariadbEngine) connector(rawURL string, readOnly bool, dial dialFunc) (driver.Connector, time.Duration, error) {
	return newMySQLConnector(rawURL, readOnly, dial, "tx_read_only", "tx_isolation")
}

// identify has no UUID to go by before MariaDB 11.
func (mariadbEngine) identify(ctx context.Context, conn driver.QueryerContext, role Role) (identity, error) {
	return identifyMySQL(ctx, conn, role, MariaDB, `
		SELECT @@GLOBAL.read_only, @@server_id,
		       concat(@@hostname, ' ', @@port, ' ', @@datadir, ' ', unix_timestamp() - variable_value, ' ', substr(uuid(), 20, 4)),
		       ''
		  FROM information_schema.global_status
		 WHERE variable_name = 'UPTIME'`)
}

func (e mariadbEngine) position(ctx context.Context, conn *sql.Conn) (CommitID, error) {
	id, readOnly, err := e.committed(ctx, conn)
	if err == nil && readOnly {
		err = errReadOnly
	}
	return id, err
}

func (e mariadbEngine) visible(ctx context.Context, conn *sql.Conn) (CommitID, error) {
	id, _, err := e.committed(ctx, conn)
	return id, err
}

func (e mariadbEngine) lastCommit(ctx context.Context, conn *sql.Conn, _ identity) (CommitID, error) {
	return e.visible(ctx, conn)
}

// committed takes the end of the binary log: what is visible has been written
// there before. A primary that was promoted and has not written yet may have
// nothing there, and its history in what it applied as a replica.
func (e mariadbEngine) committed(ctx context.Context, conn *sql.Conn) (_ CommitID, readOnly bool, err error) {
	var written, current string
	err = conn.QueryRowContext(ctx, `SELECT @@GLOBAL.gtid_binlog_pos, @@GLOBAL.gtid_current_pos, @@GLOBAL.read_only`).
		Scan(&written, &current, &readOnly)
	if err != nil {
		return CommitID{}, false, err
	}
	position, err := parseGTIDPosition(written)
	if err != nil {
		return CommitID{}, false, fmt.Errorf("gtid_binlog_pos %q: %w", written, err)
	}
	all, err := parseGTIDPosition(current)
	if err != nil {
		return CommitID{}, false, fmt.Errorf("gtid_current_pos %q: %w", current, err)
	}
	position.add(all)
	return e.commitID(position), readOnly, nil
}

// reached: MASTER_GTID_WAIT knows only what was applied as a replica. Past its
// time it returns -1.
func (e mariadbEngine) reached(ctx context.Context, conn *sql.Conn, id CommitID) (reach, error) {
	var result int
	err := conn.QueryRowContext(ctx, `SELECT MASTER_GTID_WAIT(?, 0)`, e.serverText(id)).Scan(&result)
	if err != nil || result != 0 {
		return notReached, err
	}
	return hasReached, nil
}

func (e mariadbEngine) wait(ctx context.Context, conn *sql.Conn, id CommitID, seconds float64) error {
	return conn.QueryRowContext(ctx, `SELECT MASTER_GTID_WAIT(?, ?)`, e.serverText(id), seconds).Scan(new(int))
}

func (e mariadbEngine) applied(ctx context.Context, conn *sql.Conn) (CommitID, error) {
	var applied string
	var readOnly bool
	err := conn.QueryRowContext(ctx, `SELECT @@GLOBAL.gtid_slave_pos, @@GLOBAL.read_only`).Scan(&applied, &readOnly)
	switch {
	case err != nil:
		return CommitID{}, err
	case !readOnly:
		return CommitID{}, errWritable
	}
	position, err := parseGTIDPosition(applied)
	if err != nil {
		return CommitID{}, fmt.Errorf("gtid_slave_pos %q: %w", applied, err)
	}
	return e.commitID(position), nil
}

func (mariadbEngine) missing(ctx context.Context, conn *sql.Conn, role Role) ([]string, error) {
	var logBin bool
	err := conn.QueryRowContext(ctx, `SELECT @@GLOBAL.log_bin`).Scan(&logBin)
	if err != nil || logBin || role == Replica {
		return nil, err
	}
	return []string{"log_bin is OFF: start the server with log_bin"}, nil
}
