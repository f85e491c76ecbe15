package dbroute

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"maps"
	"strings"
	"time"
)

// mysqlEngine is MySQL 8.4 and later. Its commit ID is a set of GTIDs:
// "mysql:3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", and a plus sign between the
// sources where there are several.
type mysqlEngine struct {
	mysqlFamily
	gtidIDs[gtidSet]
}

func newMySQL() mysqlEngine { return mysqlEngine{gtidIDs: gtidIDs[gtidSet]{MySQL, parseGTIDSet}} }

func (mysqlEngine) connector(rawURL string, readOnly bool, dial dialFunc) (driver.Connector, time.Duration, error) {
	return newMySQLConnector(rawURL, readOnly, dial, "transaction_read_only", "transaction_isolation")
}

func (mysqlEngine) identify(ctx context.Context, conn driver.QueryerContext, role Role) (identity, error) {
	return identifyMySQL(ctx, conn, role, MySQL, `
		SELECT @@GLOBAL.read_only, @@server_id, concat(@@server_uuid, ' ', unix_timestamp() - variable_value, ' ', substr(uuid(), 20, 4)),
		       @@GLOBAL.gtid_executed
		  FROM performance_schema.global_status
		 WHERE variable_name = 'Uptime'`)
}

// position keeps all sources: what a server has written itself may be older than the
// rest, from when it was the primary before.
func (e mysqlEngine) position(ctx context.Context, conn *sql.Conn) (CommitID, error) {
	on, err := e.committed(ctx, conn)
	switch {
	case err != nil:
		return CommitID{}, err
	case on.readOnly:
		return CommitID{}, errReadOnly
	}
	return e.commitID(on.set), nil
}

func (e mysqlEngine) visible(ctx context.Context, conn *sql.Conn) (CommitID, error) {
	on, err := e.committed(ctx, conn)
	if err != nil {
		return CommitID{}, err
	}
	return e.commitID(on.set), nil
}

// lastCommit leaves out the other sources, which would not fit into a cookie from some
// forty on, if this server's own goes past all of them: if it has grown since the
// connection opened, and they have not. A replica commits in the order of the primary's
// binary log (replica_preserve_commit_order, on unless it was turned off), and so has
// them once it has the own. A transaction that changed nothing has no GTID of its own to
// go by; nor has one of group replication, whose members write under the group's name.
func (e mysqlEngine) lastCommit(ctx context.Context, conn *sql.Conn, who identity) (CommitID, error) {
	on, err := e.committed(ctx, conn)
	if err != nil {
		return CommitID{}, err
	}
	own := on.set.of(on.uuid)
	if who.executed.covers(own) {
		return e.commitID(on.set), nil
	}
	grown := maps.Clone(who.executed)
	if grown.add(own); grown.covers(on.set) {
		return e.commitID(own), nil
	}
	return e.commitID(on.set), nil
}

// mysqlCommits is what a server has committed.
type mysqlCommits struct {
	set      gtidSet // executed or owned
	uuid     string  // the server's own source
	readOnly bool
}

// committed takes what is owned too. Rows become visible to others shortly before their
// GTID is executed, and a client that has read them must find them again. Owned is read
// first; a GTID that moves in between is then in both.
func (mysqlEngine) committed(ctx context.Context, conn *sql.Conn) (on mysqlCommits, err error) {
	var owned, executed string
	err = conn.QueryRowContext(ctx, `SELECT @@GLOBAL.gtid_owned, @@GLOBAL.gtid_executed, @@server_uuid, @@GLOBAL.read_only`).
		Scan(&owned, &executed, &on.uuid, &on.readOnly)
	if err != nil {
		return on, err
	}
	if on.set, err = parseGTIDSet(executed); err != nil {
		return on, fmt.Errorf("gtid_executed %q: %w", executed, err)
	}
	inFlight, err := parseGTIDSet(withoutOwners(owned))
	if err != nil {
		return on, fmt.Errorf("gtid_owned %q: %w", owned, err)
	}
	on.set.add(inFlight)
	return on, nil
}

// withoutOwners takes the threads out of "uuid:4#12:5#13".
func withoutOwners(owned string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(owned, "#")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		owned = strings.TrimLeft(after, "0123456789")
	}
}

func (e mysqlEngine) reached(ctx context.Context, conn *sql.Conn, id CommitID) (reach, error) {
	var executed bool
	err := conn.QueryRowContext(ctx, `SELECT GTID_SUBSET(?, @@GLOBAL.gtid_executed)`, e.serverText(id)).Scan(&executed)
	if err != nil || !executed {
		return notReached, err
	}
	return hasReached, nil
}

// wait: WAIT_FOR_EXECUTED_GTID_SET takes 0 seconds for no bound at all.
func (e mysqlEngine) wait(ctx context.Context, conn *sql.Conn, id CommitID, seconds float64) error {
	return conn.QueryRowContext(ctx, `SELECT WAIT_FOR_EXECUTED_GTID_SET(?, ?)`, e.serverText(id), seconds).Scan(new(int))
}

func (e mysqlEngine) applied(ctx context.Context, conn *sql.Conn) (CommitID, error) {
	var executed string
	var readOnly bool
	err := conn.QueryRowContext(ctx, `SELECT @@GLOBAL.gtid_executed, @@GLOBAL.read_only`).Scan(&executed, &readOnly)
	switch {
	case err != nil:
		return CommitID{}, err
	case !readOnly:
		return CommitID{}, errWritable
	}
	set, err := parseGTIDSet(executed)
	if err != nil {
		return CommitID{}, fmt.Errorf("gtid_executed %q: %w", executed, err)
	}
	return e.commitID(set), nil
}

func (mysqlEngine) missing(ctx context.Context, conn *sql.Conn, role Role) ([]string, error) {
	var logBin bool
	var mode, consistency string
	err := conn.QueryRowContext(ctx, `SELECT @@GLOBAL.log_bin, @@GLOBAL.gtid_mode, @@GLOBAL.enforce_gtid_consistency`).
		Scan(&logBin, &mode, &consistency)
	if err != nil {
		return nil, err
	}
	var lacks []string
	if role == Primary && !logBin {
		lacks = append(lacks, "log_bin is OFF: start the server with log_bin")
	}
	if mode != "ON" {
		lacks = append(lacks, "gtid_mode is "+mode+": set gtid_mode=ON")
	}
	if consistency != "ON" {
		lacks = append(lacks, "enforce_gtid_consistency is "+consistency+": set enforce_gtid_consistency=ON")
	}
	return lacks, nil
}
