package dbroute

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

// Scope is the routing state of one request or one job run on one cluster. It
// decides once, at its first read, which server its reads use, and changes it
// at most once, towards the primary. It is safe for concurrent use.
//
// Exactly one of RouteByCommit, RouteByWindow, RouteAnywhere and Pin should be
// called before the first read. A read that comes earlier goes to the primary,
// and so does the rest of the scope, with the reason Undecided.
type Scope struct {
	cluster *Cluster

	mu            sync.Mutex
	replica       Reason // why a replica may be read; empty until a strategy has run
	prefer        uint32 // the client's own replica, if it has one, by its place
	hasPreference bool
	counted       bool   // the decision is in the cluster's counts
	healed        bool   // carried was unknown and is known now
	settled       bool   // no read needs carried any longer
	chosen        target // server is nil until the first read
	pinned        Reason // set once all further reads use the primary
	carried       Marker // the client's, after healing
	seen          Marker // covers what was read, if Monotonic
	written       Marker // this scope's own writes
	onWrite       func(context.Context, *Tx) error

	recording sync.Mutex // not mu: a log handler may want the accesses while the scope decides
	accesses  []Access
	buf       [3]Access // spares a page of a few reads an allocation
}

// Access is one read or write that a scope made.
type Access struct {
	Name     string // as given to Read or Write
	Write    bool
	Failed   bool // fn or the commit returned an error
	ServerID int  // of the server that ran it
	Role     Role
	Reason   Reason
	Duration time.Duration // connecting included
}

// maxAccesses bounds what a scope remembers, for those that live long.
const maxAccesses = 250

// target is a server and why it is the one.
type target struct {
	server   *server
	instance string // the instance that the reason holds for; empty for any
	reason   Reason
}

type scopeKey struct{ c *Cluster }

// scopeContext carries a scope: both are one allocation. It has 512 bytes, since what is
// larger takes Go longer to allocate.
type scopeContext struct {
	context.Context
	scope Scope
}

func (c *scopeContext) Value(key any) any {
	if key, ok := key.(scopeKey); ok && key.c == c.scope.cluster {
		return &c.scope
	}
	return c.Context.Value(key)
}

// NewScope returns a context that carries a new scope of this cluster. Scopes
// of other clusters in ctx are left as they are.
func (c *Cluster) NewScope(ctx context.Context) (context.Context, *Scope) {
	carries := &scopeContext{Context: ctx, scope: Scope{cluster: c}}
	s := &carries.scope
	s.accesses = s.buf[:0]
	return carries, s
}

// Scope returns this cluster's scope in ctx, or nil.
func (c *Cluster) Scope(ctx context.Context) *Scope { return c.scope(ctx) }

func (c *Cluster) scope(ctx context.Context) *Scope {
	s, _ := ctx.Value(scopeKey{c}).(*Scope)
	return s
}

type usePrimaryKey struct{}

// UsePrimary returns a context whose reads use the primary, in every cluster.
// The scope is not changed by it: reads with the original context stay where
// they were. Use Scope.Pin to move all that follows.
func UsePrimary(ctx context.Context) context.Context {
	return context.WithValue(ctx, usePrimaryKey{}, true)
}

func usesPrimary(ctx context.Context) bool { return ctx.Value(usePrimaryKey{}) != nil }

// Accesses returns what the scope has read and written so far, in order of
// completion.
func (s *Scope) Accesses() []Access {
	s.recording.Lock()
	defer s.recording.Unlock()
	return append([]Access(nil), s.accesses...)
}

func (c *Cluster) record(s *Scope, a Access) {
	c.counts.access(&a)
	if s == nil {
		return
	}
	s.recording.Lock()
	defer s.recording.Unlock()
	if len(s.accesses) < maxAccesses {
		s.accesses = append(s.accesses, a)
	}
}

// mustNote reports whether what a server has shown must not be unseen, and could be:
// another that may be read is behind it.
func (s *Scope) mustNote(on *server) bool {
	if s == nil || !s.cluster.cfg.Monotonic {
		return false
	}
	if on.role == Primary {
		return len(s.cluster.replicas) > 0
	}
	return len(s.cluster.replicas) > 1
}

// saw notes how far a server was once it had answered a read. If that cannot be had,
// what the client has seen is unknown.
func (s *Scope) saw(ctx context.Context, on *server, conn *sql.Conn) {
	position := s.cluster.engine.position
	if on.role == Replica {
		position = s.cluster.engine.visible
	}
	m := Marker{}
	var err error
	if m.Commit, err = position(ctx, conn); err != nil {
		s.cluster.log.WarnContext(ctx, "how far a read has seen is not known", "server", on.name(), "error", err)
		m = Marker{Written: writtenAt(time.Now()), Unknown: true}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = s.cluster.MergeMarkers(s.seen, m)
}

// wrote moves the rest of the scope to the primary.
func (s *Scope) wrote(m Marker) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = s.cluster.MergeMarkers(s.written, m)
	s.pinned = AfterWrite
}

func (s *Scope) writes() (m Marker, wrote bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written, !s.written.IsZero()
}

// OnWrite sets what runs at the beginning of each of the scope's transactions from
// here on, so that whatever it locks is locked first by all. Its error rolls back.
// Touches do not run it.
func (s *Scope) OnWrite(first func(context.Context, *Tx) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onWrite = first
}

func (s *Scope) beginWrite(ctx context.Context, tx *Tx) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	first := s.onWrite
	s.mu.Unlock()
	if first == nil {
		return nil
	}
	return first(ctx, tx)
}

// Outcome is what a response has to tell the client's markers.
type Outcome struct {
	Marker  Marker // covers what the client carried and what the scope wrote
	Changed bool   // Marker is news to the client: the scope wrote, healed an unknown marker, or has seen more
	Healed  bool   // an unknown marker was replaced
	Settled bool   // the client needs no marker any longer
}

// Outcome returns the outcome of what the scope has done so far. It asks no
// server, so that it can be called while a response is being sent.
func (s *Scope) Outcome() Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := !s.written.IsZero() || s.healed
	marker := s.cluster.MergeMarkers(s.carried, s.written)
	if s.sawMore(marker) {
		marker = s.cluster.MergeMarkers(marker, s.seen)
		// What was seen is as new as this, or a failover that loses it would not be found
		// out. The window counts from writes alone.
		if s.replica == NoPendingCommit || s.replica == StrategyNone {
			marker.Written = writtenAt(time.Now())
		}
		changed = true
	}
	return Outcome{
		Marker:  marker,
		Changed: changed,
		Healed:  s.healed,
		Settled: !changed && !s.carried.Unknown && (s.settled || s.cluster.reachedEverywhere(s.carried.Commit)),
	}
}

// sawMore reports whether the client has to be told of more than m for what it has
// seen. The caller holds s.mu.
func (s *Scope) sawMore(m Marker) bool {
	switch {
	case m.Unknown || s.seen.IsZero():
		return false
	case s.seen.Unknown:
		return true
	case !m.Commit.IsZero() && s.cluster.engine.covers(m.Commit, s.seen.Commit):
		return false
	}
	return !s.cluster.reachedEverywhere(s.seen.Commit)
}

// reachedEverywhere reports whether every configured replica is known to have
// reached id. One of several is not enough: the next request may meet another.
func (c *Cluster) reachedEverywhere(id CommitID) bool {
	if id.IsZero() || len(c.replicas) == 0 {
		return false
	}
	if len(c.replicas) == 1 { // what is taken apart for several is allocated
		_, known := c.replicas[0].readIfKnown(id)
		return known
	}
	want := progressTo(c.engine, id)
	for _, r := range c.replicas {
		if !r.knownToHave(want) {
			return false
		}
	}
	return true
}
