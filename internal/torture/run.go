package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"freshread/internal/cache"
	"freshread/internal/site"
)

// Options says what to run.
type Options struct {
	Engine     string
	Seed       uint64
	Duration   time.Duration // of all rounds together, at least
	Operations int           // that are answered, of all rounds together, at least
	Replicas   int
	Processes  int
	OwnQueue   bool   // the queue of PostgreSQL is in a database of its own, as it is elsewhere
	Dir        string // where the servers keep their files; empty: a temporary folder
	Logs       string // where the processes' logs stay; empty: nowhere
	Progress   io.Writer

	// Serve returns the command that runs a process of the site with what it is told
	// by the environment, as `app serve` does.
	Serve func(env []string) *exec.Cmd
	// Modes are the values of READ_MONOTONIC that the rounds have in turn; off and on
	// if empty.
	Modes []bool
	// Calm is how long a server has no fault, on average; 0 injects none.
	Calm time.Duration
	// Delays is how late each replica applies; none and one second, in turn, if empty.
	Delays []time.Duration

	// How long the sessions of a round are at work, and how long afterwards a session
	// may read the primary and a job may take; see the constants. If the time of jobs
	// is negative, they are not looked for.
	Round, BackWithin, JobsWithin time.Duration
}

func (o *Options) setDefaults() {
	if len(o.Modes) == 0 {
		o.Modes = []bool{false, true}
	}
	o.Round = cmp.Or(o.Round, min(max(o.Duration/time.Duration(o.fewestRounds()), shortestRound), longestRound))
	o.BackWithin = cmp.Or(o.BackWithin, backWithin)
	o.JobsWithin = cmp.Or(o.JobsWithin, jobsWithin)
	for i := len(o.Delays); i < o.Replicas; i++ {
		o.Delays = append(o.Delays, time.Duration(i%2)*time.Second)
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
}

// fewestRounds have every mode, and faults of every kind.
func (o *Options) fewestRounds() int { return max(len(o.Modes), len(spared)) }

// spared are the servers that have no faults in a round, in turn: what needs only those
// must not fail then.
var spared = []string{"", "primary", "replica"}

const (
	people = 5
	// shortestRound and longestRound are how long the sessions of a round are at work:
	// so long that every fault may happen, and no longer than histories fit in memory.
	shortestRound = 5 * time.Second
	longestRound  = time.Minute
	// databaseName is that of the site's.
	databaseName = "torture"
)

// limits are in nobody's way but that of who hurries. Who makes a token gives a
// password for it, so that the limit of tokens has to be the lower one.
var limits = site.Limits{
	LogInByAddress:  cache.Limit{Hits: 12, Per: 3 * time.Second},
	LogInByAccount:  cache.Limit{Hits: 10, Per: 2500 * time.Millisecond},
	SignUpByAddress: cache.Limit{Hits: 4, Per: 2 * time.Second},
	WritesByUser:    cache.Limit{Hits: 60, Per: 3 * time.Second},
	TokensByUser:    cache.Limit{Hits: 4, Per: 2 * time.Second},
}

// limitOf is a limit of the site's by the name of what is limited.
var limitOf = map[Allowance]cache.Limit{
	LogInsFrom: limits.LogInByAddress, LogInsTo: limits.LogInByAccount, SignUpsFrom: limits.SignUpByAddress,
	WritesBy: limits.WritesByUser, TokensOf: limits.TokensByUser,
}

// Run runs rounds, one after the other, and returns what they have shown.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	o.setDefaults()
	r := &rig{Options: o}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	report := &Report{Options: o, Version: r.stack.Primary().Version(), begun: time.Now()}
	for round := 0; ; round++ {
		w, h, err := r.round(ctx, round)
		if err != nil {
			return nil, fmt.Errorf("round %d of seed %d: %w", round+1, o.Seed, err)
		}
		last := report.worked+h.Worked >= o.Duration && report.operations+w.answered() >= o.Operations && round+1 >= o.fewestRounds()
		if err := r.finish(ctx, w, h, last); err != nil {
			return nil, err
		}
		report.add(h, o.Progress)
		fmt.Fprintf(o.Progress, "%4.0fs  round %d: %s\n", time.Since(report.begun).Seconds(), round+1, report)
		if last {
			return report, nil
		}
	}
}

// finish looks for the jobs of a round, and keeps its history.
func (r *rig) finish(ctx context.Context, w *world, h *History, last bool) error {
	patience := min(r.JobsWithin, jobsSoon)
	if last {
		patience = r.JobsWithin
	}
	err := r.awaitJobs(ctx, w, patience, last)
	h.Ops = w.history()
	return errors.Join(err, r.stopProcesses())
}

// round lets sessions work while faults happen, and then looks whether all is there.
// The processes go on.
func (r *rig) round(ctx context.Context, number int) (*world, *History, error) {
	w, clients, err := r.begin(ctx, number)
	if err != nil {
		return nil, nil, err
	}
	h := &History{Monotonic: r.monotonic(number), Limits: limitOf}
	begun := w.now()
	h.Faults, err = r.work(ctx, w, number, clients)
	h.Worked = w.now() - begun
	if err != nil {
		return nil, nil, err
	}
	return w, h, r.settle(ctx, w, clients)
}

func (r *rig) monotonic(round int) bool { return r.Modes[round%len(r.Modes)] }

// begin starts the site, and makes the people of a round and their sessions.
func (r *rig) begin(ctx context.Context, number int) (*world, []*client, error) {
	if err := r.prepare(ctx); err != nil {
		return nil, nil, err
	}
	site, err := r.startProcesses(ctx, r.monotonic(number))
	if err != nil {
		return nil, nil, err
	}
	w := &world{site: site, begun: time.Now(), round: number + 1}
	for i := range people {
		p, err := w.signUp(w.number(i + 1))
		if err != nil {
			return nil, nil, err
		}
		w.people = append(w.people, p)
	}
	clients, err := w.newClients()
	return w, clients, err
}

// newClients makes the sessions of a round: for each person a browser and two
// programs, and some of nobody. What is limited by address counts for each by itself:
// they come from as many addresses.
func (w *world) newClients() ([]*client, error) {
	var clients []*client
	add := func(kind string, p *person) error {
		s := Session{ID: w.number(len(clients) + 1), Kind: kind, Marked: kind != unmarked && kind != attacker && kind != stranger}
		if p != nil {
			s.User = p.id
		}
		c := w.newClient(s, p)
		clients = append(clients, c)
		if kind != marked && kind != unmarked && kind != attacker {
			return nil
		}
		t, err := c.makeToken(p)
		if err != nil {
			return err
		}
		c.bearer, c.token = t.text, object("token", t.id)
		return nil
	}
	var errs []error
	for i, p := range w.people {
		kinds := []string{browser, marked, unmarked}
		if i == len(w.people)-1 {
			kinds = []string{attacker}
		}
		for _, kind := range kinds {
			errs = append(errs, add(kind, p))
		}
	}
	for _, kind := range []string{visitor, visitor, receiver, receiver, stranger, stranger} {
		errs = append(errs, add(kind, nil))
	}
	return clients, errors.Join(errs...)
}

// work returns the faults that happened.
func (r *rig) work(ctx context.Context, w *world, round int, clients []*client) ([]Fault, error) {
	ctx, stop := context.WithTimeout(ctx, r.Round)
	defer stop()
	var sessions sync.WaitGroup
	for _, c := range clients {
		p := newPlan(r.Seed, round, c.is.ID, c.is.Kind, len(w.people))
		sessions.Go(func() { c.run(p, ctx.Done()) })
	}
	var mu sync.Mutex
	var happened []Fault
	note := func(f Fault) {
		mu.Lock()
		defer mu.Unlock()
		happened = append(happened, f)
	}
	var faults errgroup.Group
	calmer, cancel := context.WithTimeout(ctx, max(r.Round-noKills, r.Round/2))
	defer cancel()
	for i, t := range r.targets(spared[round%len(spared)]) {
		ctx := ctx
		if _, kills := t.target.(*process); kills {
			ctx = calmer
		}
		s := newSchedule(r.Seed, round, i, t.deck, t.calm)
		faults.Go(func() error {
			err := disturb(ctx, w, s, t.target, note)
			if err != nil {
				stop()
			}
			return err
		})
	}
	err := faults.Wait()
	<-ctx.Done()
	sessions.Wait()
	return happened, err
}
