package lab

import (
	"context"
	"errors"
	"time"

	"freshread/internal/dbroute"
)

// control does what a step does to the servers and nobody sees. It reports whether
// the step is such a one.
func (r *run) control(ctx context.Context, step Step) (is bool, err error) {
	switch step.Do {
	case Hold:
		return true, r.holdAgain(ctx)
	case ApplySoon:
		r.applySoon(ctx)
		return true, nil
	case ApplyOnFirst:
		return true, r.applyOnFirst(ctx)
	case Outage:
		return true, r.outage(ctx)
	case AwaitClock:
		return true, r.awaitClock(ctx, step.At)
	}
	return false, nil
}

// holdAgain has nothing to do for replicas that are late by themselves.
func (r *run) holdAgain(ctx context.Context) error {
	if r.Lag > 0 {
		return nil
	}
	return r.hold(ctx)
}

func (r *run) applySoon(ctx context.Context) {
	if r.Lag > 0 {
		return
	}
	r.soon = make(chan error, 1)
	go func() {
		err := sleepUntil(ctx, time.Now().Add(r.times.Behind))
		for _, replica := range r.Stack.Replicas() {
			err = errors.Join(err, replica.ResumeApply(context.WithoutCancel(ctx)))
		}
		r.soon <- err
	}()
}

// awaitSoon returns once what an ApplySoon has begun is done.
func (r *run) awaitSoon() error {
	if r.soon == nil {
		return nil
	}
	err := <-r.soon
	r.soon, r.held = nil, err != nil
	return err
}

func (r *run) applyOnFirst(ctx context.Context) error {
	if r.Lag > 0 {
		return errors.New("only a paused replica can be left behind")
	}
	if err := r.Stack.Replicas()[0].ResumeApply(ctx); err != nil {
		return err
	}
	ctx, scope := r.Cluster.NewScope(ctx)
	scope.Prefer(0)
	scope.RouteAnywhere(dbroute.Marker{})
	return r.awaitReached(ctx)
}

func (r *run) outage(ctx context.Context) error {
	if !r.own {
		return errors.New("only servers of the experiment's own may crash")
	}
	err := r.release(ctx)
	for _, replica := range r.Stack.Replicas() {
		err = errors.Join(err, replica.Kill(ctx))
	}
	return err
}

// awaitClock waits for a time of the wall clock. A run that heeds it begins with it.
func (r *run) awaitClock(ctx context.Context, at time.Duration) error {
	if r.clock.IsZero() {
		r.clock = time.Now().Truncate(time.Second).Add(time.Second)
		r.began = r.clock
	}
	return sleepUntil(ctx, r.clock.Add(at))
}

// attempts bounds how often a run begins again on a machine that is too slow.
const attempts = 10

var errTooSlow = errors.New("the machine is too busy: a step was done too late to show anything")

func (r *run) inTime(step Step) error {
	if step.Until > 0 && time.Since(r.clock) > step.Until {
		return errTooSlow
	}
	return nil
}
