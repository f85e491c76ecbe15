package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"freshread/internal/auth"
	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/stack"
)

// Runner runs experiments on local servers with one replica or more. One
// experiment at a time may use a stack: what it does to the replica, all see.
type Runner struct {
	Stack   *stack.Stack
	Cluster *dbroute.Cluster // on a migrated database of Stack
	Cache   *dbroute.Cluster // of the cache and the limits, on the same
	Log     *slog.Logger
	// Lag is how late Run makes the replicas for as long as it runs. If it is 0, Run
	// pauses them instead, which is faster and leaves nothing to chance.
	Lag time.Duration
	// Pace is how long visitors take between one thing and the next.
	Pace time.Duration
	// Watch is told of a run while it goes on, by the goroutine that runs it; nil:
	// nobody is.
	Watch func(Progress)
	// Dir is where servers that an experiment needs for itself keep their files; empty:
	// a temporary folder.
	Dir string
	// QueueURL is of a PostgreSQL database for queues that are off the cluster's.
	QueueURL string

	own bool // the servers were started for the experiment
}

// Result is what an experiment showed.
type Result struct {
	Name     string `json:"name"`
	Question string `json:"question"`
	NotRun   string `json:"not_run,omitempty"` // why it cannot be run on this engine
	// Applied is when the replicas had applied all of it, since the run began; 0 if that
	// was not awaited.
	Applied time.Duration `json:"applied_ns"`
	Broken  SideResult    `json:"broken"`
	Fixed   SideResult    `json:"fixed"`
}

// SideResult is what one side showed.
type SideResult struct {
	Label        string        `json:"label"`
	Observations []Observation `json:"observations"`
}

// Observation is one request and what came back, or one run of a job.
type Observation struct {
	At       time.Duration `json:"at_ns"` // since the run began
	By       Visitor       `json:"by,omitempty"`
	Method   string        `json:"method"`
	Label    string        `json:"label"`     // of the subject
	Value    string        `json:"value"`     // that was saved or shown
	ServerID int           `json:"server_id"` // of the subject's read or write
	Role     dbroute.Role  `json:"role"`
	Reason   string        `json:"reason"`
	// CommentsFrom is the role of the server that the comments were read from,
	// if it is another than the subject's.
	CommentsFrom dbroute.Role `json:"comments_from,omitempty"`
	// Waited is how long a job waited for a replica.
	Waited time.Duration `json:"waited_ns,omitempty"`
	// Took is how long the visitor waited, where that is the point.
	Took    time.Duration `json:"took_ns,omitempty"`
	Note    string        `json:"note,omitempty"`    // what else is to be said of it
	Stale   bool          `json:"stale"`             // older than what this visitor, or who queued the job, has saved or seen
	Problem string        `json:"problem,omitempty"` // how it differs from what must be observed

	failed bool // of a write: it may not be saved
}

// OK reports whether everything was observed that must be, bug and cure.
func (r *Result) OK() bool { return r.Broken.ok() && r.Fixed.ok() }

func (s *SideResult) ok() bool {
	for _, o := range s.Observations {
		if o.Problem != "" {
			return false
		}
	}
	return true
}

// Run runs both sides of an experiment in step. The error is of the run itself;
// what was observed and should not have been is in the result.
func (r *Runner) Run(ctx context.Context, e Experiment) (result *Result, err error) {
	for range attempts {
		if result, err = r.attempt(ctx, e); !errors.Is(err, errTooSlow) {
			break
		}
	}
	return result, err
}

func (r *Runner) attempt(ctx context.Context, e Experiment) (_ *Result, err error) {
	if why := e.NotOn(r.Cluster.Engine()); why != "" {
		return &Result{Name: e.Name, Question: e.Question, NotRun: why}, nil
	}
	if e.NeedsLag && r.Lag == 0 {
		return nil, fmt.Errorf("experiment %s: it needs replicas that are late; a pause cannot show it", e.Name)
	}
	if !r.own && !e.Needs.metBy(r.Stack) {
		return r.runOnOwn(ctx, e)
	}
	if e.Paused && r.Lag > 0 {
		paused := *r
		paused.Lag = 0
		r = &paused
	}
	result := e.nothingYet()
	run := &run{Runner: r, times: r.times(), progress: Progress{Steps: len(e.Steps), Result: result}}
	defer func() { err = errors.Join(err, run.close()) }()
	run.tell("Signing up users and writing a post, on both sides")
	sides := []*runningSide{
		{subject: e.Subject, side: e.Broken, want: func(s Step) Want { return s.Broken }, result: &result.Broken},
		{subject: e.Subject, side: e.Fixed, want: func(s Step) Want { return s.Fixed }, result: &result.Fixed},
	}
	for _, s := range sides {
		if err := run.open(ctx, s); err != nil {
			return nil, fmt.Errorf("experiment %s: %w", e.Name, err)
		}
	}
	if err := run.hold(ctx); err != nil {
		return nil, fmt.Errorf("experiment %s: %w", e.Name, err)
	}
	run.began = time.Now()
	for i, step := range e.Steps {
		// Who goes by the clock has no time to lose.
		if i > 0 && run.clock.IsZero() && step.Do.observes() && e.Steps[i-1].Do.observes() {
			if err := sleepUntil(ctx, time.Now().Add(r.Pace)); err != nil {
				return nil, fmt.Errorf("experiment %s: %w", e.Name, err)
			}
		}
		run.tell(step.Do.doing())
		if err := errors.Join(run.step(ctx, step), run.inTime(step)); err != nil {
			return nil, fmt.Errorf("experiment %s, step %d: %w", e.Name, i+1, err)
		}
		run.progress.Done++
	}
	return result, nil
}

func (e Experiment) nothingYet() *Result {
	return &Result{
		Name: e.Name, Question: e.Question,
		Broken: SideResult{Label: e.Broken.Label}, Fixed: SideResult{Label: e.Fixed.Label},
	}
}

func (r *Runner) times() Times {
	if r.Lag == 0 {
		return Times{ShortWindow: time.Second, LongWindow: 4 * time.Second, Behind: 2 * time.Second}
	}
	return Times{Lag: r.Lag, ShortWindow: r.Lag / 3, LongWindow: 2*r.Lag + 2*time.Second, Behind: r.Lag}
}

// run is an experiment under way.
type run struct {
	*Runner
	times Times
	sides []*runningSide
	began time.Time
	saved time.Time // the latest save of either side, and where the primary was then
	after dbroute.CommitID
	held  bool
	soon  chan error // of an ApplySoon under way
	clock time.Time  // what AwaitClock counts from

	progress Progress
}

func (r *run) open(ctx context.Context, s *runningSide) error {
	cfg := site.Config{
		Cluster: r.Cluster, Cache: r.Cache, Log: r.Log, ShowReads: true,
		Limits:       site.SameLimits(cache.Limit{Hits: 1000, Per: time.Second}),
		SessionKeys:  [][]byte{[]byte("the lab's cookies are nobody's secret")},
		PasswordCost: auth.Cost{Memory: 8, Time: 1, Threads: 1},
	}
	r.sides = append(r.sides, s)
	if err := s.prepare(ctx, cfg); err != nil {
		return err
	}
	if s.side.Cluster != nil {
		changed := r.Cluster.Config()
		s.side.Cluster(&changed, r.times)
		cluster, err := dbroute.Open(changed)
		if err != nil {
			return err
		}
		cfg.Cluster, s.cluster = cluster, cluster
	}
	if s.side.Jobs != nil {
		if err := s.startJobs(ctx, r, cfg.Cluster); err != nil {
			return err
		}
		cfg.Jobs = s.queue
	}
	s.side.Setup(&cfg, r.times)
	return s.open(cfg)
}

// hold sees to it that the replicas have the posts, and nothing later: they are late
// or paused from here on.
func (r *run) hold(ctx context.Context) error {
	if err := r.Stack.WaitApplied(ctx); err != nil {
		return err
	}
	r.held = true
	for _, replica := range r.Stack.Replicas() {
		hold := replica.PauseApply
		if r.Lag > 0 {
			hold = func(ctx context.Context) error { return replica.SetDelay(ctx, r.Lag) }
		}
		if err := hold(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) release(ctx context.Context) error {
	errs := []error{r.awaitSoon()}
	if !r.held {
		return errs[0]
	}
	for _, replica := range r.Stack.Replicas() {
		if r.Lag > 0 {
			errs = append(errs, replica.SetDelay(ctx, 0))
			continue
		}
		errs = append(errs, replica.ResumeApply(ctx))
	}
	err := errors.Join(errs...)
	r.held = err != nil // close tries again
	return err
}

func (r *run) close() error {
	// Whatever ended the run, the next one needs replicas that apply.
	err := r.release(context.Background())
	for _, s := range r.sides {
		err = errors.Join(err, s.close())
	}
	return err
}

func (r *run) step(ctx context.Context, step Step) error {
	switch step.Do {
	case AwaitApplied:
		if r.Lag == 0 {
			if err := r.release(ctx); err != nil {
				return err
			}
		}
		err := r.Stack.WaitApplied(ctx)
		r.progress.Result.Applied = time.Since(r.began)
		return err
	case AwaitPace:
		return sleepUntil(ctx, time.Now().Add(r.times.Lag/6))
	case AwaitHalfLag:
		return sleepUntil(ctx, r.saved.Add(r.times.Lag/2))
	case AwaitSaveApplied:
		return r.awaitSaveApplied(ctx)
	case AwaitShortWindow:
		return sleepUntil(ctx, r.saved.Add(r.times.ShortWindow))
	case AwaitLongWindow:
		return sleepUntil(ctx, r.saved.Add(r.times.LongWindow))
	}
	if is, err := r.control(ctx, step); is {
		return err
	}
	if err := r.doSides(ctx, step); err != nil {
		return err
	}
	if step.Do == Save {
		r.saved = time.Now()
		after, err := r.Cluster.LastCommitID(ctx)
		r.after = after
		return err
	}
	return nil
}

// awaitSaveApplied returns when a replica has the latest save. How late that is
// an engine keeps to the second at best.
func (r *run) awaitSaveApplied(ctx context.Context) error {
	ctx, scope := r.Cluster.NewScope(ctx)
	scope.RouteAnywhere(dbroute.Marker{})
	return r.awaitReached(ctx)
}

// awaitReached returns when the server that the scope reads from has the latest save.
func (r *run) awaitReached(ctx context.Context) error {
	has, err := r.Cluster.HasCommitID(ctx, r.after, 2*r.times.Lag+10*time.Second)
	if err == nil && !has {
		err = errors.New("the replica does not apply the save")
	}
	return err
}

func sleepUntil(ctx context.Context, t time.Time) error {
	// A window is kept to the millisecond, and may round up.
	timer := time.NewTimer(time.Until(t) + 2*time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
