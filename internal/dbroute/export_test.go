package dbroute

import (
	"context"
	"database/sql"
	"io"
	"sync/atomic"
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

func (s *Spy) position(ctx context.Context, conn *sql.Conn, who identity) (CommitID, error) {
	if s.FailCapture.Load() {
		return CommitID{}, io.ErrUnexpectedEOF
	}
	return s.engine.position(ctx, conn, who)
}

func (s *Spy) wait(ctx context.Context, conn *sql.Conn, id CommitID, seconds float64) error {
	s.Waited.Add(1)
	return s.engine.wait(ctx, conn, id, seconds)
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
