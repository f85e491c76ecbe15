package dbroute

import (
	"context"
	"fmt"
	"time"
)

// RouteByCommit sends the scope's reads to a replica that has reached the
// client's last commit, else to the primary. If m is unknown the reads go to
// the primary, and RouteByCommit asks it for its present position, which covers
// whatever the client wrote and replaces m.
func (s *Scope) RouteByCommit(ctx context.Context, m Marker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carried = m
	if m.Unknown {
		s.heal(ctx)
		return
	}
	s.need = m.Commit
	s.replica = NoPendingCommit
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

// Pin sends all further reads of the scope to the primary.
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
	s.carried = Marker{Commit: id, Written: s.carried.Written}
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
// rather than make one of their own; it takes at most the check timeout.
func (s *Scope) target(ctx context.Context) target {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinned == "" && s.chosen.server == nil {
		s.chosen = s.choose(ctx)
		if s.chosen.server.role == Primary {
			s.pinned = s.chosen.reason
		}
	}
	if s.pinned != "" {
		return s.cluster.onPrimary(s.pinned)
	}
	return s.chosen
}

// choose picks the server of a scope that is not pinned. The caller holds s.mu.
func (s *Scope) choose(ctx context.Context) target {
	c := s.cluster
	if s.replica == "" {
		c.log.WarnContext(ctx, "read before a strategy has run: the strategy middleware must come before what loads data")
		return c.onPrimary(Undecided)
	}
	replica := c.next.pick(c.replicas)
	if replica.isDown() {
		return c.onPrimary(ReplicaDown)
	}
	if s.need.IsZero() {
		return target{server: replica, reason: s.replica}
	}
	if instance, reached := replica.hasReached(c.engine, s.need); reached {
		return target{server: replica, instance: instance, reason: CommitReached}
	}
	reached, instance, err := c.ask(ctx, replica, s.need)
	switch {
	case err != nil:
		return c.onPrimary(CheckFailed)
	case reached == onOtherTimeline:
		s.heal(ctx)
		return c.onPrimary(UnknownMarker)
	case reached == notReached:
		return c.onPrimary(CommitNotReached)
	}
	return target{server: replica, instance: instance, reason: CommitReached}
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

// ask asks a replica whether it has reached id, and remembers if it has.
func (c *Cluster) ask(ctx context.Context, replica *server, id CommitID) (reach, string, error) {
	askCtx, cancel := context.WithTimeout(ctx, c.cfg.CheckTimeout)
	defer cancel()
	conn, who, err := replica.acquire(askCtx)
	if err != nil {
		c.noteFault(ctx, replica, err)
		return notReached, "", err
	}
	defer conn.Close()
	reached, err := c.engine.reached(askCtx, conn, id)
	if err != nil {
		c.noteFault(ctx, replica, err)
		return notReached, "", err
	}
	if reached == hasReached {
		replica.remember(c.engine, who.instance, id)
	}
	return reached, who.instance, nil
}

// primaryPosition returns a commit ID that covers all that is committed now.
func (c *Cluster) primaryPosition(ctx context.Context) (CommitID, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CommitTimeout)
	defer cancel()
	conn, _, err := c.primary.acquire(ctx)
	if err != nil {
		return CommitID{}, fmt.Errorf("capture position: %w: %w", ErrPrimaryUnavailable, err)
	}
	defer conn.Close()
	id, err := c.engine.position(ctx, conn)
	if err != nil {
		return CommitID{}, fmt.Errorf("capture position: %w", err)
	}
	return id, nil
}

// noteFault leaves a server alone for a moment if it did not answer, unless
// that was the caller's doing.
func (c *Cluster) noteFault(ctx context.Context, s *server, err error) {
	if ctx.Err() != nil || c.fault(err) != faultConnection || s.role == Primary {
		return
	}
	if !s.isDown() {
		c.log.WarnContext(ctx, "replica does not answer", "server", s.name(), "error", err)
	}
	s.markDown()
}
