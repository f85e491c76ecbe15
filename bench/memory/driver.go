package memory

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
)

// Connector returns what sql.OpenDB takes.
func (s *Server) Connector() driver.Connector { return connector{s} }

type connector struct{ server *Server }

func (c connector) Connect(context.Context) (driver.Conn, error) { return &conn{c.server}, nil }
func (c connector) Driver() driver.Driver                        { return nil }

// conn is a connection with all that the real drivers' have.
type conn struct{ server *Server }

var errNotNeeded = errors.New("memory: only queries without preparation are answered")

func (c *conn) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	return &rows{answer: c.server.answer(query)}, nil
}

func (c *conn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), nil
}

func (c *conn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return tx{}, nil }
func (c *conn) Begin() (driver.Tx, error)                                    { return tx{}, nil }
func (c *conn) Prepare(string) (driver.Stmt, error)                          { return nil, errNotNeeded }
func (c *conn) PrepareContext(context.Context, string) (driver.Stmt, error)  { return nil, errNotNeeded }
func (c *conn) CheckNamedValue(*driver.NamedValue) error                     { return nil }
func (c *conn) Ping(context.Context) error                                   { return nil }
func (c *conn) ResetSession(context.Context) error                           { return nil }
func (c *conn) Close() error                                                 { return nil }

type tx struct{}

func (tx) Commit() error   { return nil }
func (tx) Rollback() error { return nil }

type rows struct {
	answer answer
	done   bool
}

func (r *rows) Columns() []string { return r.answer.columns }
func (r *rows) Close() error      { return nil }

func (r *rows) Next(into []driver.Value) error {
	if r.done {
		return io.EOF
	}
	r.done = true
	copy(into, r.answer.values)
	return nil
}
