// Package stacktest gives tests real database servers.
//
// Each runs a test on every engine that is installed. If TEST_ENGINES names
// engines, it runs on these and fails if one is not installed: `make test` sets it.
package stacktest

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack"
)

// engines are all that every behaviour is tested on.
var engines = []string{"postgres", "mysql", "mariadb"}

// patience bounds every wait of a test for a server.
const patience = 30 * time.Second

// shared are the servers that the tests of one package use in turn.
var shared struct {
	sync.Mutex
	stacks map[string]*sharedStack
}

type sharedStack struct {
	once  sync.Once
	stack *stack.Stack
	err   error
}

// Main is for TestMain: it runs the tests, stops the servers that they shared,
// and returns the exit status. more are engines that this package is tested on
// besides all others.
func Main(m *testing.M, more ...string) int {
	engines = append(engines, more...)
	for _, engine := range strings.Fields(os.Getenv("TEST_ENGINES")) {
		if err := stack.Installed(context.Background(), engine); err != nil {
			fmt.Fprintln(os.Stderr, "TEST_ENGINES:", err)
			return 1
		}
	}
	if !wanted("postgres") || !named() && stack.Installed(context.Background(), "postgres") != nil {
		flag.Set("test.skip", "^Example") // they have no way to skip themselves
	}
	status := m.Run()
	for _, s := range shared.stacks {
		if s.stack == nil {
			continue
		}
		if err := s.stack.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the servers:", err)
			status = 1
		}
	}
	return status
}

// Each runs a test on every engine, at once as far as the machine allows: the
// servers of one have nothing to do with those of another.
func Each(t *testing.T, test func(t *testing.T, engine string)) {
	t.Helper()
	for _, engine := range Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			requireInstalled(t, engine)
			test(t, engine)
		})
	}
}

// Engines returns those that Each runs a test on.
func Engines() []string {
	return slices.DeleteFunc(slices.Clone(engines), func(engine string) bool { return !wanted(engine) })
}

// Only is for what one engine alone has: it skips the test where that engine is
// not to be tested.
func Only(tb testing.TB, engine string) {
	tb.Helper()
	if !wanted(engine) {
		tb.Skipf("TEST_ENGINES does not name %s", engine)
	}
	requireInstalled(tb, engine)
}

func requireInstalled(tb testing.TB, engine string) {
	tb.Helper()
	err := stack.Installed(context.Background(), engine)
	var missing *stack.MissingError
	if errors.As(err, &missing) && !named() {
		tb.Skip(err)
	}
	Must(tb, err)
}

func named() bool { return os.Getenv("TEST_ENGINES") != "" }

func wanted(engine string) bool {
	return !named() || slices.Contains(strings.Fields(os.Getenv("TEST_ENGINES")), engine)
}

// Pair returns a primary and a replica that applies at once. The tests of a
// package share them, one test at a time.
func Pair(tb testing.TB, engine string) *stack.Stack {
	tb.Helper()
	return share(tb, engine, engine, 1)
}

// Queue returns a PostgreSQL without replicas, for queues that are off the
// replicated database. The tests of a package share it, each on a database of its own.
func Queue(tb testing.TB) *stack.Stack {
	tb.Helper()
	requireInstalled(tb, "postgres")
	return share(tb, "queue", "postgres", 0)
}

func share(tb testing.TB, name, engine string, replicas int) *stack.Stack {
	tb.Helper()
	shared.Lock()
	if shared.stacks == nil {
		shared.stacks = map[string]*sharedStack{}
	}
	s := shared.stacks[name]
	if s == nil {
		s = &sharedStack{}
		shared.stacks[name] = s
	}
	shared.Unlock()
	s.once.Do(func() { s.stack, s.err = start(engine, replicas) })
	Must(tb, s.err)
	return s.stack
}

// Start returns servers of the test's own, for tests that kill or promote.
func Start(tb testing.TB, engine string, replicas int) *stack.Stack {
	tb.Helper()
	s, err := start(engine, replicas)
	Must(tb, err)
	tb.Cleanup(func() { Must(tb, s.Close()) })
	return s
}

func start(engine string, replicas int) (*stack.Stack, error) {
	return stack.Start(context.Background(), stack.Options{Engine: engine, Replicas: make([]time.Duration, replicas)})
}

var databases atomic.Int64

// Database creates an empty database of the test's own, on all servers.
func Database(tb testing.TB, s *stack.Stack) string {
	tb.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	Must(tb, s.CreateDatabase(Context(tb), name))
	tb.Cleanup(func() { Must(tb, s.DropDatabase(context.Background(), name)) })
	Applied(tb, s)
	return name
}

// DatabaseURL is of such a database on the primary.
func DatabaseURL(tb testing.TB, s *stack.Stack) string {
	tb.Helper()
	return s.Primary().URL(Database(tb, s))
}

// Pause stops all replicas from applying, until the test resumes them or ends.
func Pause(tb testing.TB, s *stack.Stack) (resume func()) {
	tb.Helper()
	replicas := s.Replicas()
	for _, r := range replicas {
		Must(tb, r.PauseApply(Context(tb)))
	}
	tb.Cleanup(func() {
		for _, r := range replicas {
			r.ResumeApply(context.Background()) // the test may have stopped it
		}
	})
	return func() {
		tb.Helper()
		for _, r := range replicas {
			Must(tb, r.ResumeApply(Context(tb)))
		}
	}
}

// Applied returns once all replicas have applied what is committed now.
func Applied(tb testing.TB, s *stack.Stack) {
	tb.Helper()
	Must(tb, s.WaitApplied(Context(tb)))
}

// Admin returns a pool of a superuser of the primary.
func Admin(tb testing.TB, s *stack.Stack, database string) *sql.DB {
	tb.Helper()
	return admin(tb, s, database).PrimaryDB()
}

func admin(tb testing.TB, s *stack.Stack, database string) *dbroute.Cluster {
	tb.Helper()
	cluster, err := dbroute.Open(dbroute.Config{Name: "admin", Primary: s.Primary().AdminURL(database), Logger: slog.New(slog.DiscardHandler)})
	Must(tb, err)
	tb.Cleanup(func() { Must(tb, cluster.Close()) })
	return cluster
}

// LockAwaited returns once somebody waits for a lock of somebody else's on the
// primary.
func LockAwaited(tb testing.TB, s *stack.Stack) { tb.Helper(); LocksAwaited(tb, s, 1) }

// LocksAwaited is LockAwaited for as many who wait.
func LocksAwaited(tb testing.TB, s *stack.Stack, n int) {
	tb.Helper()
	admin, ctx := admin(tb, s, ""), Context(tb)
	// InnoDB answers anew only if it was not asked for 100 ms.
	query, pause := `SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'`, 110*time.Millisecond
	if admin.Engine() == dbroute.PostgreSQL {
		query, pause = `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`, 5*time.Millisecond
	}
	for waiting := 0; waiting < n; time.Sleep(pause) {
		Must(tb, admin.PrimaryDB().QueryRowContext(ctx, query).Scan(&waiting))
	}
}

// Context returns a context that ends before a hanging test would.
func Context(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// Must fails the test at once if err is not nil.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
