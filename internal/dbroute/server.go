package dbroute

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
)

// server is one database server and what is known of it.
type server struct {
	role    Role
	address string  // host and port
	order   int     // place in the configuration, the primary's is 1
	read    *sql.DB // read-only in the database too
	write   *sql.DB // nil on a replica

	sockets sockets

	mu       sync.Mutex
	identity identity // what the newest connection found
	known    CommitID // the furthest that instance is known to have reached
	health   health
}

func (c *Cluster) openServer(rawURL string, role Role, order int) (*server, error) {
	s := &server{role: role, order: order, address: addressOf(rawURL)}
	if e, err := engineFor(rawURL); err != nil {
		return nil, err
	} else if e != c.engine {
		return nil, fmt.Errorf("%w: all servers of a cluster must be of one engine", ErrUnsupported)
	}
	var err error
	if s.read, err = c.openPool(s, rawURL, true); err != nil {
		return nil, err
	}
	if role == Primary {
		if s.write, err = c.openPool(s, rawURL, false); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (c *Cluster) openPool(s *server, rawURL string, readOnly bool) (*sql.DB, error) {
	inner, err := c.engine.connector(rawURL, readOnly, s.sockets.dial)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(&connector{Connector: inner, engine: c.engine, server: s})
	db.SetMaxOpenConns(c.cfg.MaxOpenConns)
	db.SetMaxIdleConns(c.cfg.MaxOpenConns)
	return db, nil
}

func (s *server) close() error {
	err := s.read.Close()
	if s.write != nil {
		err = errors.Join(err, s.write.Close())
	}
	return err
}

func addressOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Host
}

func (s *server) name() string {
	if s.role == Primary {
		return "primary"
	}
	return fmt.Sprintf("replica %d", s.order-1)
}

// id is the server's own id if it has one, else its place in the configuration.
func (s *server) id(who identity) int {
	if who.serverID != 0 {
		return who.serverID
	}
	return s.order
}

// acquire takes a read-only connection and tells whose it is.
func (s *server) acquire(ctx context.Context) (*sql.Conn, identity, error) {
	return acquire(ctx, s.read)
}

func (s *server) ping(ctx context.Context) PingResult {
	conn, who, err := s.acquire(ctx)
	if err == nil {
		err = errors.Join(conn.PingContext(ctx), conn.Close())
	}
	return PingResult{ID: s.id(who), Role: s.role, Err: err}
}

// opened takes note of a new connection. What an earlier instance had reached
// says nothing of a restarted one: a standby that crashed comes back at an
// earlier position than it has already answered for.
func (s *server) opened(who identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.identity.instance != who.instance {
		s.known = CommitID{}
		if s.identity.instance != "" {
			s.health.replaced()
		}
	}
	s.identity = who
}

// knownToHave answers from memory. A false answer means only that the server
// must be asked.
func (s *server) knownToHave(e engine, id CommitID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.known.IsZero() && e.covers(s.known, id)
}

// remember keeps one position per server however many are asked about: what
// was reached once stays reached, and of two positions the merged one says both.
func (s *server) remember(e engine, instance string, id CommitID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.identity.instance != instance:
	case s.known.IsZero():
		s.known = id
	case !e.covers(s.known, id):
		merged, err := e.merge(s.known, id)
		if err != nil {
			merged = id // a failover came between: the newer timeline is what counts
		}
		s.known = merged
	}
}

// roundRobin spreads the scopes that prefer no replica.
type roundRobin struct{ n atomic.Uint64 }

func (r *roundRobin) next() uint64 { return r.n.Add(1) }
