package torture

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"freshread/internal/site"
	"freshread/internal/stack/stacktest"
)

// variant is a site on which something is switched off.
type variant struct {
	rule      Rule          // that the checker must find broken; empty if all is whole
	monotonic bool          // what the site is held to
	forgets   bool          // but it has READ_MONOTONIC=off
	late      bool          // it is whole until the sessions begin, who could not sign up else
	calm      time.Duration // of Options
	jobs      bool          // are worked, and looked for
	round     time.Duration
	script    script // instead of what is random

	config  func(*site.Config)
	handler func(http.Handler) http.Handler
	off     []string // of fixes
}

var variants = map[string]variant{
	"no routing": {rule: ReadYourWrites, config: func(cfg *site.Config) { cfg.Strategy = site.None }},
	"a window shorter than the lag": {rule: ReadYourWrites, config: func(cfg *site.Config) {
		cfg.Strategy, cfg.Window = site.Window, 100*time.Millisecond
	}},
	"the guard does not tell commit IDs": {rule: ReadYourWrites, config: func(cfg *site.Config) {
		cfg.Router = &forgetful{cfg.Cluster}
	}},
	"Commit-Id is ignored":            {rule: ReadYourWrites, handler: without("Commit-Id")},
	"strong is taken for the default": {rule: Strong, handler: without("Read-Consistency")},
	"Idempotency-Key is ignored": {rule: OnceOnly, handler: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key := r.Header.Get("Idempotency-Key")
			without("Idempotency-Key")(next).ServeHTTP(w, r)
			if key != "" && rand.N(4) == 0 {
				panic(http.ErrAbortHandler) // the answer is lost
			}
		})
	}},
	"a write is acknowledged and not done": {rule: NothingLost, handler: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.Path == "/profile" {
				w.Header().Set("Location", "/profile")
				w.WriteHeader(http.StatusSeeOther)
				return
			}
			next.ServeHTTP(w, r)
		})
	}},
	"a log-in or a token is ended later": {rule: Credentials, round: 4 * time.Second, handler: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/logout" && (r.Method != http.MethodDelete || !strings.HasPrefix(r.URL.Path, "/api/tokens/")) {
				next.ServeHTTP(w, r)
				return
			}
			later := r.Clone(context.WithoutCancel(r.Context()))
			time.AfterFunc(time.Second, func() { next.ServeHTTP(discard{http.Header{}}, later) })
			w.Header().Set("Location", "/")
			w.WriteHeader(http.StatusSeeOther)
		})
	}},
	"a token is looked up on the replica alone": {rule: Credentials, late: true, config: func(cfg *site.Config) {
		cfg.Router = replicaTokens{cfg.Cluster}
	}},
	"each read chooses its server": {rule: OneState, config: func(cfg *site.Config) {
		cfg.Router = scattered{cfg.Cluster}
	}},
	"the cache is filled from a replica": {rule: ReadYourWrites, config: func(cfg *site.Config) {
		cfg.Refill = anyReplica{cfg.Cluster}
	}},
	"monotonic reads are off": {rule: Monotonic, monotonic: true, forgets: true, script: killReplicas},

	"writes are counted on the replica":              {rule: Limited, script: attack(burst), config: limitedByReplica("writes")},
	"log-ins by address are counted on the replica":  {rule: Limited, script: attack(spray), config: limitedByReplica("log-in-address")},
	"log-ins to accounts are counted on the replica": {rule: Limited, script: attack(guess), config: limitedByReplica("log-in-account")},
	"sign-ups are counted on the replica":            {rule: Limited, script: attack(signUpOften), config: limitedByReplica("sign-up")},
	"tokens are counted on the replica":              {rule: Limited, script: attack(makeTokens), config: limitedByReplica("tokens")},

	"what was saved is refused":                 {rule: NeverSaved, handler: refusesWhatItSaves},
	"a page takes too long":                     {rule: Bounded, script: visit, handler: slowOnce},
	"a commit ID is captured before COMMIT":     {rule: ReadYourWrites, script: editBehindALock, off: []string{"a commit ID is captured after COMMIT"}},
	"all markers share a cookie":                {rule: ReadYourWrites, script: tabs, off: []string{"each marker has a cookie of its own"}},
	"no marker comes back":                      {rule: ReadYourWrites, script: tabs, handler: withoutMarkers},
	"the guard reads a replica":                 {rule: Credentials, late: true, off: []string{"the guard reads the primary"}},
	"a replica that came back is read at once":  {rule: Monotonic, monotonic: true, script: olderCopy, off: []string{"a replica that came back has to catch up"}},
	"a replica that came back is believed":      {rule: ReadYourWrites, script: olderCopy, off: []string{"a replica that came back has to catch up", "what a replica had is forgotten when it comes back"}},
	"jobs are in memory until they are relayed": {rule: NothingLost, jobs: true, script: queueDown, off: []string{"a job is written in the transaction"}},
	"jobs are relayed once":                     {rule: NothingLost, jobs: true, script: queueDown, off: []string{"a job stays in the outbox until the queue has it"}},
	"everything reads the primary": {rule: BackOnReplicas, config: func(cfg *site.Config) {
		cfg.Router = pinned{cfg.Cluster}
	}},

	lostTimeline: {rule: ReadYourWrites, off: []string{"commit IDs of another timeline are not reached"}},

	"nothing": {calm: time.Second, jobs: true},
	"nothing, in scripts": {jobs: true, script: all(
		attack(burst), attack(spray), attack(guess), attack(signUpOften), attack(makeTokens),
		visit, editBehindALock, tabs, olderCopy, queueDown,
	)},
	"nothing, with monotonic reads": {monotonic: true, script: all(killReplicas, olderCopy)},
	"a failed replica fails the page": {rule: Answered, script: killReplicas, config: func(cfg *site.Config) {
		cfg.Router = proud{cfg.Cluster}
	}},
}

// lostTimeline takes part in no round, since a failover is for good.
const lostTimeline = "the timeline of a commit ID does not count"

// mostRounds is how often a busy machine may try.
const mostRounds = 20

// proof is the servers on which variants of the site are tried.
type proof struct {
	*rig
	program string
	broken  string // the file that brokenVariable names
	rounds  int
}

func newProof(t *testing.T) *proof {
	t.Helper()
	o := Options{
		Engine: "postgres", Seed: 1, Replicas: 2, Processes: 2, OwnQueue: true,
		Delays: []time.Duration{500 * time.Millisecond, time.Second}, BackWithin: 4 * time.Second,
	}
	o.setDefaults()
	p := &proof{rig: &rig{Options: o}, program: buildPatched(t), broken: filepath.Join(t.TempDir(), "broken")}
	t.Cleanup(func() { stacktest.Must(t, p.close()) })
	stacktest.Must(t, p.start(t.Context()))
	return p
}

// serves makes a variant what the next processes are.
func (p *proof) serves(name string) {
	off := strings.Join(variants[name].off, ";")
	p.Serve = func(env []string) *exec.Cmd {
		cmd := exec.Command(p.program)
		cmd.Env = append(slices.Clone(env), variantVariable+"="+name, offVariable+"="+off, brokenVariable+"="+p.broken)
		return cmd
	}
}

func (p *proof) breaks(t *testing.T) { stacktest.Must(t, os.WriteFile(p.broken, nil, 0o600)) }

// plays lets sessions work on a variant, and returns what they have seen.
func (p *proof) plays(t *testing.T, name string) *History {
	t.Helper()
	v, ctx := variants[name], t.Context()
	p.serves(name)
	p.Modes, p.Calm, p.Round, p.JobsWithin = []bool{v.monotonic}, v.calm, max(v.round, 1500*time.Millisecond), -1
	switch {
	case v.jobs && v.rule == "":
		p.JobsWithin = time.Minute
	case v.jobs:
		p.JobsWithin = 6 * time.Second
	}
	if !v.late {
		p.breaks(t)
	}
	p.rounds++
	w, clients, err := p.begin(ctx, p.rounds)
	stacktest.Must(t, err)
	if v.late {
		p.breaks(t)
	}
	h := &History{Monotonic: v.monotonic, Limits: limitOf}
	if v.script != nil {
		err = v.script(ctx, p.rig, w, clients)
	} else {
		h.Faults, err = p.work(ctx, w, p.rounds, clients)
		if err == nil && (v.rule == "" || v.rule == NothingLost || v.rule == BackOnReplicas) {
			err = p.settle(ctx, w, clients)
		}
	}
	stacktest.Must(t, err)
	stacktest.Must(t, p.finish(ctx, w, h, true))
	stacktest.Must(t, os.Remove(p.broken))
	p.waiting = nil
	return h
}

// Each promise that is broken on purpose is found.
func TestTheCheckerFindsWhatIsBroken(t *testing.T) {
	stacktest.Only(t, "postgres")
	p := newProof(t)
	for name, v := range variants {
		if name == lostTimeline {
			continue
		}
		t.Run(name, func(t *testing.T) {
			found := find(t, p.plays(t, name))
			for range mostRounds {
				if v.rule == "" || found[v.rule] > 0 {
					break
				}
				found = find(t, p.plays(t, name))
			}
			v.wants(t, found)
		})
	}
	t.Run(lostTimeline, func(t *testing.T) {
		whole, broken := p.failsOver(t)
		variants["nothing"].wants(t, find(t, whole))
		variants[lostTimeline].wants(t, find(t, broken))
	})
}

func find(t *testing.T, h *History) map[Rule]int {
	t.Helper()
	found := map[Rule]int{}
	for _, violation := range Check(h) {
		found[violation.Rule]++
	}
	t.Logf("%d operations, found %v", len(h.Ops), found)
	return found
}

func (v variant) wants(t *testing.T, found map[Rule]int) {
	t.Helper()
	switch {
	case v.rule == "" && len(found) > 0:
		t.Error("something is found to be broken")
	case v.rule != "" && found[v.rule] == 0:
		t.Errorf("the rule %q is not found to be broken", v.rule)
	}
}
