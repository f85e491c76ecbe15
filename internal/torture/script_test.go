package torture

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"freshread/internal/dbroute"
)

// script is what sessions do, and what happens to servers, where what is random would
// take too long to come to it.
type script func(context.Context, *rig, *world, []*client) error

func ofKind(clients []*client, kind string) (all []*client) {
	for _, c := range clients {
		if c.is.Kind == kind {
			all = append(all, c)
		}
	}
	return all
}

// lookFor lets sessions look at a post for some time.
func lookFor(d time.Duration, post int64, clients ...*client) {
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
				c.lookAt(post)
			}
		})
	}
	all.Wait()
}

// lookAt reads a post the way the session does.
func (c *client) lookAt(post int64) {
	if c.is.Kind == browser || c.is.Kind == visitor {
		c.seePost(post)
	} else {
		c.fetchPost(post)
	}
}

// tabs saves in two tabs of a browser.
func tabs(ctx context.Context, r *rig, w *world, clients []*client) error {
	if err := r.stack.WaitApplied(ctx); err != nil {
		return err
	}
	r.findReplicas(w)
	var all sync.WaitGroup
	for _, c := range ofKind(clients, browser) {
		all.Go(func() {
			c.logIn(c.person)
			c.saveInTwoTabs(c.person.post(0))
		})
	}
	all.Wait()
	return nil
}

var errRolledBack = errors.New("rolled back")

// editBehindALock edits a post that somebody else has locked, for longer than replicas
// are behind.
func editBehindALock(ctx context.Context, r *rig, w *world, clients []*client) error {
	somebody, err := dbroute.Open(dbroute.Config{Name: "somebody", Primary: r.stack.Primary().URL(databaseName)})
	if err != nil {
		return err
	}
	defer somebody.Close()
	if err := r.stack.WaitApplied(ctx); err != nil {
		return err
	}
	editor := ofKind(clients, marked)[0]
	post := editor.person.post(0)
	locked, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- somebody.Write(ctx, "lock", func(ctx context.Context, tx *dbroute.Tx) error {
			if _, err := tx.ExecContext(ctx, `SELECT 1 FROM posts WHERE id = ? FOR UPDATE`, post); err != nil {
				return err
			}
			close(locked)
			time.Sleep(1500 * time.Millisecond)
			return errRolledBack
		})
	}()
	select {
	case <-locked:
	case err := <-ended:
		return err
	}
	editor.editByCall(editor.person, 0)
	if err := <-ended; !errors.Is(err, errRolledBack) {
		return err
	}
	lookFor(time.Second, post, editor)
	return nil
}

// olderCopy lets a replica come back that is an older copy of itself, and takes its time
// to catch up.
func olderCopy(ctx context.Context, r *rig, w *world, clients []*client) error {
	replica := r.stack.Replicas()[0]
	if err := errors.Join(r.stack.WaitApplied(ctx), replica.Stop(ctx), replica.Save(ctx), replica.Start(ctx)); err != nil {
		return err
	}
	editor, post := ofKind(clients, marked)[0], w.people[0].post(0)
	editor.editByCall(editor.person, 0)
	// Each program keeps to a replica: the user's other one to the other replica.
	readers := append(w.visitors(), editor, ofKind(clients, unmarked)[0])
	if err := r.stack.WaitApplied(ctx); err != nil {
		return err
	}
	lookFor(2*time.Second, post, readers...) // until the site knows that all replicas have it
	delay := replica.Delay()
	if err := errors.Join(replica.Kill(ctx), replica.Rebuild(ctx), replica.SetDelay(ctx, time.Hour), replica.Start(ctx)); err != nil {
		return err
	}
	lookFor(2*time.Second, post, readers...)
	return errors.Join(replica.SetDelay(ctx, delay), r.stack.WaitApplied(ctx))
}

// visitors are so many that each replica has some.
func (w *world) visitors() (all []*client) {
	for n := range 8 {
		all = append(all, w.newClient(Session{ID: w.number(100 + n), Kind: visitor, Marked: true}, nil))
	}
	return all
}

// killReplicas kills one replica after the other, while somebody edits and others look.
func killReplicas(ctx context.Context, r *rig, w *world, clients []*client) error {
	editor := ofKind(clients, unmarked)[0]
	var killed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, replica := range r.stack.Replicas() {
			time.Sleep(1500 * time.Millisecond) // of which it is read again
			killed = errors.Join(killed, replica.Kill(ctx))
			time.Sleep(500 * time.Millisecond)
			killed = errors.Join(killed, replica.Start(ctx), r.stack.WaitApplied(ctx))
		}
	}()
	var all sync.WaitGroup
	all.Go(func() {
		for ended := false; !ended; {
			editor.n++
			editor.editByCall(editor.person, 0)
			select {
			case <-done:
				ended = true
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	lookFor(5*time.Second, editor.person.post(0), w.visitors()...)
	all.Wait()
	return killed
}

// queueDown edits while the queue is down, and kills the processes before it is back.
func queueDown(ctx context.Context, r *rig, w *world, clients []*client) error {
	if err := r.queue.Primary().Kill(ctx); err != nil {
		return err
	}
	for _, c := range ofKind(clients, marked) {
		c.editByCall(c.person, 0)
		c.commentByCall(c.person.post(1), "")
	}
	time.Sleep(2 * time.Second) // what is relayed by then is not
	for _, p := range r.processes {
		p.kill()
	}
	err := r.queue.Primary().Start(ctx)
	for _, p := range r.processes {
		p.revive()
	}
	return errors.Join(err, r.allReady(ctx))
}

// attack lets somebody hurry in one way.
func attack(how action) script {
	return func(_ context.Context, r *rig, w *world, clients []*client) error {
		r.findReplicas(w) // until then there is nobody else to count than the primary
		c := ofKind(clients, attacker)[0]
		c.n++
		c.attack(step{action: how}, c.person.post(0))
		return nil
	}
}

// visit lets a visitor look at a post once.
func visit(_ context.Context, _ *rig, w *world, clients []*client) error {
	ofKind(clients, visitor)[0].seePost(w.people[0].post(0))
	return nil
}

// all does one script after the other.
func all(scripts ...script) script {
	return func(ctx context.Context, r *rig, w *world, clients []*client) error {
		for i, s := range scripts {
			if err := s(ctx, r, w, clients); err != nil {
				return fmt.Errorf("script %d: %w", i+1, err)
			}
		}
		return nil
	}
}
