package dbroute

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// connectTimeout bounds one attempt to connect, from dialing to knowing which server
// it is, if the URL sets no bound.
const connectTimeout = 2 * time.Second

// lockTimeout bounds how long a statement waits for a lock if the URL sets no bound.
// Left to themselves PostgreSQL waits for ever, and InnoDB for 50 s: a lock whose owner
// hangs would hold up all who need it, and their connections.
const lockTimeout = 10 * time.Second

// dialFunc makes a network connection.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// sockets are the open network connections of a server. Closing them is how its
// reads in flight are ended: a server that hangs answers no cancellation, and a
// context for each read would cost each read.
type sockets struct {
	mu   sync.Mutex
	open map[*socket]struct{}
}

type socket struct {
	net.Conn
	owner *sockets
	made  time.Time
}

func (s *sockets) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	made := &socket{c, s, time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*socket]struct{}{}
	}
	s.open[made] = struct{}{}
	return made, nil
}

// SyscallConn lets a driver look whether an idle connection is still alive.
func (c *socket) SyscallConn() (syscall.RawConn, error) {
	raw, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return raw.SyscallConn()
}

func (c *socket) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

func (s *sockets) closeAll() { s.closeBefore(time.Now()) }

// closeBefore closes those that are older than t.
func (s *sockets) closeBefore(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.made.Before(t) {
			c.Conn.Close()
			delete(s.open, c)
		}
	}
}

// connector identifies the server at the other end of each new connection, once.
// So the server id that a page shows is that of the connection which ran the
// query, and costs no query.
type connector struct {
	driver.Connector
	timeout time.Duration
	engine  engine
	server  *server
}

// driverConn is what database/sql may use of a driver's connection; wrapping
// one that has less would hide nothing, wrapping one that has more would.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
}

// conn is a driver's connection that knows its server.
type conn struct {
	driverConn
	identity identity
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if _, open := ctx.(rowsOpen); open {
		return nil, errRowsOpen
	}
	return c.driverConn.QueryContext(ctx, query, args)
}

// Connect has a bound of its own: whoever asks may have none, nor has database/sql, which
// opens one connection after the other for those who wait.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	begun := time.Now()
	raw, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := raw.(driverConn)
	if !ok {
		raw.Close()
		return nil, fmt.Errorf("driver connection %T lacks an interface of database/sql/driver", raw)
	}
	who, err := c.engine.identify(ctx, inner, c.server.role)
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("identify server: %w", err)
	}
	c.server.opened(who, begun)
	return &conn{driverConn: inner, identity: who}, nil
}

// IsValid implements driver.Validator for drivers that do.
func (c *conn) IsValid() bool {
	v, ok := c.driverConn.(driver.Validator)
	return !ok || v.IsValid()
}

// firstRow runs a query on a connection that database/sql does not manage yet.
func firstRow(ctx context.Context, conn driver.QueryerContext, query string) ([]driver.Value, error) {
	rows, err := conn.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	row := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(row); err != nil {
		return nil, err
	}
	return row, nil
}

// acquire takes a connection from a pool whose connector is a *connector. Its error is
// errConnect, unless it is ctx that has not given it the time.
func acquire(ctx context.Context, db *sql.DB) (*sql.Conn, identity, error) {
	c, err := db.Conn(ctx)
	switch {
	case err != nil && isOver(ctx):
		return nil, identity{}, err
	case err != nil:
		return nil, identity{}, fmt.Errorf("%w: %w", errConnect, err)
	}
	var who identity
	err = c.Raw(func(raw any) error {
		who = raw.(*conn).identity
		return nil
	})
	if err != nil {
		c.Close()
		return nil, identity{}, fmt.Errorf("%w: %w", errConnect, err)
	}
	return c, who, nil
}

// isOver reports whether ctx has ended. The network may notice its deadline first.
func isOver(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return ctx.Err() != nil || bounded && !time.Now().Before(deadline)
}
