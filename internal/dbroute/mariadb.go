package dbroute

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
)

// mariadbEngine is MariaDB 10.11 and later. Its commit ID is a GTID position:
// "mariadb:0-1-7", and a plus sign between the domains where there are several.
type mariadbEngine struct{ mysqlFamily }

func (mariadbEngine) name() Engine { return MariaDB }

func (mariadbEngine) connector(rawURL string, readOnly bool, dial dialFunc) (driver.Connector, error) {
	return newMySQLConnector(rawURL, readOnly, dial, "tx_read_only", "tx_isolation")
}

// identify has no UUID to go by before MariaDB 11.
func (mariadbEngine) identify(ctx context.Context, conn driver.QueryerContext, role Role) (identity, error) {
	return identifyMySQL(ctx, conn, role, MariaDB, `
		SELECT @@GLOBAL.read_only, @@server_id,
		       concat(@@hostname, ' ', @@port, ' ', @@datadir, ' ', unix_timestamp() - variable_value, ' ', substr(uuid(), 20, 4)),
		       false
		  FROM information_schema.global_status
		 WHERE variable_name = 'UPTIME'`)
}

// position takes the end of the binary log: what is visible has been written
// there before. A primary that was promoted and has not written yet may have
// nothing there, and its history in what it applied as a replica.
func (mariadbEngine) position(ctx context.Context, conn *sql.Conn, _ identity) (CommitID, error) {
	var written, current string
	err := conn.QueryRowContext(ctx, `SELECT @@GLOBAL.gtid_binlog_pos, @@GLOBAL.gtid_current_pos`).Scan(&written, &current)
	if err != nil {
		return CommitID{}, err
	}
	position, err := parseGTIDPosition(written)
	if err != nil {
		return CommitID{}, fmt.Errorf("gtid_binlog_pos %q: %w", written, err)
	}
	all, err := parseGTIDPosition(current)
	if err != nil {
		return CommitID{}, fmt.Errorf("gtid_current_pos %q: %w", current, err)
	}
	position.add(all)
	return mariadbCommitID(position), nil
}

func (mariadbEngine) parse(text string) (CommitID, error) {
	position, err := parseMariaDBCommitID(text)
	if err != nil || len(position) == 0 {
		return CommitID{}, ErrMalformed
	}
	// One position has one text, so that equal commit IDs compare as equal.
	if id := mariadbCommitID(position); id.text == text {
		return id, nil
	}
	return CommitID{}, ErrMalformed
}

func (mariadbEngine) merge(a, b CommitID) (CommitID, error) {
	merged, err1 := parseMariaDBCommitID(a.text)
	other, err2 := parseMariaDBCommitID(b.text)
	if err1 != nil || err2 != nil {
		return CommitID{}, ErrMalformed
	}
	merged.add(other)
	return mariadbCommitID(merged), nil
}

func (mariadbEngine) covers(a, b CommitID) bool {
	have, err1 := parseMariaDBCommitID(a.text)
	want, err2 := parseMariaDBCommitID(b.text)
	return err1 == nil && err2 == nil && have.covers(want)
}

// reached: MASTER_GTID_WAIT knows only what was applied as a replica. Past its
// time it returns -1.
func (mariadbEngine) reached(ctx context.Context, conn *sql.Conn, id CommitID) (reach, error) {
	var result int
	err := conn.QueryRowContext(ctx, `SELECT MASTER_GTID_WAIT(?, 0)`, mariadbText(id)).Scan(&result)
	if err != nil || result != 0 {
		return notReached, err
	}
	return hasReached, nil
}

func (mariadbEngine) wait(ctx context.Context, conn *sql.Conn, id CommitID, seconds float64) error {
	return conn.QueryRowContext(ctx, `SELECT MASTER_GTID_WAIT(?, ?)`, mariadbText(id), seconds).Scan(new(int))
}

func (mariadbEngine) applied(ctx context.Context, conn *sql.Conn) (CommitID, error) {
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
	return mariadbCommitID(position), nil
}

func (mariadbEngine) distance(a, b CommitID) int64 {
	ahead, err1 := parseMariaDBCommitID(a.text)
	behind, err2 := parseMariaDBCommitID(b.text)
	if err1 != nil || err2 != nil {
		return 0
	}
	return ahead.missing(behind)
}

func (mariadbEngine) missing(ctx context.Context, conn *sql.Conn, role Role) ([]string, error) {
	var logBin bool
	err := conn.QueryRowContext(ctx, `SELECT @@GLOBAL.log_bin`).Scan(&logBin)
	if err != nil || logBin || role == Replica {
		return nil, err
	}
	return []string{"log_bin is OFF: start the server with log_bin"}, nil
}

func mariadbCommitID(position gtidPosition) CommitID {
	if len(position) == 0 {
		return CommitID{}
	}
	return CommitID{"mariadb:" + strings.ReplaceAll(position.String(), ",", "+")}
}

// mariadbText is a commit ID as the server reads it.
func mariadbText(id CommitID) string {
	return strings.ReplaceAll(strings.TrimPrefix(id.text, "mariadb:"), "+", ",")
}

func parseMariaDBCommitID(text string) (gtidPosition, error) {
	rest, ok := strings.CutPrefix(text, "mariadb:")
	if text == "" {
		return gtidPosition{}, nil
	}
	if !ok || strings.Contains(rest, ",") {
		return nil, ErrMalformed
	}
	return parseGTIDPosition(strings.ReplaceAll(rest, "+", ","))
}
