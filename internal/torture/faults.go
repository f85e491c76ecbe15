package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"freshread/internal/stack"
)

// FaultKind is a way to fail.
type FaultKind string

const (
	Paused    FaultKind = "paused" // it applies nothing, and answers
	Killed    FaultKind = "killed"
	Restarted FaultKind = "restarted"
	Hung      FaultKind = "hung" // as SIGSTOP does
	HungLong  FaultKind = "hung for long"
	Slowed    FaultKind = "slowed"
	CutOff    FaultKind = "connections cut" // in the middle of answers
	Rebuilt   FaultKind = "rebuilt"         // from an older copy, at the same address
	Outdated  FaultKind = "outdated"        // rebuilt, and it does not begin to catch up
	Demoted   FaultKind = "demoted"         // it takes no writes, and is then the primary again
)

// deck is what can happen to a target. All of it happens before anything does again.
type deck []FaultKind

var (
	replicaFaults = deck{Paused, Killed, Restarted, Hung, Slowed, CutOff, Rebuilt, Outdated}
	primaryFaults = deck{Killed, Restarted, Hung, HungLong, Slowed, CutOff, Demoted}
	processFaults = deck{Killed}
	queueFaults   = deck{Killed, Restarted, Hung, CutOff}
)

// plannedFault is a fault before it happens.
type plannedFault struct {
	kind   FaultKind
	after  time.Duration // since the one before was mended
	length time.Duration
	amount int // how slow in milliseconds, or after how many bytes a connection is cut
}

// schedule draws the faults of one target.
type schedule struct {
	random *rand.Rand
	deck   deck
	left   deck
	calm   time.Duration
}

func newSchedule(seed uint64, round, target int, d deck, calm time.Duration) *schedule {
	return &schedule{
		random: rand.New(rand.NewPCG(seed, uint64(round)<<32|uint64(target)<<1|1)),
		deck:   d, calm: calm,
	}
}

func (s *schedule) next() plannedFault {
	if len(s.left) == 0 {
		s.left = append(s.left, s.deck...)
		s.random.Shuffle(len(s.left), func(i, j int) { s.left[i], s.left[j] = s.left[j], s.left[i] })
	}
	f := plannedFault{kind: s.left[0]}
	s.left = s.left[1:]
	f.after = s.calm/2 + time.Duration(s.random.Int64N(int64(s.calm)))
	f.length = 200*time.Millisecond + time.Duration(s.random.Int64N(int64(1800*time.Millisecond)))
	f.amount = 20 + s.random.IntN(400)
	if f.kind == HungLong {
		f.length += 6 * time.Second // longer than a primary may give no answer
	}
	return f
}

// target is what faults are injected into.
type target interface {
	name() string
	inject(ctx context.Context, f plannedFault) error
	mend(ctx context.Context, f plannedFault) error
}

// faultPatience bounds what it takes to inject a fault or to mend it.
const faultPatience = time.Minute

// disturb injects faults until ctx ends, and mends the last one.
func disturb(ctx context.Context, w *world, s *schedule, t target, note func(Fault)) error {
	for {
		f := s.next()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(f.after):
		}
		if err := once(ctx, w, f, t, note); err != nil {
			return err
		}
	}
}

func once(ctx context.Context, w *world, f plannedFault, t target, note func(Fault)) error {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), faultPatience)
	defer cancel()
	happened := Fault{Kind: f.kind, Target: t.name(), At: w.now()}
	err := t.inject(work, f)
	if err == nil {
		select {
		case <-ctx.Done():
		case <-time.After(f.length):
		}
	}
	err = errors.Join(err, t.mend(work, f))
	happened.Until = w.now()
	note(happened)
	if err != nil {
		return fmt.Errorf("%s %s: %w", t.name(), f.kind, err)
	}
	return nil
}

// database is a database server as a target, with the link that leads to it.
type database struct {
	server *stack.Server
	link   *link
	label  string
	delay  time.Duration // while it is outdated, of before
}

func (d *database) name() string { return d.label }

func (d *database) inject(ctx context.Context, f plannedFault) error {
	switch f.kind {
	case Paused:
		return d.server.PauseApply(ctx)
	case Killed:
		return d.server.Kill(ctx)
	case Restarted:
		return d.server.Stop(ctx)
	case Hung, HungLong:
		return d.server.Hang()
	case Slowed:
		return d.link.slow(time.Duration(f.amount) * time.Millisecond)
	case CutOff:
		return d.link.cut(int64(f.amount))
	case Rebuilt:
		if err := d.server.Kill(ctx); err != nil {
			return err
		}
		return d.server.Rebuild(ctx)
	case Outdated:
		d.delay = d.server.Delay()
		if err := d.server.Kill(ctx); err != nil {
			return err
		}
		return errors.Join(d.server.Rebuild(ctx), d.server.SetDelay(ctx, time.Hour), d.server.Start(ctx))
	case Demoted:
		return d.server.Demote(ctx)
	}
	return fmt.Errorf("unknown fault %q", f.kind)
}

func (d *database) mend(ctx context.Context, f plannedFault) error {
	switch f.kind {
	case Paused:
		return d.server.ResumeApply(ctx)
	case Hung, HungLong:
		return d.server.Continue()
	case Slowed, CutOff:
		return d.link.mend()
	case Outdated:
		return d.server.SetDelay(ctx, d.delay)
	case Demoted:
		return d.server.Reinstate(ctx)
	}
	return d.server.Start(ctx)
}

func (p *process) name() string { return fmt.Sprintf("process %d", p.number) }

func (p *process) inject(context.Context, plannedFault) error {
	p.kill()
	return nil
}

func (p *process) mend(context.Context, plannedFault) error {
	p.revive()
	return nil
}
