package stack

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	driver "github.com/go-sql-driver/mysql"
)

func (m *mysql) ping(ctx context.Context, s *Server) error {
	return m.connect(ctx, s, func(conn *sql.Conn) error { return conn.PingContext(ctx) })
}

func (m *mysql) awaitStreaming(ctx context.Context, replica *Server) error {
	return m.awaitStatus(ctx, replica, func(st replicaStatus) bool { return st.receiving })
}

func (m *mysql) createDatabase(ctx context.Context, primary *Server, name string) error {
	return m.exec(ctx, primary,
		"CREATE DATABASE "+quoteName(name),
		"GRANT ALL ON "+quotePattern(name)+".* TO '"+appUser+"'@'%'")
}

// dropDatabase cuts the connections first: one in a transaction would hold it up.
func (m *mysql) dropDatabase(ctx context.Context, primary *Server, name string) error {
	return m.connect(ctx, primary, func(conn *sql.Conn) error {
		rows, err := conn.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE db = ?", name)
		if err != nil {
			return err
		}
		var kills []string
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			kills = append(kills, "KILL "+id)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for _, kill := range kills {
			if _, err := conn.ExecContext(ctx, kill); err != nil && !isError(err, noSuchThread) {
				return err
			}
		}
		_, err = conn.ExecContext(ctx, "DROP DATABASE IF EXISTS "+quoteName(name))
		return err
	})
}

// noSuchThread is the error for a connection that is gone already.
const noSuchThread = 1094

func isError(err error, number uint16) bool {
	refused := new(driver.MySQLError)
	return errors.As(err, &refused) && refused.Number == number
}

// quoteName quotes a name for a statement.
func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// quotePattern quotes a name where a pattern is expected.
func quotePattern(name string) string {
	return quoteName(strings.NewReplacer(`_`, `\_`, `%`, `\%`).Replace(name))
}

func (m *mysql) committed(ctx context.Context, primary *Server) (string, error) {
	var position string
	err := m.connect(ctx, primary, func(conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, m.committedQuery).Scan(&position)
	})
	return position, err
}

func (m *mysql) awaitApplied(ctx context.Context, replica *Server, position string) error {
	return m.connect(ctx, replica, func(conn *sql.Conn) error {
		return poll(ctx, func() (yes bool, err error) {
			err = conn.QueryRowContext(ctx, m.appliedQuery, position).Scan(&yes)
			if err == nil && !yes {
				_, err = m.status(ctx, conn)
			}
			return yes, err
		})
	})
}

func (m *mysql) pauseApply(ctx context.Context, replica *Server) error {
	return m.exec(ctx, replica, "STOP REPLICA SQL_THREAD")
}

func (m *mysql) resumeApply(ctx context.Context, replica *Server) error {
	if err := m.exec(ctx, replica, "START REPLICA SQL_THREAD"); err != nil {
		return err
	}
	return m.awaitStatus(ctx, replica, func(st replicaStatus) bool { return st.applying })
}

func (m *mysql) promote(ctx context.Context, replica *Server) error {
	return m.exec(ctx, replica, "STOP REPLICA", "RESET REPLICA ALL", "SET GLOBAL read_only = OFF")
}

// reload leaves a paused replica paused.
func (m *mysql) reload(ctx context.Context, s *Server) error {
	if !s.running() {
		return nil // it reads its configuration when it starts
	}
	return m.connect(ctx, s, func(conn *sql.Conn) error {
		st, err := m.status(ctx, conn)
		if err != nil {
			return err
		}
		s.mu.Lock()
		r := s.replication
		s.mu.Unlock()
		statements := []string{"STOP REPLICA", m.follow(r), "START REPLICA IO_THREAD"}
		if st.applying {
			statements = append(statements, "START REPLICA SQL_THREAD")
		}
		return execAll(ctx, conn, statements...)
	})
}

type replicaStatus struct {
	receiving, applying bool
}

// status asks a replica how it is doing. That it can't apply what it received is an error.
func (m *mysql) status(ctx context.Context, conn *sql.Conn) (replicaStatus, error) {
	rows, err := conn.QueryContext(ctx, "SHOW REPLICA STATUS")
	if err != nil {
		return replicaStatus{}, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return replicaStatus{}, err
	}
	if !rows.Next() {
		return replicaStatus{}, errors.Join(errors.New("it is no replica"), rows.Err())
	}
	values := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		return replicaStatus{}, err
	}
	column := make(map[string]string, len(names))
	for i, name := range names {
		column[name] = values[i].String
	}
	if text := column["Last_SQL_Error"]; text != "" {
		return replicaStatus{}, fmt.Errorf("it cannot apply: %s", text)
	}
	return replicaStatus{
		receiving: column[m.statusPrefix+"IO_Running"] == "Yes",
		applying:  column[m.statusPrefix+"SQL_Running"] == "Yes",
	}, nil
}

func (m *mysql) awaitStatus(ctx context.Context, replica *Server, good func(replicaStatus) bool) error {
	return m.connect(ctx, replica, func(conn *sql.Conn) error {
		return poll(ctx, func() (bool, error) {
			st, err := m.status(ctx, conn)
			return err == nil && good(st), err
		})
	})
}

func (m *mysql) exec(ctx context.Context, s *Server, statements ...string) error {
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

// connect lends a connection to f. None is kept, so a killed server leaves none
// behind that hangs.
func (m *mysql) connect(ctx context.Context, s *Server, f func(*sql.Conn) error) error {
	config := driver.NewConfig()
	config.User, config.Passwd = adminUser, m.adminPassword
	config.Net, config.Addr = "tcp", s.Addr()
	config.InterpolateParams = true
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
