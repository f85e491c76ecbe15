package dbroute

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// State is whether a server is read, and if not, why.
type State string

const (
	Up      State = "up"      // it is read
	Down    State = "down"    // it does not answer, or is not what it should be
	Joining State = "joining" // it answers, and has yet to reach where the primary was when it was discovered
	Behind  State = "behind"  // it is further behind than MaxReplicaLag
)

// health is what is known of a server's state. Its owner's mutex guards it.
type health struct {
	watched bool      // Watch decides; without it a server that failed rests for a moment
	state   State     // Up if empty
	cause   string    // why it is down
	retryAt time.Time // unwatched only
	found   time.Time // when it began to answer
	joinAt  sample    // what it has to reach to be up; of no time until the primary has said
	applied progress  // at the last poll
	lag     time.Duration
	behind  int64 // in the engine's unit
	worst   time.Duration
	lags    []LagPoint
}

// maxLagPoints is some minutes at the usual interval.
const maxLagPoints = 360

func (h *health) noteLag(now time.Time, lag time.Duration) {
	h.lag, h.worst = lag, max(h.worst, lag)
	if len(h.lags) == maxLagPoints {
		h.lags = append(h.lags[:0], h.lags[1:]...)
	}
	h.lags = append(h.lags, LagPoint{now, lag})
}

// restFor is how long a server that did not answer is left alone if nobody
// watches it.
const restFor = time.Second

func (h *health) usable() bool {
	if !h.watched {
		return !time.Now().Before(h.retryAt)
	}
	return h.state == Up || h.state == ""
}

// failed reports whether the server was not down until now.
func (h *health) failed(now time.Time, cause error) bool {
	was := h.usable() || h.watched && h.state != Down
	h.retryAt = now.Add(restFor)
	h.state, h.cause = Down, cause.Error()
	h.joinAt = sample{}
	return was
}

// replaced takes a server out that was restarted, or is another at the same
// address, until it has caught up. It may be an older copy.
func (h *health) replaced(now time.Time) {
	if h.watched && h.state != Down {
		h.join(now)
	}
}

func (h *health) join(now time.Time) {
	h.state, h.found, h.joinAt = Joining, now, sample{}
}

func (s *server) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.usable()
}

// fail marks a server down and ends its reads in flight, which run again
// elsewhere. Idle connections go too, since they lead to what is gone. So do those that
// were made, or have been waited for, while it was down. One that takes no more
// connections serves those that it has.
func (c *Cluster) fail(ctx context.Context, s *server, cause error) {
	s.mu.Lock()
	was := s.health.failed(time.Now(), cause)
	s.mu.Unlock()
	if was {
		c.log.WarnContext(ctx, "server is down", "server", s.name(), "error", cause)
	}
	if !c.engine.full(cause) {
		s.disconnect()
	}
}

func (s *server) disconnect() {
	s.sockets.closeAll()
	s.dropIdle()
}

func (s *server) dropIdle() {
	for _, pool := range s.pools() {
		size := pool.Stats().MaxOpenConnections
		pool.SetMaxIdleConns(-1)
		pool.SetMaxIdleConns(size)
	}
}

// Watch polls all servers until ctx ends. It takes replicas out that are down,
// hang, are no replicas, or are too far behind, and brings them back once they
// have reached where the primary was when they were discovered. Without it,
// replicas are tried as requests come.
func (c *Cluster) Watch(ctx context.Context) {
	for _, r := range c.replicas {
		r.mu.Lock()
		r.health.watched = true
		r.health.join(time.Now())
		r.mu.Unlock()
	}
	ticker := time.NewTicker(c.cfg.HealthInterval)
	defer ticker.Stop()
	for {
		c.poll(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// poll looks at every server once. A server that hangs costs the health timeout
// and holds up nothing but the next poll.
func (c *Cluster) poll(ctx context.Context) {
	primary := c.pollPrimary(ctx)
	var wg sync.WaitGroup
	for _, r := range c.replicas {
		wg.Go(func() { c.pollReplica(ctx, r, primary) })
	}
	wg.Wait()
}

// hangLimit is how long a primary may give no answer before its connections in
// use are closed. Until then a slow primary is still the primary.
const hangLimit = 5 * time.Second

// pollPrimary returns where the primary is, or the zero sample. It redials one
// that was restarted or replaced, since each idle connection would fail a
// request. It ends the requests that wait for one that hangs, and those on one that was
// demoted, which is a replica like any other.
func (c *Cluster) pollPrimary(ctx context.Context) sample {
	pollCtx, cancel := context.WithTimeout(ctx, c.cfg.HealthTimeout)
	defer cancel()
	now := time.Now()
	position, err := c.positionOn(pollCtx, c.primary.polls)
	if ctx.Err() != nil {
		return sample{}
	}
	p := c.primary
	p.mu.Lock()
	was := p.health.state
	p.health.watched, p.health.state, p.health.cause = true, Up, ""
	if err != nil {
		p.health.state, p.health.cause = Down, err.Error()
	}
	is := p.health.state
	if is == Up {
		p.health.found = now
		p.health.applied = progressTo(c.engine, position)
	}
	hangs := is == Down && !p.health.found.IsZero() && now.Sub(p.health.found) > hangLimit && !c.engine.full(err)
	p.mu.Unlock()
	changed := was != is && was != ""
	if changed {
		c.log.WarnContext(ctx, "primary changes state", "from", was, "to", is, "cause", err)
	}
	switch {
	case hangs, errors.Is(err, errWrongRole):
		p.disconnect()
	case changed:
		p.dropIdle()
	}
	if err != nil {
		return sample{}
	}
	if !position.IsZero() {
		c.history.add(c.engine, now, position)
	}
	return sample{now, position}
}

func (c *Cluster) pollReplica(ctx context.Context, r *server, primary sample) {
	pollCtx, cancel := context.WithTimeout(ctx, c.cfg.HealthTimeout)
	defer cancel()
	known := r.knownSoFar()
	applied, who, err := c.askApplied(pollCtx, r)
	if ctx.Err() != nil {
		return // the end of Watch is no failure
	}
	if err != nil {
		c.fail(ctx, r, err)
		return
	}
	if !applied.IsZero() {
		r.forgetIfBefore(c.engine, applied, known)
		r.remember(c.engine, who.instance, applied)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &r.health
	if !applied.IsZero() {
		h.applied = progressTo(c.engine, applied) // else the last one stands: it receives from nobody
	}
	now := time.Now()
	h.noteLag(now, c.history.lag(now, h.applied))
	if !primary.id.IsZero() && !h.applied.isZero() {
		h.behind = c.engine.distance(primary.id, h.applied.id)
	}
	was := h.state
	if c.cfg.NoCommitIDs != "" {
		h.state, h.cause = Up, ""
		return
	}
	h.advance(c.engine, primary, applied, c.cfg.MaxReplicaLag)
	if h.state != was {
		c.log.InfoContext(ctx, "replica changes state", "server", r.name(), "from", was, "to", h.state, "lag", h.lag)
	}
}

// advance moves the state of a replica that answers and has applied so much.
func (h *health) advance(e engine, primary sample, applied CommitID, maxLag time.Duration) {
	h.cause = ""
	if h.state == Down {
		h.join(time.Now())
	}
	if h.state == Joining {
		lost := !primary.id.IsZero() && !e.covers(primary.id, h.joinAt.id) // by a failover since
		if h.joinAt.at.IsZero() && primary.at.After(h.found) || !h.joinAt.at.IsZero() && lost {
			h.joinAt = primary
		}
		// Of a fresh server's position, which is empty, there is nothing to be reached.
		if h.joinAt.at.IsZero() || !e.covers(applied, h.joinAt.id) {
			return
		}
	}
	h.state = Up
	if maxLag > 0 && h.lag > maxLag {
		h.state = Behind
	}
}

func (c *Cluster) askApplied(ctx context.Context, r *server) (CommitID, identity, error) {
	conn, who, err := acquire(ctx, r.polls)
	if err != nil {
		return CommitID{}, identity{}, err
	}
	defer conn.Close()
	applied, err := c.engine.applied(ctx, conn)
	return applied, who, err
}

// history is where the primary was, and when. By it the lag of a replica in
// time is measured the same way on every engine, to the interval of the polls:
// it is the age of the oldest position that the replica has not reached.
type history struct {
	mu      sync.Mutex
	samples []sample
}

// sample is of no time if the primary gave no answer, and its id zero if nothing
// has been committed there.
type sample struct {
	at time.Time
	id CommitID
}

// maxSamples bounds the history. A replica that has not reached the oldest of
// them is behind by that age at least.
const maxSamples = 3600

func (h *history) add(e engine, at time.Time, id CommitID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.samples); n > 0 {
		last := h.samples[n-1].id
		if last == id {
			return // an idle primary: the first time counts
		}
		if _, err := e.merge(last, id); err != nil {
			h.samples = nil // after a failover no replica reaches the old ones
		}
	}
	if len(h.samples) == maxSamples {
		h.samples = append(h.samples[:0], h.samples[maxSamples/2:]...)
	}
	h.samples = append(h.samples, sample{at, id})
}

func (h *history) lag(now time.Time, applied progress) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	lag := time.Duration(0)
	for i := len(h.samples) - 1; i >= 0 && !applied.covers(h.samples[i].id); i-- {
		lag = now.Sub(h.samples[i].at)
	}
	return lag
}

// ServerStatus is a server as it was last seen.
type ServerStatus struct {
	ID       int
	Role     Role
	Address  string // host and port
	State    State
	Cause    string        // why it is down
	Lag      time.Duration // how long ago the primary was where the replica is
	Behind   int64         // the same in the engine's unit, BehindUnit
	Position CommitID
	WorstLag time.Duration // since the cluster is watched
	Lags     []LagPoint    // of the last minutes, oldest first
}

// LagPoint is a replica's lag at a poll.
type LagPoint struct {
	At  time.Time
	Lag time.Duration
}

// BehindUnit names the unit of ServerStatus.Behind.
func (c *Cluster) BehindUnit() string { return c.engine.unit() }

// Status returns every server as Watch has last seen it, the primary first. It
// asks no server.
func (c *Cluster) Status() []ServerStatus {
	var list []ServerStatus
	for _, s := range c.servers() {
		list = append(list, s.status())
	}
	return list
}

// PrimaryDown reports whether Watch has last seen the primary down. It asks no server,
// and is cheap enough for every page. Without Watch it is false.
func (c *Cluster) PrimaryDown() bool {
	c.primary.mu.Lock()
	defer c.primary.mu.Unlock()
	return c.primary.health.watched && c.primary.health.state == Down
}

func (s *server) status() ServerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.health
	state := h.state
	switch {
	case !h.watched && !h.usable():
		state = Down
	case !h.watched || state == "":
		state = Up
	}
	cause := h.cause
	if state != Down {
		cause = ""
	}
	return ServerStatus{
		ID: s.id(s.identity), Role: s.role, Address: s.address, State: state, Cause: cause,
		Lag: h.lag, Behind: h.behind, Position: h.applied.id,
		WorstLag: h.worst, Lags: slices.Clone(h.lags),
	}
}
