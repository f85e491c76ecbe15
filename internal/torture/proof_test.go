package torture

import (
	"context"
	"database/sql"
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"freshread/internal/auth"
	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/stack/stacktest"
	"freshread/internal/tokens"
	"freshread/internal/web"
)

// variantVariable makes the test binary a process of the site that is broken in one way.
const variantVariable = "TORTURE_VARIANT"

func TestMain(m *testing.M) {
	if name := os.Getenv(variantVariable); name != "" {
		if err := serveVariant(name); err != nil {
			slog.Error("serve", "error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(stacktest.Main(m))
}

// variant is a site on which something is switched off.
type variant struct {
	rule      Rule // that the checker must find broken
	monotonic bool // what the site is held to
	calm      time.Duration
	jobs      bool // are looked for
	round     time.Duration
	config    func(*site.Config)
	handler   func(http.Handler) http.Handler
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
	"strong is taken for the default": {rule: Strong, round: 6 * time.Second, handler: without("Read-Consistency")},
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
	"a log-in or a token is ended later": {rule: Credentials, round: 8 * time.Second, handler: func(next http.Handler) http.Handler {
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
	"a token is looked up on the replica alone": {rule: Credentials, config: func(cfg *site.Config) {
		cfg.Router = replicaTokens{cfg.Cluster, time.Now().Add(5 * time.Second)} // when the sessions have theirs
	}, round: 10 * time.Second},
	"each read chooses its server": {rule: OneState, config: func(cfg *site.Config) {
		cfg.Router = scattered{cfg.Cluster}
	}},
	"the cache is filled from a replica": {rule: ReadYourWrites, config: func(cfg *site.Config) {
		cfg.Refill = anyReplica{cfg.Cluster}
	}},
	"monotonic reads are off": {rule: Monotonic, monotonic: true, calm: time.Second, round: 10 * time.Second},
	"the limit is counted on the replica": {rule: Limited, config: func(cfg *site.Config) {
		cfg.Limiter = func(l *cache.Limiter) web.Limiter { return onReplica{l, cfg.Cluster} }
	}},
	"everything reads the primary": {rule: BackOnReplicas, config: func(cfg *site.Config) {
		cfg.Router = pinned{cfg.Cluster}
	}},
	"no job is worked": {rule: NothingLost, jobs: true},
	"nothing":          {calm: time.Second},
	"a failed replica fails the page": {rule: Answered, calm: 500 * time.Millisecond, round: 10 * time.Second, config: func(cfg *site.Config) {
		cfg.Router = proud{cfg.Cluster}
	}},
}

// without takes a header out of requests.
func without(header string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del(header)
			next.ServeHTTP(w, r)
		})
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// forgetful does as if nobody had written.
type forgetful struct{ *dbroute.Cluster }

func (f *forgetful) Write(ctx context.Context, name string, fn func(context.Context, *dbroute.Tx) error) error {
	user := auth.Current(ctx).ID
	if err := f.Cluster.Write(ctx, name, fn); err != nil || dbroute.InTx(ctx) || user == 0 {
		return err
	}
	return f.Touch(context.WithoutCancel(ctx), "forget", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE users SET writes = 0, covered = 0 WHERE id = ?`, user)
		return err
	})
}

type replicaTokens struct {
	*dbroute.Cluster
	from time.Time
}

func (r replicaTokens) Read(ctx context.Context, name string, fn func(dbroute.Querier) error) error {
	if name == tokens.WithOwner && time.Now().After(r.from) {
		return sql.ErrNoRows
	}
	return r.Cluster.Read(ctx, name, fn)
}

// scattered reads posts on the primary, and what belongs to them where the page reads.
type scattered struct{ *dbroute.Cluster }

func (s scattered) Read(ctx context.Context, name string, fn func(dbroute.Querier) error) error {
	if name == "posts.ByID" {
		ctx = dbroute.UsePrimary(ctx)
	}
	return s.Cluster.Read(ctx, name, fn)
}

// anyReplica reads a replica, also for who asks for the primary.
type anyReplica struct{ *dbroute.Cluster }

func (r anyReplica) Read(_ context.Context, name string, fn func(dbroute.Querier) error) error {
	ctx, scope := r.NewScope(context.Background())
	scope.RouteAnywhere(dbroute.Marker{})
	return r.Cluster.Read(ctx, name, fn)
}

type pinned struct{ *dbroute.Cluster }

func (p pinned) Read(ctx context.Context, name string, fn func(dbroute.Querier) error) error {
	return p.Cluster.Read(dbroute.UsePrimary(ctx), name, fn)
}

// proud fails where a read would run again on the primary.
type proud struct{ *dbroute.Cluster }

func (p proud) Read(ctx context.Context, name string, fn func(dbroute.Querier) error) error {
	err := p.Cluster.Read(ctx, name, fn)
	if scope := p.Scope(ctx); err == nil && scope != nil {
		if all := scope.Accesses(); len(all) > 0 && all[len(all)-1].Reason == dbroute.ReplicaFailed {
			return dbroute.ErrPrimaryUnavailable
		}
	}
	return err
}

// onReplica counts a user's comments on a replica, and lets others write.
type onReplica struct {
	*cache.Limiter
	cluster *dbroute.Cluster
}

func (l onReplica) Hit(ctx context.Context, subject string) error {
	if l.Name() != "writes" {
		return nil
	}
	var made int
	err := anyReplica{l.cluster}.Read(ctx, "limit", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, `SELECT count(*) FROM comments WHERE author_id = CAST(? AS bigint) AND created_at > ?`,
			subject, time.Now().Add(-writeLimit.Per)).Scan(&made)
	})
	if err == nil && made >= writeLimit.Hits {
		return &cache.LimitedError{Limit: l.Name(), After: time.Second}
	}
	return err
}

// serveVariant serves the site as app serve does, and works no jobs.
func serveVariant(name string) error {
	v := variants[name]
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg := dbroute.Config{
		Name: "main", Primary: os.Getenv("DATABASE_PRIMARY_URL"),
		Replicas: strings.Split(os.Getenv("DATABASE_REPLICA_URLS"), ","), Logger: log,
	}
	cluster, err := dbroute.Open(cfg)
	if err != nil {
		return err
	}
	beside, err := cache.OpenCluster(cfg, cache.DefaultConns)
	if err != nil {
		return err
	}
	key, err := hex.DecodeString(os.Getenv("SESSION_KEYS"))
	if err != nil {
		return err
	}
	config := site.Config{
		Cluster: cluster, Cache: beside, Log: log, SessionKeys: [][]byte{key}, ShowReads: true,
		PasswordCost: auth.Cost{Memory: 8, Time: 1, Threads: 1},
		Limits:       site.SameLimits(cache.Limit{Hits: 1000, Per: time.Second}),
	}
	config.Limits.WritesByUser = writeLimit
	if v.config != nil {
		v.config(&config)
	}
	handler, err := site.New(config)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := cluster.Check(ctx); err != nil {
		return err
	}
	go cluster.Watch(ctx)
	go beside.Watch(ctx)
	var serving http.Handler = handler
	if v.handler != nil {
		serving = v.handler(serving)
	}
	return http.ListenAndServe(os.Getenv("ADDR"), serving)
}

// mostRounds is how often a busy machine may try.
const mostRounds = 20

// Each promise that is broken on purpose is found.
func TestTheCheckerFindsWhatIsBroken(t *testing.T) {
	stacktest.Only(t, "postgres")
	program, err := os.Executable()
	stacktest.Must(t, err)
	o := Options{
		Engine: "postgres", Seed: 1, Replicas: 2, Processes: 2,
		Delays: []time.Duration{500 * time.Millisecond, time.Second}, BackWithin: 5 * time.Second, JobsWithin: -1,
	}
	o.setDefaults()
	r := &rig{Options: o}
	t.Cleanup(func() { stacktest.Must(t, r.close()) })
	stacktest.Must(t, r.start(t.Context()))
	round := 0
	for name, v := range variants {
		t.Run(name, func(t *testing.T) {
			r.Serve = func(env []string) *exec.Cmd {
				cmd := exec.Command(program)
				cmd.Env = append(slices.Clone(env), variantVariable+"="+name)
				return cmd
			}
			r.Modes, r.Calm, r.Round = []bool{v.monotonic}, v.calm, max(v.round, 2500*time.Millisecond)
			r.JobsWithin = -1
			if v.jobs {
				r.JobsWithin = time.Nanosecond
			}
			var found map[Rule]int
			for range mostRounds {
				round++
				w, h, err := r.round(t.Context(), round)
				stacktest.Must(t, err)
				stacktest.Must(t, r.finish(t.Context(), w, h, true))
				found = map[Rule]int{}
				for _, violation := range Check(h) {
					found[violation.Rule]++
				}
				t.Logf("%d operations, found %v", len(h.Ops), found)
				if v.rule == "" || found[v.rule] > 0 {
					break
				}
			}
			switch {
			case v.rule == "" && len(found) > 0:
				t.Error("something is found to be broken")
			case v.rule != "" && found[v.rule] == 0:
				t.Errorf("the rule %q is not found to be broken", v.rule)
			}
		})
	}
}
