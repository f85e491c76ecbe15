package dbroute

import (
	"context"
	"database/sql/driver"
	"errors"
)

// mysqlConnector makes connections whose transactions are safe to commit, which those of
// the driver are not by themselves: it sends COMMIT and ROLLBACK without a bound, and
// goes on after a deadlock.
type mysqlConnector struct{ driver.Connector }

func (c mysqlConnector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &mysqlConn{mysqlDriverConn: inner.(mysqlDriverConn)}, nil
}

// mysqlDriverConn and mysqlDriverRows are all that the driver's own can do.
type (
	mysqlDriverConn interface {
		driverConn
		driver.Validator
	}
	mysqlDriverRows interface {
		driver.RowsNextResultSet
		driver.RowsColumnTypeDatabaseTypeName
		driver.RowsColumnTypeNullable
		driver.RowsColumnTypePrecisionScale
		driver.RowsColumnTypeScanType
	}
)

type mysqlConn struct {
	mysqlDriverConn
	tx *mysqlTx // nil outside a transaction
}

// mysqlTx is a transaction. A deadlock rolls all of it back, and the server would commit
// what is sent after it statement by statement. A lock that was not to be had does so
// with innodb_rollback_on_timeout=ON; without, the rest would be committed. Of a
// SELECT … FOR UPDATE that error comes with the rows, which nobody may look at.
type mysqlTx struct {
	ctx   context.Context
	conn  *mysqlConn
	ended error // what has rolled it back
}

func (c *mysqlConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if _, err := c.mysqlDriverConn.BeginTx(ctx, opts); err != nil {
		return nil, err
	}
	c.tx = &mysqlTx{ctx: ctx, conn: c}
	return c.tx, nil
}

func (c *mysqlConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.tx != nil && c.tx.ended != nil {
		return nil, c.tx.ended
	}
	result, err := c.mysqlDriverConn.ExecContext(ctx, query, args)
	return result, c.tx.note(err)
}

func (c *mysqlConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.tx != nil && c.tx.ended != nil {
		return nil, c.tx.ended
	}
	rows, err := c.mysqlDriverConn.QueryContext(ctx, query, args)
	if c.tx == nil || err != nil {
		return rows, c.tx.note(err)
	}
	return &mysqlRows{rows.(mysqlDriverRows), c.tx}, nil
}

// note keeps an error after which nothing may be sent or committed.
func (t *mysqlTx) note(err error) error {
	if err != nil && t != nil && t.ended == nil && (mysqlFamily{}).contended(err) {
		t.ended = err
	}
	return err
}

func (t *mysqlTx) Commit() error {
	if t.ended != nil {
		return errors.Join(t.ended, t.Rollback())
	}
	return t.end("COMMIT")
}

func (t *mysqlTx) Rollback() error { return t.end("ROLLBACK") }

// end closes the connection if it fails: the statement may be under way, or have been
// refused before it was run, and whoever has the connection next would commit.
func (t *mysqlTx) end(statement string) error {
	t.conn.tx = nil
	_, err := t.conn.ExecContext(t.ctx, statement, nil)
	if err != nil {
		t.conn.Close()
	}
	return err
}

type mysqlRows struct {
	mysqlDriverRows
	tx *mysqlTx
}

func (r *mysqlRows) Next(row []driver.Value) error { return r.tx.note(r.mysqlDriverRows.Next(row)) }
func (r *mysqlRows) NextResultSet() error          { return r.tx.note(r.mysqlDriverRows.NextResultSet()) }
func (r *mysqlRows) Close() error                  { return r.tx.note(r.mysqlDriverRows.Close()) }
