package dbroute

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// RouteByCommit sends the scope's reads to a replica that has reached the
// client's last commit, else to the primary. If m is unknown, or tells of a write and of
// no commit ID, the reads go to the primary, and RouteByCommit asks it for its present
// position, which covers whatever the client wrote and replaces m.
func (s *Scope) RouteByCommit(ctx context.Context, m Marker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carried, s.replica = m, NoPendingCommit
	switch noIDs := s.cluster.cfg.NoCommitIDs != ""; {
	case noIDs && !m.IsZero():
		s.pinned = UnknownMarker
	case s.cluster.isUnknown(m):
		s.heal(ctx)
	}
}

// RouteByCommitWait is RouteByCommit for who has the time that a page has not, such
// as a job: if no replica has reached the commit it waits up to wait for one that
// has, and only then settles for the primary. It decides before it returns, and
// holds no connection while it waits. It does not wait where that is no use: if no
// replica is up, or if m is unknown.
func (s *Scope) RouteByCommitWait(ctx context.Context, m Marker, wait time.Duration) {
	s.RouteByCommit(ctx, m)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinned != "" {
		return
	}
	to := s.choose(ctx)
	if to.reason == CommitNotReached || to.reason == CheckFailed {
		s.cluster.waitAnyReached(ctx, s.need(), wait)
		if to = s.choose(ctx); to.reason == CommitNotReached {
			to.reason = CommitWaitTimedOut
		}
	}
	s.decide(to)
}

// RouteByWindow sends the scope's reads to the primary for as long as window
// after the client's last write, by this machine's clock, and to a replica
// later: stale if that replica is further behind than the window is long.
func (s *Scope) RouteByWindow(m Marker, window time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carried = m
	switch now := time.Now(); {
	case m.Unknown && m.Written.IsZero():
		s.carried = Marker{Written: writtenAt(now), Unknown: true}
		s.healed = true
		s.pinned = UnknownMarker
	case now.Before(m.Written.Add(window)):
		s.pinned = WithinWindow
	default:
		s.settled = !m.IsZero()
		s.replica = NoRecentWrite
	}
}

// RouteAnywhere sends the scope's reads to a replica, however stale. It keeps m
// for the client, who may be routed better next time.
func (s *Scope) RouteAnywhere(m Marker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carried = m
	s.replica = StrategyNone
}

// Prefer makes the scope read the same replica as other scopes with the same n,
// as long as it is up. A client that keeps one number sees one replica, and so
// nothing that goes back in time. It must come before the first read.
func (s *Scope) Prefer(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := uint64(len(s.cluster.replicas)); all > 0 {
		s.prefer, s.hasPreference = uint32(n%all), true
	}
}

// Pin sends all further reads of the scope to the primary. What the client
// carries is not looked at: for that, a strategy has to run as well.
func (s *Scope) Pin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinned == "" {
		s.pinned = PrimaryAskedFor
	}
}

// heal pins the scope and replaces a marker that no replica can be asked about.
// If the primary does not answer, the marker stays as it is and the next
// request tries again. The caller holds s.mu.
func (s *Scope) heal(ctx context.Context) {
	s.pinned = UnknownMarker
	s.carried.Unknown = true
	id, err := s.cluster.primaryPosition(ctx)
	if err != nil {
		s.cluster.log.WarnContext(ctx, "unknown marker not replaced", "error", err)
		return
	}
	// It is as new as its position, or it would be taken for lost until the next poll.
	s.carried = Marker{Commit: id, Written: writtenAt(time.Now())}
	s.healed = true
}

// target returns the server for a read with ctx, and why.
func (c *Cluster) target(ctx context.Context) target {
	s := c.scope(ctx)
	switch {
	case len(c.replicas) == 0:
		return c.onPrimary(PrimaryOnly)
	case usesPrimary(ctx):
		return c.onPrimary(PrimaryAskedFor)
	case s == nil:
		return c.onPrimary(OutsideScope)
	}
	return s.target(ctx)
}

func (c *Cluster) onPrimary(why Reason) target { return target{server: c.primary, reason: why} }

// target decides at the first call. Concurrent reads wait for that decision
// rather than make one of their own. It takes at most two check timeouts, and
// a commit timeout more if a failover makes the marker unknown. Later calls leave a
// replica that has been taken out since.
func (s *Scope) target(ctx context.Context) target {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.pinned != "":
	case s.chosen.server == nil:
		s.decide(s.choose(ctx))
	case !s.chosen.server.usable():
		s.pinned = ReplicaFailed
	}
	to := s.chosen
	if s.pinned != "" {
		to = s.cluster.onPrimary(s.pinned)
	}
	if !s.counted {
		s.counted = true
		s.cluster.counts.decision(to.reason)
	}
	return to
}

// decide keeps what was chosen for the rest of the scope. The caller holds s.mu.
func (s *Scope) decide(to target) {
	s.chosen = to
	if to.server.role == Primary {
		s.pinned = to.reason
	}
}

// need is what a replica must have reached to be read. The caller holds s.mu.
func (s *Scope) need() CommitID {
	if s.replica != NoPendingCommit {
		return CommitID{} // no strategy that asks
	}
	return s.carried.Commit
}

// choose picks the server of a scope that is not pinned. The caller holds s.mu.
func (s *Scope) choose(ctx context.Context) target {
	c := s.cluster
	if s.replica == "" {
		c.log.WarnContext(ctx, "read before a strategy has run: the strategy middleware must come before what loads data")
		return c.onPrimary(Undecided)
	}
	own, need := s.ownReplica(), s.need()
	switch {
	case own == nil:
		return c.onPrimary(NoReplica)
	case need.IsZero():
		return c.orPrimary(own.read(s.replica))
	}
	if to, known := own.readIfKnown(need); known {
		return to
	}
	// At most two are asked: the session's own, and the one that has got furthest.
	asked := c.ask(ctx, own, need)
	if asked.reach == notReached {
		if other := c.furthest(own); other != nil {
			if to, known := other.readIfKnown(need); known {
				return to
			}
			asked = c.ask(ctx, other, need)
		}
	}
	switch {
	case asked.err != nil:
		return c.onPrimary(CheckFailed)
	case asked.reach == onOtherTimeline, asked.reach == notReached && c.lost(s.carried):
		s.heal(ctx)
		return c.onPrimary(UnknownMarker)
	case asked.reach == notReached:
		return c.onPrimary(CommitNotReached)
	}
	return target{server: asked.server, instance: asked.instance, reason: CommitReached}
}

// lostAfter is by how much a marker must be older than the last look at the
// primary: the clocks of two processes differ.
const lostAfter = 5 * time.Second

// lost reports whether the primary does not have what a marker covers, since a
// failover lost it, or a crash that was set not to sync. No replica would ever
// reach it. To be wrong here is safe: an unknown marker is never stale. Of a commit
// ID that does not say when it was written it cannot be told.
func (c *Cluster) lost(m Marker) bool {
	p := c.primary
	p.mu.Lock()
	defer p.mu.Unlock()
	return !m.Written.IsZero() && !p.health.applied.isZero() && p.health.found.Sub(m.Written) > lostAfter &&
		!p.health.applied.covers(m.Commit)
}

func (c *Cluster) orPrimary(to target, usable bool) target {
	if !usable {
		return c.onPrimary(NoReplica)
	}
	return to
}

// ownReplica is the one that the client prefers if it is usable, else the next
// that is, or nil. The caller holds s.mu.
func (s *Scope) ownReplica() *server {
	replicas := s.cluster.replicas
	first := uint64(s.prefer)
	if !s.hasPreference {
		first = s.cluster.spread.next()
	}
	for i := range replicas {
		r := replicas[(first+uint64(i))%uint64(len(replicas))]
		if r.usable() {
			return r
		}
	}
	return nil
}

// furthest is the usable replica that had got furthest at the last poll, other
// than the one that has been asked already; nil if there is none.
func (c *Cluster) furthest(asked *server) *server {
	var best *server
	var bestKnown progress
	for _, r := range c.replicas {
		if r == asked || !r.usable() {
			continue
		}
		r.mu.Lock()
		known := r.known
		r.mu.Unlock()
		if best == nil || known.isPast(bestKnown) {
			best, bestKnown = r, known
		}
	}
	return best
}

// leaveReplica moves the rest of the scope to the primary, unless something
// else already has.
func (s *Scope) leaveReplica(why Reason) target {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinned == "" {
		s.pinned = why
	}
	return s.cluster.onPrimary(s.pinned)
}

// answer is what a replica said about a commit.
type answer struct {
	server   *server
	instance string
	reach    reach
	err      error // then reach is notReached
}

// ask asks a replica whether it has reached id, and remembers if it has.
// A replica that is too busy to answer in time is not taken for a dead one.
func (c *Cluster) ask(ctx context.Context, replica *server, id CommitID) answer {
	askCtx, cancel := context.WithTimeout(ctx, c.cfg.CheckTimeout)
	defer cancel()
	a := answer{server: replica}
	var conn *sql.Conn
	var who identity
	if conn, who, a.err = replica.acquire(askCtx); a.err == nil {
		a.instance = who.instance
		a.reach, a.err = c.engine.reached(askCtx, conn, id)
		conn.Close()
	}
	if a.err != nil {
		a.reach = notReached
		if askCtx.Err() == nil {
			c.noteFault(ctx, replica, a.err)
		}
	} else if a.reach == hasReached {
		replica.remember(c.engine, who.instance, id)
	}
	c.counts.check(a)
	return a
}

// primaryPosition returns a commit ID that covers all that is committed now.
func (c *Cluster) primaryPosition(ctx context.Context) (CommitID, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CommitTimeout)
	defer cancel()
	return c.positionOn(ctx, c.primary.reads)
}

func (c *Cluster) positionOn(ctx context.Context, pool *sql.DB) (CommitID, error) {
	conn, _, err := acquire(ctx, pool)
	if err != nil {
		return CommitID{}, fmt.Errorf("capture position: %w", c.explain(ctx, c.primary, err))
	}
	defer conn.Close()
	id, err := c.engine.position(ctx, conn)
	if err != nil {
		return CommitID{}, fmt.Errorf("capture position: %w", c.explain(ctx, c.primary, err))
	}
	return id, nil
}

// noteFault marks a replica down if it did not answer, unless that was the
// caller's doing. One that takes no more connections has answered.
func (c *Cluster) noteFault(ctx context.Context, s *server, err error) {
	if ctx.Err() == nil && c.fault(err) == faultConnection && s.role == Replica && !c.engine.full(err) {
		c.fail(ctx, s, err)
	}
}
