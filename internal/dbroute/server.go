package dbroute

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// server is one database server and what is known of it.
type server struct {
	role    Role
	address string  // host and port
	order   int     // place in the configuration, the primary's is 1
	reads   *sql.DB // read-only in the database too
	writes  *sql.DB // nil on a replica
	polls   *sql.DB // one connection, which no burst of reads can take

	sockets sockets
	waiters waiters

	mu       sync.Mutex
	identity identity // what the newest connection found
	known    progress // the furthest that instance is known to have reached
	health   health
}

func (c *Cluster) openServer(rawURL string, role Role, order int) (*server, error) {
	s := &server{role: role, order: order, address: addressOf(rawURL)}
	if e, err := engineFor(rawURL, c.cfg.Engine); err != nil {
		return nil, err
	} else if e.name() != c.engine.name() {
		return nil, fmt.Errorf("%w: all servers of a cluster must be of one engine", ErrUnsupported)
	}
	var err error
	if s.reads, err = c.openPool(s, rawURL, true, c.cfg.MaxOpenConns); err != nil {
		return nil, err
	}
	if s.polls, err = c.openPool(s, rawURL, true, 1); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if role == Primary {
		if s.writes, err = c.openPool(s, rawURL, false, c.cfg.MaxOpenConns); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (c *Cluster) openPool(s *server, rawURL string, readOnly bool, size int) (*sql.DB, error) {
	inner, timeout, err := c.engine.connector(rawURL, readOnly, s.sockets.dial)
	if err != nil {
		return nil, err
	}
	if wrap := c.cfg.WrapConnector; wrap != nil {
		inner = wrap(s.role, s.address, inner)
	}
	db := sql.OpenDB(&connector{Connector: inner, timeout: timeout, engine: c.engine, server: s})
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}

func (s *server) close() error {
	var errs []error
	for _, pool := range s.pools() {
		errs = append(errs, pool.Close())
	}
	return errors.Join(errs...)
}

// pools are those that are open; while the server is being opened, not all are.
func (s *server) pools() []*sql.DB {
	return slices.DeleteFunc([]*sql.DB{s.reads, s.writes, s.polls}, func(p *sql.DB) bool { return p == nil })
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
	return acquire(ctx, s.reads)
}

func (c *Cluster) pingServer(ctx context.Context, s *server) PingResult {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.HealthTimeout)
	defer cancel()
	conn, who, err := acquire(ctx, s.polls)
	if err == nil {
		err = errors.Join(conn.PingContext(ctx), conn.Close())
	}
	return PingResult{ID: s.id(who), Role: s.role, Err: err}
}

// opened takes note of a new connection. What an earlier instance had reached
// says nothing of a restarted one: a standby that crashed comes back at an
// earlier position than it has already answered for. If it is another primary,
// older connections lead to one that is none any longer.
func (s *server) opened(who identity, begun time.Time) {
	if replaced := s.identify(who); replaced && s.role == Primary {
		s.sockets.closeBefore(begun)
		s.dropIdle()
	}
}

func (s *server) identify(who identity) (replaced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.identity.instance != who.instance {
		s.known = progress{}
		if replaced = s.identity.instance != ""; replaced {
			s.health.replaced(time.Now())
		}
	}
	s.identity = who
	return replaced
}

// knownToHave answers from memory. A false answer means only that the server
// must be asked.
func (s *server) knownToHave(want progress) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.isPast(want)
}

// read is a read of this server as it is at this moment. If it turns out to be
// another instance by the time of the read, the read must go elsewhere.
func (s *server) read(why Reason) (_ target, usable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return target{server: s, instance: s.identity.instance, reason: why}, s.health.usable()
}

// readIfKnown is read if this very instance is known to have reached id.
func (s *server) readIfKnown(id CommitID) (_ target, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return target{server: s, instance: s.identity.instance, reason: CommitReached}, s.known.covers(id)
}

// remember keeps one position per server however many are asked about: what
// was reached once stays reached, and of two positions the merged one says both.
func (s *server) remember(e engine, instance string, id CommitID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.identity.instance != instance || s.known.covers(id) {
		return
	}
	if !s.known.isZero() {
		if merged, err := e.merge(s.known.id, id); err == nil {
			id = merged
		} // else a failover came between: the newer timeline is what counts
	}
	s.known = progressTo(e, id)
}

func (s *server) knownSoFar() CommitID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.id
}

// forgetIfBefore takes the server out if it is before what it had reached, since an older
// copy was loaded into it without a restart.
func (s *server) forgetIfBefore(e engine, applied, reached CommitID) {
	if reached.IsZero() || e.covers(applied, reached) {
		return
	}
	if _, err := e.merge(applied, reached); err != nil {
		return // after a failover it is on another timeline
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = progress{}
	s.health.replaced(time.Now())
}

// roundRobin spreads the scopes that prefer no replica.
type roundRobin struct{ n atomic.Uint64 }

func (r *roundRobin) next() uint64 { return r.n.Add(1) }
