package dbroute

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Config describes a cluster. Only Name and Primary are required.
type Config struct {
	// Name tells clusters of one program apart, in cookies and in logs:
	// lower-case letters, digits and hyphens.
	Name string
	// Engine is only needed for a MariaDB whose URLs begin with mysql://.
	Engine Engine
	// Primary and Replicas are URLs, each of exactly one server. A load
	// balancer in front of several would answer a question about one server
	// with another. Without replicas the cluster is primary-only.
	Primary  string
	Replicas []string
	// CheckTimeout bounds the question whether a replica has reached a commit,
	// connecting included. Past it the read goes to the primary. 250 ms if zero.
	CheckTimeout time.Duration
	// CommitTimeout bounds COMMIT, or ROLLBACK, and, separately, the capture of a commit
	// ID. Neither COMMIT nor the capture ends early when the client goes away. 5 s if zero.
	CommitTimeout time.Duration
	// HealthInterval is how often Watch looks at each server, 500 ms if zero;
	// HealthTimeout is when one that does not answer counts as down, 1 s if zero.
	HealthInterval, HealthTimeout time.Duration
	// Monotonic keeps what a page has read of others from being unread again on a
	// server that is behind: the scope's marker then covers it. It costs one question
	// for each read, but for those of a replica that is the only one, and keeps on the
	// primary a client that clicks faster than the replicas apply.
	Monotonic bool
	// MaxReplicaLag takes a replica out while it is further behind. 0 is no limit.
	MaxReplicaLag time.Duration
	// MaxOpenConns bounds each pool; a server has one pool for reads, the
	// primary another for writes. 20 if zero.
	MaxOpenConns int
	// NoCommitIDs says why the servers have none, in the words of Check. If it is
	// not empty, RouteByCommit sends whoever has written to the primary for good,
	// and RouteByWindow is what to use; lag is not known, and so not limited.
	NoCommitIDs string
	// WrapConnector, if not nil, is put around what connects each pool, for tracing
	// or counting; address is the server's host and port. Its connections must
	// implement what the driver's own do. They are made and used while a scope decides,
	// with the same limit as Logger has.
	WrapConnector func(role Role, address string, inner driver.Connector) driver.Connector
	// Logger gets what a request cannot report by itself. slog.Default() if nil. It is
	// called while a scope decides: of the scope in its context a handler may ask for
	// nothing but Accesses.
	Logger *slog.Logger
}

// Cluster is one primary and its replicas. It is safe for concurrent use.
type Cluster struct {
	cfg      Config
	engine   engine
	log      *slog.Logger
	primary  *server
	borrows  bool // the primary's connections are another cluster's
	replicas []*server
	spread   roundRobin
	history  history
	pings    singleflight.Group
	counts   *counts
	rebinder rebinder
}

// Router is what a store needs of a Cluster.
type Router interface {
	Read(ctx context.Context, name string, fn func(Querier) error) error
	Write(ctx context.Context, name string, fn func(context.Context, *Tx) error) error
}

var clusterName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// Open prepares a cluster without connecting to it; Check connects. All URLs
// must be of one engine.
func Open(cfg Config) (*Cluster, error) {
	if !clusterName.MatchString(cfg.Name) {
		return nil, fmt.Errorf("dbroute: open: cluster name %q: want lower-case letters, digits and hyphens", cfg.Name)
	}
	engine, err := engineFor(cfg.Primary, cfg.Engine)
	if err != nil {
		return nil, fmt.Errorf("dbroute: open primary: %w", err)
	}
	if cfg.NoCommitIDs != "" {
		engine = withoutIDs{engine}
	}
	if cfg.CheckTimeout == 0 {
		cfg.CheckTimeout = 250 * time.Millisecond
	}
	if cfg.CommitTimeout == 0 {
		cfg.CommitTimeout = 5 * time.Second
	}
	if cfg.HealthInterval == 0 {
		cfg.HealthInterval = 500 * time.Millisecond
	}
	if cfg.HealthTimeout == 0 {
		cfg.HealthTimeout = time.Second
	}
	if cfg.MaxOpenConns == 0 {
		cfg.MaxOpenConns = 20
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	c := &Cluster{cfg: cfg, engine: engine, counts: newCounts(), log: cfg.Logger.With("cluster", cfg.Name)}
	c.rebinder.rewrite = engine.rebind
	if c.primary, err = c.openServer(cfg.Primary, Primary, 1); err != nil {
		return nil, fmt.Errorf("dbroute: open primary: %w", err)
	}
	for i, url := range cfg.Replicas {
		replica, err := c.openServer(url, Replica, i+2)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("dbroute: open replica %d: %w", i+1, err), c.Close())
		}
		c.replicas = append(c.replicas, replica)
	}
	return c, nil
}

// PrimaryOnly returns a cluster of another name that has the same primary and no
// replicas, for what must never be stale. Its scopes are its own, so what it
// writes moves none of c's reads. It uses c's connections and ends with c: a
// write on it inside a write on c takes a second connection of one pool, and
// enough of those at once wait for each other.
func (c *Cluster) PrimaryOnly(name string) *Cluster {
	only := &Cluster{cfg: c.cfg, engine: c.engine, counts: newCounts(), primary: c.primary, borrows: true}
	only.cfg.Name, only.cfg.Replicas = name, nil
	only.log = c.cfg.Logger.With("cluster", name)
	only.rebinder.rewrite = c.rebinder.rewrite
	return only
}

// Config returns what the cluster was opened with, its defaults filled in.
func (c *Cluster) Config() Config { return c.cfg }

// Replicas returns how many replicas are configured.
func (c *Cluster) Replicas() int { return len(c.replicas) }

// Name returns the configured name.
func (c *Cluster) Name() string { return c.cfg.Name }

// Close closes all connections. A primary-only cluster made from another has
// none of its own.
func (c *Cluster) Close() error {
	if c.borrows {
		return nil
	}
	var errs []error
	for _, s := range c.servers() {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

func (c *Cluster) servers() []*server {
	return append([]*server{c.primary}, c.replicas...)
}

// Check connects to every server. It fails if the primary cannot be reached,
// and with a CapabilityError if a server it reached is not
// configured for commit IDs. A replica that cannot be reached is only logged:
// it may come up later.
func (c *Cluster) Check(ctx context.Context) error {
	var missing []string
	for _, s := range c.servers() {
		lacks, err := c.checkServer(ctx, s)
		switch {
		case err != nil && (s.role == Primary || errors.Is(err, errWrongRole)):
			return fmt.Errorf("dbroute: check %s: %w", s.name(), err)
		case err != nil:
			c.log.WarnContext(ctx, "replica cannot be reached", "server", s.name(), "error", err)
		}
		for _, what := range lacks {
			missing = append(missing, s.name()+": "+what)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("dbroute: check: %w", &CapabilityError{Missing: missing})
	}
	return nil
}

func (c *Cluster) checkServer(ctx context.Context, s *server) ([]string, error) {
	conn, _, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return c.engine.missing(ctx, conn, s.role)
}

// PrimaryDB returns the pool that writes to the primary, for what cannot run
// through Write: migrations and libraries that manage their own connections.
// What is written through it leaves no marker. It waits for locks no longer than
// Write does, so a migration may have to set another limit.
func (c *Cluster) PrimaryDB() *sql.DB { return c.primary.writes }

// PingResult is one server's answer to a ping.
type PingResult struct {
	ID   int
	Role Role
	Err  error // nil if the server answers
}

// fault classifies an error. A server in the wrong role is as good as absent, and so is
// one to which no connection can be made, whatever the driver calls it: a deadline that
// has passed may be the driver's own.
func (c *Cluster) fault(err error) fault {
	if errors.Is(err, errWrongRole) || errors.Is(err, errReplaced) || errors.Is(err, errConnect) {
		return faultConnection
	}
	return c.engine.fault(err)
}

// Ping asks every server for a sign of life, the primary first. It takes the
// health timeout at most. Those who ask at once share one answer: were each to
// ask, Watch would wait among them for the connection that both use, and take
// servers out that answer.
func (c *Cluster) Ping(ctx context.Context) []PingResult {
	ctx = context.WithoutCancel(ctx) // others wait for what the first has asked
	results, _, _ := c.pings.Do("", func() (any, error) { return c.pingAll(ctx), nil })
	return slices.Clone(results.([]PingResult))
}

func (c *Cluster) pingAll(ctx context.Context) []PingResult {
	servers := c.servers()
	results := make([]PingResult, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { results[i] = c.pingServer(ctx, s) })
	}
	wg.Wait()
	return results
}
