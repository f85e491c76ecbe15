package stack

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

const (
	pageSize    = 8 << 10
	segmentSize = 16 << 20

	pageHeader    = 24
	segmentHeader = 40 // the header of the first page of a segment
)

func (p *postgres) ping(ctx context.Context, s *Server) error {
	return p.exec(ctx, s, "SELECT 1")
}

func (p *postgres) awaitStreaming(ctx context.Context, replica *Server) error {
	return p.await(ctx, replica, "SELECT EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')")
}

// createDatabase copies template0, since nobody can be connected to that.
func (p *postgres) createDatabase(ctx context.Context, primary *Server, name string) error {
	return p.exec(ctx, primary, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE template0 OWNER "+appRole)
}

func (p *postgres) dropDatabase(ctx context.Context, primary *Server, name string) error {
	return p.exec(ctx, primary, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
}

// committed reads where the next record will go. That counts commits too that are
// still to be written out, under synchronous_commit = off.
func (p *postgres) committed(ctx context.Context, primary *Server) (string, error) {
	var next int64
	err := p.connect(ctx, primary, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&next)
	})
	return strconv.FormatInt(lastRecordEnd(next), 10), err
}

// lastRecordEnd returns where the record before a position ends. When that is the
// end of a page, the next record goes behind the header of the page after it, and
// an idle server would not get there.
func lastRecordEnd(next int64) int64 {
	switch {
	case next%segmentSize == segmentHeader:
		return next - segmentHeader
	case next%pageSize == pageHeader:
		return next - pageHeader
	}
	return next
}

func (p *postgres) awaitApplied(ctx context.Context, replica *Server, position string) error {
	return p.await(ctx, replica, "SELECT pg_last_wal_replay_lsn() - '0/0' >= $1::text::numeric", position)
}

// pauseApply makes the replica forget its delay until it has paused. While it sits
// out the delay of a commit it does not confirm a pause; when the delay goes away
// it looks for one before it applies the commit.
func (p *postgres) pauseApply(ctx context.Context, replica *Server) error {
	if err := p.exec(ctx, replica, "SELECT pg_wal_replay_pause()"); err != nil {
		return err
	}
	err := p.hurry(replica, true)
	if err == nil {
		err = p.await(ctx, replica, "SELECT pg_get_wal_replay_pause_state() = 'paused'")
	}
	return errors.Join(err, p.hurry(replica, false))
}

func (p *postgres) hurry(replica *Server, eager bool) error {
	err := replica.update(func(r *replication) { r.eager = eager })
	replica.current().signal(syscall.SIGHUP)
	return err
}

func (p *postgres) resumeApply(ctx context.Context, replica *Server) error {
	return p.exec(ctx, replica, "SELECT pg_wal_replay_resume()")
}

func (p *postgres) promote(ctx context.Context, replica *Server) error {
	return p.await(ctx, replica, "SELECT pg_promote()")
}

// demote restarts the server as a standby that receives from nobody.
func (p *postgres) demote(ctx context.Context, primary *Server) error {
	if err := primary.Stop(ctx); err != nil {
		return err
	}
	signal := filepath.Join(primary.dir, dataDir, "standby.signal")
	if err := run(ctx, p.account.command(primary.dir, "touch", signal)); err != nil {
		return err
	}
	return primary.Start(ctx)
}

// reinstate begins a new timeline, as every promotion does.
func (p *postgres) reinstate(ctx context.Context, demoted *Server) error {
	return p.promote(ctx, demoted)
}

// reload returns when the replica shows the delay that it was given.
func (p *postgres) reload(ctx context.Context, s *Server) error {
	process := s.current()
	if !process.running() {
		return nil // it reads its configuration when it starts
	}
	process.signal(syscall.SIGHUP)
	return p.await(ctx, s, "SELECT setting = $1 FROM pg_settings WHERE name = 'recovery_min_apply_delay'",
		strconv.FormatInt(s.Delay().Milliseconds(), 10))
}

// exec runs a statement.
func (p *postgres) exec(ctx context.Context, s *Server, sql string) error {
	return p.connect(ctx, s, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

// await runs a query until it answers true.
func (p *postgres) await(ctx context.Context, s *Server, sql string, args ...any) error {
	return p.connect(ctx, s, func(conn *pgx.Conn) error {
		return poll(ctx, func() (yes bool, err error) {
			err = conn.QueryRow(ctx, sql, args...).Scan(&yes)
			return yes, err
		})
	})
}

// connect lends a connection to f. None is kept, so a killed server leaves none
// behind that hangs.
func (p *postgres) connect(ctx context.Context, s *Server, f func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, p.adminURL(s, "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return f(conn)
}
