package dbroute

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// The pauses between two questions to a replica that has yet to reach a commit.
// A server that can wait by itself is asked to for the longer one at a time.
const (
	firstPoll = 2 * time.Millisecond
	lastPoll  = 50 * time.Millisecond
)

// waiters are who waits for a replica to reach a commit. One goroutine asks for
// all of them, since ten thousand jobs must not cost ten thousand connections.
type waiters struct {
	mu    sync.Mutex
	list  []*waiter
	fresh bool // somebody came since the last question
}

// waiter is told once, by closing told.
type waiter struct {
	id   CommitID
	told chan struct{}
	err  error // why it cannot be said that the replica has reached id
}

func (c *Cluster) waitReached(ctx context.Context, s *server, id CommitID, wait time.Duration) (bool, error) {
	a := c.ask(ctx, s, id)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case a.reach == hasReached:
		return true, nil
	case a.err != nil && !errors.Is(a.err, context.DeadlineExceeded):
		return false, a.err
	case wait <= 0:
		return false, nil
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	w := &waiter{id: id, told: make(chan struct{})}
	if first := s.waiters.add(w); first {
		go c.serveWaiters(s)
	}
	select {
	case <-w.told:
		return w.err == nil, w.err
	case <-timeout.C:
		s.waiters.remove(w)
		return false, nil
	case <-ctx.Done():
		s.waiters.remove(w)
		return false, ctx.Err()
	}
}

// waitAnyReached returns once one of the replicas that are up has reached id, and
// when wait is over at the latest.
func (c *Cluster) waitAnyReached(ctx context.Context, id CommitID, wait time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers, waiting := make(chan bool, len(c.replicas)), 0
	for _, r := range c.replicas {
		if r.usable() {
			waiting++
			go func() {
				reached, _ := c.waitReached(ctx, r, id, wait) // who cannot say so has not
				answers <- reached
			}()
		}
	}
	for ; waiting > 0; waiting-- {
		if <-answers {
			return
		}
	}
}

// serveWaiters asks until nobody waits any more.
func (c *Cluster) serveWaiters(s *server) {
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		first, fresh := s.waiters.first()
		if first.IsZero() {
			return
		}
		if fresh {
			pause = firstPoll
		}
		asked := time.Now()
		applied, waited, err := c.awaitAny(s, first)
		told := s.waiters.tell(c.engine, applied, err)
		if !waited {
			time.Sleep(pause)
		} else if !told { // it may have had id at once, and be unable to say so
			time.Sleep(pause - time.Since(asked))
		}
	}
}

// awaitAny returns what a replica has applied: if the server can, once that
// includes id, or when lastPoll has passed.
func (c *Cluster) awaitAny(s *server, id CommitID) (applied CommitID, waited bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.CheckTimeout+lastPoll)
	defer cancel()
	conn, who, err := s.acquire(ctx)
	if err == nil {
		defer conn.Close()
		if who.waits {
			err = c.engine.wait(ctx, conn, id, lastPoll.Seconds())
		}
	}
	if err == nil {
		applied, err = c.engine.applied(ctx, conn)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return CommitID{}, false, nil // too busy to answer: those who wait have their own bounds
	case err != nil:
		c.noteFault(ctx, s, err)
		return CommitID{}, false, err
	case !applied.IsZero():
		s.remember(c.engine, who.instance, applied)
	}
	return applied, who.waits, nil
}

// add reports whether nobody serves the waiters yet.
func (l *waiters) add(w *waiter) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list, l.fresh = append(l.list, w), true
	return len(l.list) == 1
}

// remove leaves the last waiter's place to serveWaiters, which ends with it.
func (l *waiters) remove(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.id = CommitID{}
}

// first returns what has been waited for longest, or the zero CommitID, and
// whether somebody came since the last call.
func (l *waiters) first() (_ CommitID, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh, l.fresh = l.fresh, false
	l.list = slices.DeleteFunc(l.list, func(w *waiter) bool { return w.id.IsZero() })
	if len(l.list) == 0 {
		return CommitID{}, false
	}
	return l.list[0].id, fresh
}

// tell lets those go whose commit has been applied, if there are any; with an error, all.
func (l *waiters) tell(e engine, applied CommitID, err error) (told bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	reached := progressTo(e, applied)
	for _, w := range l.list {
		if w.id.IsZero() || err == nil && !reached.covers(w.id) {
			continue
		}
		w.id, w.err, told = CommitID{}, err, true
		close(w.told)
	}
	return told
}
