package dbroute

import (
	"context"
	"database/sql/driver"
)

// mysqlConnector makes connections that bound COMMIT by the context of the transaction,
// as PostgreSQL's driver does. Those of the driver wait for its answer for ever.
type mysqlConnector struct{ driver.Connector }

func (c mysqlConnector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &mysqlConn{inner.(mysqlDriverConn)}, nil
}

// mysqlDriverConn is all that the driver's own connections can do.
type mysqlDriverConn interface {
	driverConn
	driver.Validator
}

type mysqlConn struct{ mysqlDriverConn }

func (c *mysqlConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	inner, err := c.mysqlDriverConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &mysqlTx{Tx: inner, ctx: ctx, conn: c}, nil
}

type mysqlTx struct {
	driver.Tx
	ctx  context.Context
	conn *mysqlConn
}

// Commit closes the connection if there is no answer in time: COMMIT may be under way,
// or not have been sent.
func (t *mysqlTx) Commit() error {
	_, err := t.conn.ExecContext(t.ctx, "COMMIT", nil)
	if err != nil && t.ctx.Err() != nil {
		t.conn.Close()
	}
	return err
}
