package torture

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
)

// failsOver promotes a standby that has missed the last commits. Another has them: by its
// position it is further, and yet it has nothing of what is written from then on. A whole
// site and one that looks at no timelines live through it, and their histories are
// returned.
func (p *proof) failsOver(t *testing.T) (whole, broken *History) {
	ctx := t.Context()
	p.breaks(t)
	p.Modes, p.Calm = []bool{false}, 0
	var sites [2][]*client
	for i, name := range []string{"nothing", lostTimeline} {
		p.serves(name)
		p.rounds++
		var err error
		_, sites[i], err = p.begin(ctx, p.rounds)
		stacktest.Must(t, err)
	}
	begun := time.Now()
	stacktest.Must(t, p.failover(ctx))
	var both sync.WaitGroup
	both.Go(func() { whole = afterFailover(sites[0], begun) })
	both.Go(func() { broken = afterFailover(sites[1], begun) })
	both.Wait()
	return whole, broken
}

// lostWAL is more than the new primary will write: what it makes has positions that the
// other standby is past.
const lostWAL = 8 << 20

func (p *proof) failover(ctx context.Context) error {
	old, promoted := p.stack.Primary(), p.stack.Replicas()[0]
	if err := errors.Join(p.stack.WaitApplied(ctx), promoted.Stop(ctx)); err != nil {
		return err
	}
	if err := loseCommits(ctx, old); err != nil {
		return err
	}
	return errors.Join(
		p.stack.WaitApplied(ctx), // on the other standby
		old.Kill(ctx), promoted.Start(ctx), promoted.Promote(ctx),
		p.links[0].redirect(promoted.Addr()), p.allReady(ctx),
	)
}

func loseCommits(ctx context.Context, primary *stack.Server) error {
	c, err := dbroute.Open(dbroute.Config{Name: "lost", Primary: primary.URL(databaseName)})
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Write(ctx, "lose", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, `SELECT pg_logical_emit_message(true, 'lost', repeat('x', ?))`, lostWAL)
		return err
	})
}

// afterFailover lets those who write go on, and returns what they have seen. Who does not
// write may read a standby that is nobody's.
func afterFailover(clients []*client, begun time.Time) *History {
	w := clients[0].world
	f := Fault{Kind: Killed, Target: "primary", At: begun.Sub(w.begun), Until: w.now()}
	w.mu.Lock()
	w.ops = nil
	w.mu.Unlock()
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); {
		for _, kind := range []string{marked, browser} {
			c := ofKind(clients, kind)[0]
			c.n++
			if kind == browser && c.login == "" {
				c.logIn(c.person)
			}
			if c.editAs(kind); c.last.Status < 500 {
				lookFor(100*time.Millisecond, c.person.post(0), c)
			}
		}
	}
	return &History{Ops: w.history(), Limits: limitOf, Faults: []Fault{f}}
}

func (c *client) editAs(kind string) {
	if kind == browser {
		c.editByForm(c.person, 0)
	} else {
		c.editByCall(c.person, 0)
	}
}
