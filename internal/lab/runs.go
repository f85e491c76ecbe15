package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"freshread/internal/web"
)

var (
	errStopped   = errors.New("the run was stopped")
	errCannotRun = web.Explain(web.ErrBadRequest, "This experiment cannot be run on this site. Its page says why, and offers no form for it.")
)

// runs are those under way.
type runs struct {
	most int

	mu      sync.Mutex
	n       int
	cancels map[string]context.CancelCauseFunc // of those that can be stopped, by their id
	all     sync.WaitGroup
}

func newRuns(most int) *runs { return &runs{most: most, cancels: map[string]context.CancelCauseFunc{}} }

// begin returns a context for a run and the id to stop it by, unless there are as
// many as may be. end must be called when the run has ended.
func (r *runs) begin(ctx context.Context) (_ context.Context, id string, end func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n >= r.most {
		return nil, "", nil, web.Explain(web.ErrBusy,
			fmt.Sprintf("%d experiments are being run, as many as may be at once. Please try again when one has ended, in less than a minute.", r.most))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	id = rand.Text()
	r.cancels[id] = cancel
	r.n++
	r.all.Add(1)
	return ctx, id, func() {
		cancel(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.cancels, id)
		r.n--
		r.all.Done()
	}, nil
}

// stop tells a run to end. It reports whether there was one that could be told.
func (r *runs) stop(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	cancel, ok := r.cancels[id]
	if ok {
		cancel(errStopped)
		delete(r.cancels, id)
	}
	return ok
}

func (r *runs) wait() { r.all.Wait() }
