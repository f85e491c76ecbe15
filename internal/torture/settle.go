package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// settleLimit is how long servers and processes may take to be well again.
const settleLimit = time.Minute

// settle waits for all servers, looks whether idle sessions read replicas again, and
// reads everything there is.
func (r *rig) settle(ctx context.Context, w *world, clients []*client) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if err := errors.Join(r.stack.WaitApplied(ctx), r.allReady(ctx)); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	var sessions sync.WaitGroup
	for _, c := range clients {
		sessions.Go(func() { c.rest(r.BackWithin) })
	}
	sessions.Wait()
	r.findReplicas(w)
	reader := w.newClient(Session{ID: w.number(len(clients) + 1), Kind: "final reader"}, nil)
	reader.final, reader.step.consistency = true, "strong"
	for _, p := range w.people {
		for _, id := range p.posts {
			reader.fetchPost(id)
			reader.fetchComments(id)
		}
		for _, t := range p.tokens {
			owner := w.newClient(reader.is, p)
			owner.final, owner.step.consistency = true, "strong"
			owner.withToken(t).fetchSelf()
		}
		for _, tryAgain := range p.ended {
			tryAgain()
		}
	}
	return nil
}

const (
	// jobsWithin is how long after the last change its job may take. A job whose worker
	// was killed is worked by another after two minutes, and is looked for twice a minute.
	jobsWithin = 200 * time.Second
	// jobsSoon is how long the others take. What takes longer has time until the end of
	// the last round.
	jobsSoon = 10 * time.Second
	// noKills is how long before its end a round kills no more processes, so that few
	// jobs have to be waited for that long.
	noKills = 5 * time.Second
)

// awaitJobs returns once the summary of each post includes all of its changes, or
// when there is no more patience.
func (r *rig) awaitJobs(ctx context.Context, w *world, patience time.Duration, last bool) error {
	if patience < 0 {
		return nil
	}
	reader := w.newClient(Session{ID: w.number(0), Kind: "final reader"}, nil)
	reader.final = true
	for _, p := range w.people {
		r.waiting = append(r.waiting, p.posts...)
	}
	deadline := time.Now().Add(patience)
	for len(r.waiting) > 0 {
		late := time.Now().After(deadline)
		r.waiting = slices.DeleteFunc(r.waiting, func(post int64) bool { return reader.seeSummary(post, late && last) })
		if late {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for jobs: %w", context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

// backWithin is how long after the last fault a session may read the primary: the
// processes look at the servers twice a second, and a replica that came back has to
// reach where the primary was by then.
const backWithin = 15 * time.Second

// rest reads until the session is back on a replica, and for so long at most.
func (c *client) rest(limit time.Duration) {
	c.step, c.given, c.n = step{}, nil, c.n+1
	c.final = true
	post := c.world.people[0].posts[0]
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		c.idle = time.Now().After(deadline)
		if c.is.Kind == browser || c.is.Kind == visitor {
			c.seePost(post)
		} else {
			c.fetchPost(post)
		}
		if c.idle || c.last.onReplica() {
			return
		}
	}
}

// findReplicas returns once every process reads every replica, and when there is no more
// patience.
func (r *rig) findReplicas(w *world) {
	var replicas []int
	for _, s := range r.stack.Replicas() {
		replicas = append(replicas, s.ID())
	}
	for n := range r.processes {
		w.findReplicas(n, replicas, r.BackWithin)
	}
}

// findReplicas lets new visitors come to one process until they have read every
// replica, and for so long at most.
func (w *world) findReplicas(process int, replicas []int, limit time.Duration) {
	site, post := w.site.only(process), w.people[0].posts[0]
	unread := slices.Clone(replicas)
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		c := w.newClient(Session{ID: w.number(0), Kind: visitor}, nil)
		c.http.Transport, c.final = site, true
		late := time.Now().After(deadline)
		a := c.get(fmt.Sprintf("/posts/%d", post))
		unread = slices.DeleteFunc(unread, func(id int) bool {
			return slices.ContainsFunc(a.op.Servers, func(s Server) bool { return s.ID == id })
		})
		if late || len(unread) == 0 {
			a.op.Unread = unread
			a.done(c)
			return
		}
	}
}

// onReplica reports whether nothing but a replica was read.
func (o *Op) onReplica() bool {
	return len(o.Servers) > 0 && !slices.ContainsFunc(o.Servers, func(s Server) bool { return !s.Replica })
}
