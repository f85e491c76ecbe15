package dbroute

import (
	"context"
	"database/sql"
	"io"
	"net"
	"sync/atomic"
	"unsafe"
)

// Spy counts what a cluster asks its replicas, and can make the capture of
// commit IDs fail.
type Spy struct {
	engine
	Asked       atomic.Int64
	Waited      atomic.Int64 // how often a server was asked to wait by itself
	FailCapture atomic.Bool
}

// Spy sets a spy on c, which must not be in use yet.
func (c *Cluster) Spy() *Spy {
	s := &Spy{engine: c.engine}
	c.engine = s
	return s
}

func (s *Spy) reached(ctx context.Context, conn *sql.Conn, id CommitID) (reach, error) {
	s.Asked.Add(1)
	return s.engine.reached(ctx, conn, id)
}

func (s *Spy) position(ctx context.Context, conn *sql.Conn) (CommitID, error) {
	if s.FailCapture.Load() {
		return CommitID{}, io.ErrUnexpectedEOF
	}
	return s.engine.position(ctx, conn)
}

func (s *Spy) lastCommit(ctx context.Context, conn *sql.Conn, who identity) (CommitID, error) {
	if s.FailCapture.Load() {
		return CommitID{}, io.ErrUnexpectedEOF
	}
	return s.engine.lastCommit(ctx, conn, who)
}

func (s *Spy) wait(ctx context.Context, conn *sql.Conn, id CommitID, seconds float64) error {
	s.Waited.Add(1)
	return s.engine.wait(ctx, conn, id, seconds)
}

// BreakReplica makes each new connection of the first replica's reads break at its
// nth write, or get no answer from there on if it is mute, until mend.
func (c *Cluster) BreakReplica(url string, n int, mute bool) (mend func(), err error) {
	s := c.replicas[0]
	var mended atomic.Bool
	inner, timeout, err := c.engine.connector(url, true, func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := s.sockets.dial(ctx, network, address)
		return &breaking{conn, n, mute, &mended}, err
	})
	if err != nil {
		return nil, err
	}
	if err := s.reads.Close(); err != nil {
		return nil, err
	}
	s.reads = sql.OpenDB(&connector{Connector: inner, timeout: timeout, engine: c.engine, server: s})
	return func() { mended.Store(true) }, nil
}

// BlackHole makes new connections for a server's reads and writes hang until whoever
// makes them gives up.
func (c *Cluster) BlackHole(role Role, url string) error {
	s := c.primary
	if role == Replica {
		s = c.replicas[0]
	}
	for pool, readOnly := range map[**sql.DB]bool{&s.reads: true, &s.writes: false} {
		if *pool == nil {
			continue
		}
		inner, timeout, err := c.engine.connector(url, readOnly, func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if err != nil {
			return err
		}
		if err := (*pool).Close(); err != nil {
			return err
		}
		*pool = sql.OpenDB(&connector{Connector: inner, timeout: timeout, engine: c.engine, server: s})
	}
	return nil
}

type breaking struct {
	net.Conn
	left   int
	mute   bool
	mended *atomic.Bool
}

func (b *breaking) Write(p []byte) (int, error) {
	b.left--
	switch {
	case b.left > 0 || b.mended.Load():
		return b.Conn.Write(p)
	case b.mute:
		return len(p), nil
	}
	return 0, net.ErrClosed
}

// GTIDSet returns the one text of a set, or "" if it is none.
func GTIDSet(text string) string {
	set, err := parseGTIDSet(text)
	if err != nil {
		return ""
	}
	return set.String()
}

// CoversGTID reports whether a commit ID of MySQL includes a GTID.
func CoversGTID(id CommitID, gtid string) bool {
	return newMySQL().covers(id, CommitID{"mysql:" + gtid})
}

// ScopeSize is what a scope and its context take.
const ScopeSize = unsafe.Sizeof(scopeContext{})
