package lab_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/cache"
	"freshread/internal/lab"
	"freshread/internal/site"
	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
	"freshread/internal/web"
	"freshread/migrations"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

// newRunner runs experiments on the shared servers, which it pauses.
func newRunner(t *testing.T, engine string) *lab.Runner {
	t.Helper()
	return newRunnerOn(t, stacktest.Pair(t, engine))
}

func newRunnerOn(t *testing.T, servers *stack.Stack) *lab.Runner {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	cluster, err := lab.OpenCluster(servers, stacktest.Database(t, servers), log)
	stacktest.Must(t, err)
	t.Cleanup(func() { stacktest.Must(t, cluster.Close()) })
	_, err = migrations.Up(stacktest.Context(t), cluster, log)
	stacktest.Must(t, err)
	cacheCluster, err := cache.OpenCluster(cluster.Config(), cache.DefaultConns)
	stacktest.Must(t, err)
	t.Cleanup(func() { stacktest.Must(t, cacheCluster.Close()) })
	return &lab.Runner{
		Stack: servers, Cluster: cluster, Cache: cacheCluster, Log: log,
		QueueURL: stacktest.DatabaseURL(t, stacktest.Queue(t)),
	}
}

// lateBy is so long that a busy machine has read the page by then. MySQL and
// MariaDB may be a second later than they say.
func lateBy(engine string) time.Duration {
	if engine == "postgres" {
		return 2 * time.Second
	}
	return 4 * time.Second
}

// run runs an experiment on a replica that is paused, or late if it has to be.
func run(t *testing.T, runner *lab.Runner, e lab.Experiment) *lab.Result {
	t.Helper()
	if e.NeedsLag {
		late := *runner
		late.Lag = lateBy(string(runner.Cluster.Engine()))
		setDelay(t, runner.Stack, late.Lag)
		runner = &late
	}
	result, err := runner.Run(stacktest.Context(t), e)
	stacktest.Must(t, err)
	return result
}

func transcript(t *testing.T, result *lab.Result) string {
	t.Helper()
	var text strings.Builder
	stacktest.Must(t, result.Print(&text))
	return text.String()
}

func wantOK(t *testing.T, result *lab.Result) {
	t.Helper()
	if !result.OK() {
		t.Errorf("not as expected:\n%s", transcript(t, result))
	}
}

func TestEveryExperimentShowsItsBugAndItsCure(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		runner := newRunner(t, engine)
		documented := transcriptsInDocs(t)
		for _, e := range lab.Experiments() {
			t.Run(e.Name, func(t *testing.T) {
				result := run(t, runner, e)
				wantOK(t, result)
				if engine == "postgres" { // docs show what it shows there
					wantDocumented(t, e.Name, transcript(t, result), documented)
				}
				if result.NotRun != e.NotOn(runner.Cluster.Engine()) || result.NotRun == "" && (shown(result.Broken) == 0 || shown(result.Fixed) == 0) {
					t.Errorf("it shows too little:\n%s", transcript(t, result))
				}
			})
		}
	})
}

// The replica of the demo is late and not paused, and nobody holds it for the
// experiment.
func TestExperimentOnALateReplica(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		runner := newRunner(t, engine)
		runner.Lag = lateBy(engine)
		setDelay(t, runner.Stack, runner.Lag)
		for _, name := range []string{"no-routing", "poisoned-cache"} {
			wantOK(t, run(t, runner, experiment(t, name)))
		}
	})
}

// All get through a limit for as long as the replica shows none of them.
func TestLimitIsOutrunWhileTheReplicaIsLate(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		runner := newRunner(t, engine)
		through := func() (broken, fixed int) {
			result := run(t, runner, experiment(t, "outrun-limit"))
			wantOK(t, result)
			for i, o := range result.Fixed.Observations {
				if o.Value == "wrong password" {
					fixed++
				}
				if result.Broken.Observations[i].Value == "wrong password" {
					broken++
				}
			}
			return broken, fixed
		}
		if broken, fixed := through(); broken != 16 || fixed != 3 {
			t.Errorf("with a paused replica %d and %d of 16 get through, want 16 and 3", broken, fixed)
		}
		runner.Lag = lateBy(engine)
		setDelay(t, runner.Stack, runner.Lag)
		if broken, fixed := through(); broken <= 3 || broken == 16 || fixed != 3 {
			t.Errorf("with a late replica %d and %d of 16 get through, want more than 3, but not all, and 3", broken, fixed)
		}
	})
}

func shown(side lab.SideResult) int { return len(side.Observations) }

func setDelay(t *testing.T, servers *stack.Stack, delay time.Duration) {
	t.Helper()
	for _, replica := range servers.Replicas() {
		stacktest.Must(t, replica.SetDelay(stacktest.Context(t), delay))
		t.Cleanup(func() { stacktest.Must(t, replica.SetDelay(context.Background(), 0)) })
	}
}

func experiment(t *testing.T, name string) lab.Experiment {
	t.Helper()
	for _, e := range lab.Experiments() {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("no experiment %s", name)
	return lab.Experiment{}
}

// A lab that called everything a success would prove nothing.
func TestCheckerNoticesWhatDoesNotShow(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		one, two := newRunner(t, engine), newRunnerOn(t, stacktest.Start(t, engine, 2))
		for _, e := range lab.Experiments() {
			runner := one
			if e.Needs.Replicas == 2 {
				runner = two
			}
			if e.NotOn(runner.Cluster.Engine()) != "" {
				continue
			}
			t.Run(e.Name, func(t *testing.T) {
				e.Broken, e.Fixed = e.Fixed, e.Broken
				wantProblems(t, run(t, runner, e), true, true)
			})
		}
		for side, change := range map[string]func(*lab.Experiment){
			"bug":  func(e *lab.Experiment) { e.Broken = e.Fixed },
			"cure": func(e *lab.Experiment) { e.Fixed = e.Broken },
		} {
			t.Run("the "+side+" alone", func(t *testing.T) {
				e := experiment(t, "no-routing")
				change(&e)
				wantProblems(t, run(t, one, e), side == "bug", side == "cure")
			})
		}
	})
}

// wantProblems fails the test unless the result has problems on just these sides.
func wantProblems(t *testing.T, result *lab.Result, broken, fixed bool) {
	t.Helper()
	has := func(side lab.SideResult) bool {
		for _, o := range side.Observations {
			if o.Problem != "" {
				return true
			}
		}
		return false
	}
	if result.OK() || has(result.Broken) != broken || has(result.Fixed) != fixed {
		t.Errorf("OK is %v, want problems on the broken side: %v, on the fixed side: %v\n%s",
			result.OK(), broken, fixed, transcript(t, result))
	}
	if !strings.Contains(transcript(t, result), "NOT AS EXPECTED") {
		t.Errorf("the transcript does not say what is wrong:\n%s", transcript(t, result))
	}
}

// An experiment holds the replica. Whoever comes next needs one that applies.
func TestInterruptedRunLeavesReplicasThatApply(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		runner := newRunner(t, engine)
		for name, steps := range map[string][]lab.Step{
			"while it waits":                {{Do: lab.Save}, {Do: lab.Visit}, {Do: lab.AwaitLongWindow}},
			"while it releases the replica": {{Do: lab.Save}, {Do: lab.Visit}, {Do: lab.AwaitApplied}},
		} {
			t.Run(name, func(t *testing.T) {
				ctx, interrupt := context.WithCancel(stacktest.Context(t))
				e := experiment(t, "no-routing")
				e.Steps = steps
				e.Fixed.Setup = func(cfg *site.Config, _ lab.Times) {
					cfg.AfterLoad = []web.Middleware{afterVisit(interrupt)}
				}
				if _, err := runner.Run(ctx, e); err == nil {
					t.Fatal("the run was not interrupted")
				}
				stacktest.Applied(t, runner.Stack)
			})
		}
	})
}

// afterVisit calls f as soon as a request is answered.
func afterVisit(f func()) web.Middleware {
	return web.Middleware{Name: "afterVisit", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			context.AfterFunc(c.Request().Context(), f)
			return next(c)
		}
	}}
}
