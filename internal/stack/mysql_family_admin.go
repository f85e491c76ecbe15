package stack

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

func (m *mysqlFamily) ping(ctx context.Context, s *Server) error {
	return m.connect(ctx, s, func(conn *sql.Conn) error { return conn.PingContext(ctx) })
}

func (m *mysqlFamily) createDatabase(ctx context.Context, primary *Server, name string) error {
	return m.exec(ctx, primary,
		"CREATE DATABASE "+quoteName(name),
		"GRANT ALL ON "+quotePattern(name)+".* TO "+appUser)
}

// dropDatabase cuts the connections first: one in a transaction would hold it up.
func (m *mysqlFamily) dropDatabase(ctx context.Context, primary *Server, name string) error {
	return m.connect(ctx, primary, func(conn *sql.Conn) error {
		if err := cutConnections(ctx, conn, "db = ?", name); err != nil {
			return err
		}
		return execAll(ctx, conn, "DROP DATABASE IF EXISTS "+quoteName(name))
	})
}

// cutConnections cuts those for which a condition on the list of processes holds.
func cutConnections(ctx context.Context, conn *sql.Conn, condition string, args ...any) error {
	connections, err := connectionsWhere(ctx, conn, condition, args)
	if err != nil {
		return err
	}
	for _, id := range connections {
		err := execAll(ctx, conn, fmt.Sprintf("KILL %d", id))
		if err != nil && !isError(err, noSuchThread) {
			return err
		}
	}
	return nil
}

func connectionsWhere(ctx context.Context, conn *sql.Conn, condition string, args []any) ([]int64, error) {
	rows, err := conn.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE "+condition, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// noSuchThread is the server's error for a connection that is gone already.
const noSuchThread = 1094

func isError(err error, number uint16) bool {
	refused := new(driver.MySQLError)
	return errors.As(err, &refused) && refused.Number == number
}

// quoteName quotes a name for a statement.
func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// quotePattern quotes a name where the statement expects a pattern.
func quotePattern(name string) string {
	return quoteName(strings.NewReplacer(`\`, `\\`, `_`, `\_`, `%`, `\%`).Replace(name))
}

func (m *mysqlFamily) committed(ctx context.Context, primary *Server) (string, error) {
	var position string
	err := m.connect(ctx, primary, func(conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, m.committedQuery).Scan(&position)
	})
	return position, err
}

func (m *mysqlFamily) awaitStreaming(ctx context.Context, replica *Server) error {
	return m.connect(ctx, replica, func(conn *sql.Conn) error {
		var st replicaStatus
		err := poll(ctx, func() (_ bool, err error) {
			st, err = m.status(ctx, conn)
			return st.receiving, err
		})
		if err != nil && st.receiveError != "" {
			return fmt.Errorf("%w: %s", err, st.receiveError)
		}
		return err
	})
}

func (m *mysqlFamily) awaitApplied(ctx context.Context, replica *Server, position string) error {
	return m.connect(ctx, replica, func(conn *sql.Conn) error { return m.awaitPosition(ctx, conn, position) })
}

func (m *mysqlFamily) awaitPosition(ctx context.Context, conn *sql.Conn, position string) error {
	return poll(ctx, func() (reached bool, err error) {
		err = conn.QueryRowContext(ctx, m.reachedQuery, position).Scan(&reached)
		if err == nil && !reached {
			_, err = m.status(ctx, conn)
		}
		return reached, err
	})
}

// pauseApply has nothing to wait for: the statement returns when applying has ended.
func (m *mysqlFamily) pauseApply(ctx context.Context, replica *Server) error {
	return m.steer(ctx, replica, func(conn *sql.Conn) error {
		return execAll(ctx, conn, "STOP REPLICA SQL_THREAD")
	})
}

// resumeApply returns likewise when applying has begun.
func (m *mysqlFamily) resumeApply(ctx context.Context, replica *Server) error {
	return m.steer(ctx, replica, func(conn *sql.Conn) error {
		return execAll(ctx, conn, "START REPLICA SQL_THREAD")
	})
}

// promote first lets the replica apply all that it has received, at once and from
// its own files: the primary may be gone for good.
func (m *mysqlFamily) promote(ctx context.Context, replica *Server) error {
	return m.steer(ctx, replica, func(conn *sql.Conn) error {
		if err := execAll(ctx, conn, "STOP REPLICA"); err != nil {
			return err
		}
		st, err := m.status(ctx, conn)
		if err != nil {
			return err
		}
		err = execAll(ctx, conn, m.applyFrom(st), "START REPLICA SQL_THREAD")
		if err == nil {
			err = m.awaitPosition(ctx, conn, st.received)
		}
		if err != nil {
			return err
		}
		return execAll(ctx, conn, "STOP REPLICA", "RESET REPLICA ALL", "SET GLOBAL read_only = OFF")
	})
}

// demotePatience is how long a demotion waits for transactions under way.
const demotePatience = time.Second

// demote cuts connections as whoever demotes a server does. The statement keeps
// transactions from committing and waits for those under way: one that waits for a
// row of one that is about to commit would hold it up for as long as it may wait for
// a lock, 50 s.
func (m *mysqlFamily) demote(ctx context.Context, primary *Server) error {
	demoted := make(chan error, 1)
	go func() { demoted <- m.exec(ctx, primary, "SET GLOBAL "+m.readOnlySetting+" = ON") }()
	for {
		select {
		case err := <-demoted:
			return err
		case <-time.After(demotePatience):
		}
		if err := m.connect(ctx, primary, func(conn *sql.Conn) error {
			return cutConnections(ctx, conn, "user = ?", appUser)
		}); err != nil {
			return err
		}
	}
}

func (m *mysqlFamily) reinstate(ctx context.Context, demoted *Server) error {
	return m.exec(ctx, demoted, "SET GLOBAL read_only = OFF")
}

// reload leaves a paused replica paused.
func (m *mysqlFamily) reload(ctx context.Context, s *Server) error {
	if !s.running() {
		return nil // it reads its configuration when it starts
	}
	return m.steer(ctx, s, func(conn *sql.Conn) error {
		st, err := m.status(ctx, conn)
		if err != nil {
			return err
		}
		r := s.replicates()
		stop, change := m.stopForDelay, m.changeDelay(r)
		if st.sourcePort != r.source.port {
			stop, change = "STOP REPLICA", m.changeSource(r)
		}
		start := []string{"START REPLICA IO_THREAD"}
		if st.applying {
			start = append(start, "START REPLICA SQL_THREAD")
		}
		return errors.Join(execAll(ctx, conn, stop, change), execAll(ctx, conn, start...))
	})
}

// exec runs statements.
func (m *mysqlFamily) exec(ctx context.Context, s *Server, statements ...string) error {
	return m.connect(ctx, s, func(conn *sql.Conn) error { return execAll(ctx, conn, statements...) })
}

func execAll(ctx context.Context, conn *sql.Conn, statements ...string) error {
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// steer lends a connection to f while nobody else changes how the server replicates.
func (m *mysqlFamily) steer(ctx context.Context, s *Server, f func(*sql.Conn) error) error {
	s.steering.Lock()
	defer s.steering.Unlock()
	return m.connect(ctx, s, f)
}

// connect lends a connection to f. None is kept, so a killed server leaves none
// behind that hangs.
func (m *mysqlFamily) connect(ctx context.Context, s *Server, f func(*sql.Conn) error) error {
	config := driver.NewConfig()
	config.User, config.Passwd = adminUser, m.adminPassword
	config.Net, config.Addr = "tcp", s.Addr()
	config.Logger = &driver.NopLogger{} // what it would log we return
	connector, err := driver.NewConnector(config)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(conn)
}
