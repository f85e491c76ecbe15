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
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgres is PostgreSQL 14 and later. Its commit ID is a timeline and a WAL
// position: "postgres:1:0/16B3748".
type postgres struct{}

func (postgres) name() Engine { return PostgreSQL }

func (postgres) connector(rawURL string, readOnly bool, dial dialFunc) (driver.Connector, time.Duration, error) {
	cfg, err := pgx.ParseConfig(rawURL)
	if err != nil {
		return nil, 0, fmt.Errorf("parse URL: %w", err) // pgx leaves the password out
	}
	cfg.DialFunc = pgconn.DialFunc(dial)
	// The server heeds a parameter more than the same among the options, "-c lock_timeout=2s".
	if _, given := cfg.RuntimeParams["lock_timeout"]; !given && !strings.Contains(cfg.RuntimeParams["options"], "lock_timeout") {
		cfg.RuntimeParams["lock_timeout"] = strconv.FormatInt(lockTimeout.Milliseconds(), 10)
	}
	if readOnly {
		cfg.RuntimeParams["default_transaction_read_only"] = "on"
	}
	return stdlib.GetConnector(*cfg), cmp.Or(cfg.ConnectTimeout, connectTimeout), nil
}

// identify tells instances apart by the start of the checkpointer too: when a
// backend crashes, the postmaster lives on and restarts everything else, and a
// standby may come back at an earlier position.
func (postgres) identify(ctx context.Context, conn driver.QueryerContext, role Role) (identity, error) {
	row, err := firstRow(ctx, conn, `
		SELECT pg_is_in_recovery(),
		       extract(epoch FROM pg_postmaster_start_time())::text || ' ' ||
		       coalesce((SELECT extract(epoch FROM backend_start)::text
		                   FROM pg_stat_activity WHERE backend_type = 'checkpointer'), ''),
		       coalesce(current_setting('app.server_id', true), ''),
		       current_setting('server_version_num')::integer >= 190000`)
	if err != nil {
		return identity{}, err
	}
	recovering, ok1 := row[0].(bool)
	started, ok2 := row[1].(string)
	serverID, ok3 := row[2].(string)
	waits, ok4 := row[3].(bool)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return identity{}, fmt.Errorf("unexpected answer %v", row)
	}
	switch {
	case recovering && role == Primary:
		return identity{}, fmt.Errorf("%w: the server is a replica, not a primary", errWrongRole)
	case !recovering && role == Replica:
		return identity{}, fmt.Errorf("%w: the server is a primary, not a replica", errWrongRole)
	}
	who := identity{instance: started, waits: waits}
	if serverID != "" {
		if who.serverID, err = strconv.Atoi(serverID); err != nil {
			return identity{}, fmt.Errorf("app.server_id: %w", err)
		}
	}
	return who, nil
}

func (postgres) rebind(query string) string { return rebindDollar(query) }

func (postgres) insertID(ctx context.Context, tx *sql.Tx, query string, args []any) (int64, error) {
	var id int64
	err := tx.QueryRowContext(ctx, query+" RETURNING id", args...).Scan(&id)
	return id, err
}

// position uses the insert position: with synchronous_commit=off the plain
// pg_current_wal_lsn() lags behind a commit that is already visible. The name
// of a WAL file begins with its timeline.
func (postgres) position(ctx context.Context, conn *sql.Conn) (CommitID, error) {
	var file, position string
	var pageSize uint64
	err := conn.QueryRowContext(ctx, `
		SELECT pg_walfile_name(lsn), lsn::text, current_setting('wal_block_size')::bigint
		  FROM pg_current_wal_insert_lsn() AS lsn`).Scan(&file, &position, &pageSize)
	if err != nil {
		return CommitID{}, err
	}
	timeline, err := strconv.ParseUint(file[:min(8, len(file))], 16, 32)
	if err != nil {
		return CommitID{}, fmt.Errorf("timeline in %q: %w", file, err)
	}
	at, err := parseLSN(position)
	if err != nil {
		return CommitID{}, err
	}
	return walPosition{timeline: uint32(timeline), lsn: pageStart(at, pageSize)}.commitID(), nil
}

func (e postgres) lastCommit(ctx context.Context, conn *sql.Conn, _ identity) (CommitID, error) {
	return e.position(ctx, conn)
}

// visible is short of the record that is being replayed, which is counted a moment after
// its commit can be seen: to count what was received would keep a client on the primary
// for as long as the replica is behind. It takes the timeline from the control file
// where the standby receives from nobody. That may be an older one, whose commit IDs
// are not reached anywhere else.
func (postgres) visible(ctx context.Context, conn *sql.Conn) (CommitID, error) {
	var timeline uint32
	var position string
	err := conn.QueryRowContext(ctx, `
		SELECT coalesce((SELECT received_tli FROM pg_stat_wal_receiver), (SELECT timeline_id FROM pg_control_checkpoint())),
		       pg_last_wal_replay_lsn()::text`).Scan(&timeline, &position)
	if err != nil {
		return CommitID{}, err
	}
	lsn, err := parseLSN(position)
	if err != nil {
		return CommitID{}, err
	}
	return walPosition{timeline: timeline, lsn: lsn}.commitID(), nil
}

// pageStart takes an insert position at the very start of a WAL page back to
// before the page's header: 24 bytes, or 40 at a segment start. The insert
// position skips the header as soon as the page is due, replay only with the
// next record, which an idle primary may not write for 14 s (measured). Nothing
// can end inside the header, so the commit is still covered; nor between 24 and
// 40 in other pages, since the smallest record has 24 bytes.
func pageStart(lsn, pageSize uint64) uint64 {
	switch offset := lsn % pageSize; offset {
	case 24, 40:
		return lsn - offset
	}
	return lsn
}

func (postgres) parse(text string) (CommitID, error) {
	p, err := parseWALPosition(text)
	if err != nil {
		return CommitID{}, err
	}
	// One position has one text, so that equal commit IDs compare as equal.
	if id := p.commitID(); id.text == text {
		return id, nil
	}
	return CommitID{}, ErrMalformed
}

func (postgres) merge(a, b CommitID) (CommitID, error) {
	pa, pb, err := parseBoth(a, b)
	switch {
	case err != nil:
		return CommitID{}, err
	case pa.timeline != pb.timeline:
		return CommitID{}, errOtherTimeline
	case pa.lsn < pb.lsn:
		return b, nil
	}
	return a, nil
}

func (e postgres) covers(a, b CommitID) bool { return e.parsed(a).covers(b) }

func (postgres) parsed(id CommitID) parsedID {
	p, err := parseWALPosition(id.text)
	if err != nil {
		return walPosition{} // there is no timeline 0
	}
	return p
}

// reached compares timelines too: after a failover that lost commits, the same
// position is another commit. A standby that receives from nobody shows no
// timeline, and so has not reached anything.
func (postgres) reached(ctx context.Context, conn *sql.Conn, id CommitID) (reach, error) {
	want, err := parseWALPosition(id.text)
	if err != nil {
		return notReached, err
	}
	var replayed bool
	var timeline int64
	err = conn.QueryRowContext(ctx, `
		SELECT coalesce(pg_last_wal_replay_lsn() >= $1::pg_lsn, false),
		       coalesce((SELECT received_tli FROM pg_stat_wal_receiver), 0)`,
		formatLSN(want.lsn)).Scan(&replayed, &timeline)
	switch {
	case err != nil:
		return notReached, err
	case timeline == 0:
		return notReached, nil
	case timeline != int64(want.timeline):
		return onOtherTimeline, nil
	case !replayed:
		return notReached, nil
	}
	return hasReached, nil
}

// wait uses WAIT FOR LSN, which takes no parameters and no prepared statement
// worth keeping. PostgreSQL has it from version 19 on.
func (postgres) wait(ctx context.Context, conn *sql.Conn, id CommitID, seconds float64) error {
	p, err := parseWALPosition(id.text)
	if err != nil {
		return err
	}
	statement := fmt.Sprintf("WAIT FOR LSN '%s' WITH (TIMEOUT '%dms', NO_THROW)", formatLSN(p.lsn), int64(seconds*1000))
	return conn.QueryRowContext(ctx, statement, pgx.QueryExecModeSimpleProtocol).Scan(new(string))
}

func (postgres) applied(ctx context.Context, conn *sql.Conn) (CommitID, error) {
	var standby bool
	var timeline int64
	var position string
	err := conn.QueryRowContext(ctx, `
		SELECT pg_is_in_recovery(),
		       coalesce((SELECT received_tli FROM pg_stat_wal_receiver), 0),
		       coalesce(pg_last_wal_replay_lsn(), '0/0')::text`).Scan(&standby, &timeline, &position)
	switch {
	case err != nil:
		return CommitID{}, err
	case !standby:
		return CommitID{}, fmt.Errorf("%w: the server is a primary, not a replica", errWrongRole)
	case timeline == 0:
		return CommitID{}, nil
	}
	lsn, err := parseLSN(position)
	if err != nil {
		return CommitID{}, err
	}
	return walPosition{timeline: uint32(timeline), lsn: lsn}.commitID(), nil
}

// distance is in bytes of WAL.
func (postgres) distance(a, b CommitID) int64 {
	pa, pb, err := parseBoth(a, b)
	if err != nil || pa.lsn < pb.lsn {
		return 0
	}
	return int64(pa.lsn - pb.lsn)
}

func (postgres) unit() string { return "bytes" }

func (postgres) missing(ctx context.Context, conn *sql.Conn, role Role) ([]string, error) {
	if role == Primary {
		return nil, nil
	}
	var user string
	var mayReadStats bool
	err := conn.QueryRowContext(ctx, `SELECT current_user::text, pg_has_role('pg_read_all_stats', 'USAGE')`).Scan(&user, &mayReadStats)
	if err != nil || mayReadStats {
		return nil, err
	}
	return []string{fmt.Sprintf("role %q cannot see the timeline it receives: GRANT pg_read_all_stats TO %s", user, pgx.Identifier{user}.Sanitize())}, nil
}

func (postgres) fault(err error) fault {
	var refused *pgconn.PgError
	var netErr net.Error
	var connectErr *pgconn.ConnectError
	switch {
	case err == nil, errors.Is(err, sql.ErrNoRows):
		return faultNone
	case errors.As(err, &refused):
		// FATAL ends the connection, and may do so after the server has done
		// what it was asked: a COMMIT that waits for a standby.
		severity := cmp.Or(refused.SeverityUnlocalized, refused.Severity)
		if severity == "FATAL" || severity == "PANIC" || refused.Code == "40003" {
			return faultConnection
		}
		return faultStatement
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return faultStatement
	case errors.As(err, &connectErr):
		return faultConnection
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return faultNone // somebody did not want to wait longer, for a busy server perhaps
	case errors.As(err, &netErr), errors.Is(err, pgconn.ErrConnClosed), pgconn.SafeToRetry(err),
		errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return faultConnection
	}
	return faultNone
}

func (postgres) full(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "53300" // too_many_connections
}

func (postgres) duplicateKey(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "23505" // unique_violation
}

func (postgres) contended(err error) bool {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code {
	case "40P01", "40001", "55P03": // deadlock_detected, serialization_failure, lock_not_available
		return true
	}
	return false
}

// walPosition is a commit ID taken apart.
type walPosition struct {
	timeline uint32
	lsn      uint64
}

func (p walPosition) covers(id CommitID) bool {
	other, err := parseWALPosition(id.text)
	return err == nil && p.reaches(other)
}

func (p walPosition) isPast(other parsedID) bool {
	o, ok := other.(walPosition)
	return ok && p.reaches(o)
}

func (p walPosition) reaches(other walPosition) bool {
	return p.timeline != 0 && p.timeline == other.timeline && p.lsn >= other.lsn
}

func (p walPosition) commitID() CommitID {
	return CommitID{fmt.Sprintf("postgres:%d:%s", p.timeline, formatLSN(p.lsn))}
}

// parseWALPosition takes apart what commitID put together.
func parseWALPosition(text string) (walPosition, error) {
	rest, ok := strings.CutPrefix(text, "postgres:")
	tli, position, ok2 := strings.Cut(rest, ":")
	timeline, err := strconv.ParseUint(tli, 10, 32)
	if !ok || !ok2 || err != nil || timeline == 0 {
		return walPosition{}, ErrMalformed
	}
	lsn, err := parseLSN(position)
	if err != nil {
		return walPosition{}, err
	}
	return walPosition{timeline: uint32(timeline), lsn: lsn}, nil
}

func parseBoth(a, b CommitID) (pa, pb walPosition, err error) {
	if pa, err = parseWALPosition(a.text); err == nil {
		pb, err = parseWALPosition(b.text)
	}
	return pa, pb, err
}

// parseLSN reads "F/FFFFFFFF": the two halves of a 64-bit number in hex, which
// do not compare as text.
func parseLSN(text string) (uint64, error) {
	left, right, _ := strings.Cut(text, "/")
	high, err1 := strconv.ParseUint(left, 16, 32)
	low, err2 := strconv.ParseUint(right, 16, 32)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("%w: WAL position %q", ErrMalformed, text)
	}
	return high<<32 | low, nil
}

func formatLSN(lsn uint64) string {
	return fmt.Sprintf("%X/%X", lsn>>32, uint32(lsn))
}
