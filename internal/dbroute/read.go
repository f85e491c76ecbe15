package dbroute

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

// Querier reads from one connection. Placeholders are written ? on every
// engine. It is valid only inside the function that received it.
//
// It is no interface: through one, the arguments of every query would be allocated.
type Querier struct{ h *handle }

// handle is a connection outside a transaction, or a transaction.
type handle struct {
	conn     *sql.Conn
	rebinder *rebinder
	rows     []*sql.Rows
	tx       *Tx
}

// QueryContext runs a query. The rows of the one before must have been closed, or read to
// their end: there is one connection.
func (q Querier) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if q.h.tx != nil {
		return q.h.tx.QueryContext(ctx, query, args...)
	}
	if q.h.hasOpenRows() {
		return nil, errRowsOpen
	}
	rows, err := q.h.conn.QueryContext(ctx, q.h.rebinder.rebind(query), args...)
	if err == nil {
		q.h.rows = append(q.h.rows, rows)
	}
	return rows, err
}

// QueryRowContext is QueryContext for one row, which must be scanned: that is what
// closes it.
func (q Querier) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if q.h.tx != nil {
		return q.h.tx.QueryRowContext(ctx, query, args...)
	}
	if q.h.hasOpenRows() {
		ctx = rowsOpen{ctx}
	}
	return q.h.conn.QueryRowContext(ctx, q.h.rebinder.rebind(query), args...)
}

// hasOpenRows reports whether the connection is busy. The driver would call it broken, and
// database/sql wait for the rows to be closed before it lets it go: for ever.
func (h *handle) hasOpenRows() bool {
	return slices.ContainsFunc(h.rows, func(rows *sql.Rows) bool {
		_, err := rows.Columns()
		return err == nil // else they are closed
	})
}

// rowsOpen tells conn to fail the query: only from there does a *sql.Row get its error.
type rowsOpen struct{ context.Context }

// closeRows closes what fn left open: sql.Conn.Close would wait for it for ever.
func (h *handle) closeRows() {
	for _, rows := range h.rows {
		rows.Close()
	}
}

// Read runs fn on the server that the scope in ctx reads from. The name is what
// the page shows for it, "posts.ByID".
//
// fn scans its rows before it returns. If the replica fails half way, fn runs
// once more, on the primary, so it must start from nothing each time; it must
// wrap the database's errors with %w, so that they can be told from its own.
//
// A Read inside fn takes a second connection; enough of those at once wait for
// each other.
//
// Inside Write, with the context that Write gave, fn runs in the transaction.
// A statement that a replica refuses runs again too: it may be for a cause that
// only a replica has, such as a conflict with recovery, or a table that a
// migration made and the replica has yet to apply.
//
// If the primary was needed and cannot be reached, the error is
// ErrPrimaryUnavailable.
func (c *Cluster) Read(ctx context.Context, name string, fn func(Querier) error) error {
	if open := c.openTx(ctx); open != nil {
		return c.readInTx(open, name, fn)
	}
	s := c.scope(ctx)
	to := c.target(ctx)
	failed, err := c.readOn(ctx, s, to, name, fn)
	if failed != faultNone && to.server.role == Replica && ctx.Err() == nil {
		c.log.WarnContext(ctx, "read runs again on the primary", "read", name, "server", to.server.name(), "error", err)
		c.noteFault(ctx, to.server, err)
		to = s.leaveReplica(ReplicaFailed)
		failed, err = c.readOn(ctx, s, to, name, fn)
	}
	if failed != faultNone {
		err = c.explain(ctx, to.server, err)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// explain names the reason of a failure: others were in the way, the client went
// away, or the primary is not there.
func (c *Cluster) explain(ctx context.Context, s *server, err error) error {
	switch {
	case c.engine.contended(err):
		return fmt.Errorf("%w: %w", ErrContended, err)
	case c.fault(err) != faultConnection:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	case s.role == Primary:
		return fmt.Errorf("%w: %w", ErrPrimaryUnavailable, err)
	}
	return err
}

func (c *Cluster) readOn(ctx context.Context, s *Scope, to target, name string, fn func(Querier) error) (fault, error) {
	start := time.Now()
	conn, who, err := to.server.acquire(ctx)
	if err != nil {
		return c.fault(err), err
	}
	defer conn.Close()
	if to.instance != "" && to.instance != who.instance {
		return faultConnection, errReplaced
	}
	h := handle{conn: conn, rebinder: &c.rebinder}
	defer h.closeRows()
	failed := faultNone
	if err = fn(Querier{&h}); err != nil {
		failed = c.faultOf(ctx, &h, err)
	}
	if failed != faultNone && to.server.role == Replica {
		return failed, err // it runs again, and that run is the one to show
	}
	c.record(s, Access{
		Name: name, ServerID: to.server.id(who), Role: to.server.role,
		Reason: to.reason, Duration: time.Since(start), Failed: err != nil,
	})
	if s.mustNote(to.server) {
		h.closeRows()
		s.saw(ctx, to.server, conn)
	}
	return failed, err
}

// faultOf is whose failure an error is that fn has returned. One that looks like a lost
// connection may be fn's own: the io.EOF of a decoder, another server that hangs. So a
// connection that still answers is not lost.
func (c *Cluster) faultOf(ctx context.Context, h *handle, err error) fault {
	failed := c.fault(err)
	if failed != faultConnection {
		return failed
	}
	h.closeRows()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.HealthTimeout)
	defer cancel()
	if h.conn.PingContext(ctx) == nil {
		return faultNone
	}
	return failed
}

func (c *Cluster) readInTx(open *openTx, name string, fn func(Querier) error) error {
	start := time.Now()
	open.read = true
	err := fn(open.tx.Querier())
	c.record(open.scope, Access{
		Name: name, ServerID: c.primary.id(open.who), Role: Primary,
		Reason: InTransaction, Duration: time.Since(start), Failed: err != nil,
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}
