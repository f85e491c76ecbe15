package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/jobs"
	"freshread/internal/site"
	"freshread/internal/status"
	"freshread/migrations"
)

// How long the site waits for slow clients, and for requests under way when it
// stops.
const (
	readTimeout  = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	stopDeadline = 10 * time.Second
)

func serve(ctx context.Context, args []string, std streams) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	works := flags.Bool("workers", true, "work the jobs in this process too, besides app worker")
	if err := noArguments(flags, args, std); err != nil {
		return err
	}
	cfg, err := loadServeConfig()
	if err != nil {
		return err
	}
	log := cfg.logger(std.err)
	parts, err := openChecked(ctx, cfg, log, *works)
	if err != nil {
		return err
	}
	defer parts.close()
	if err := parts.checkSchema(ctx, cfg, log); err != nil {
		return err
	}
	site, err := cfg.newSite(parts.cluster, parts.cache, parts.queue, log, ctx.Done())
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return fmt.Errorf("ADDR: %w", err)
	}
	log.Info("serving", "addr", listener.Addr().String(), "strategy", cfg.Strategy, "workers", *works)
	return runInOrder(ctx,
		func(ctx context.Context) error { return serveOn(ctx, listener, site, log) },
		func(ctx context.Context) error { return serveMetrics(ctx, cfg.MetricsAddr, parts, log) },
		parts.queue.Run,
		parts.cleanUp(log),
		parts.watch,
	)
}

// worker works jobs and serves no pages.
func worker(ctx context.Context, args []string, std streams) error {
	if err := noArguments(flag.NewFlagSet("worker", flag.ContinueOnError), args, std); err != nil {
		return err
	}
	cfg, err := loadConfig()
	if err != nil {
		return err
	}
	log := cfg.logger(std.err)
	parts, err := openChecked(ctx, cfg, log, true)
	if err != nil {
		return err
	}
	defer parts.close()
	if err := parts.checkSchema(ctx, cfg, log); err != nil {
		return err
	}
	log.Info("working", "jobs at once", cfg.JobWorkers)
	return runInOrder(ctx,
		func(ctx context.Context) error { return serveMetrics(ctx, cfg.MetricsAddr, parts, log) },
		parts.queue.Run,
		parts.watch,
	)
}

// parts is what serve and worker have in common.
type parts struct {
	cluster, cache *dbroute.Cluster
	queue          *jobs.Queue
}

// openParts opens them without connecting; see dbroute.Config on noCommitIDs.
func openParts(cfg *config, log *slog.Logger, works bool, noCommitIDs string) (*parts, error) {
	cluster, err := cfg.openCluster(log, noCommitIDs)
	if err != nil {
		return nil, err
	}
	cacheCluster, err := cache.OpenCluster(cluster.Config(), cfg.CacheConns)
	if err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	queue, err := cfg.openQueue(cluster, log, works)
	if err != nil {
		return nil, errors.Join(err, cacheCluster.Close(), cluster.Close())
	}
	return &parts{cluster, cacheCluster, queue}, nil
}

// openChecked fails if the servers are not what the site needs.
func openChecked(ctx context.Context, cfg *config, log *slog.Logger, works bool) (*parts, error) {
	p, err := openParts(cfg, log, works, "")
	if err != nil {
		return nil, err
	}
	err = p.cluster.Check(ctx)
	var lacks *dbroute.CapabilityError
	if errors.As(err, &lacks) { // the window needs none of it
		p.close()
		return openParts(cfg, log, works, lacks.Error())
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// checkSchema fails if the schema is not up to date. A queue of its own may be down:
// jobs stay in the outbox.
func (p *parts) checkSchema(ctx context.Context, cfg *config, log *slog.Logger) error {
	pending, err := migrations.Pending(ctx, p.cluster, log)
	if err != nil {
		return err
	}
	if !pending {
		pending, err = p.queue.Pending(ctx) // false if it fails
		if err != nil && cfg.QueueURL == "" {
			return err
		}
		if err != nil {
			log.Warn("the queue cannot be reached", "error", err)
		}
	}
	if pending {
		return errors.New("the schema is not up to date: run app migrate first")
	}
	return nil
}

func (p *parts) clusters() []*dbroute.Cluster { return []*dbroute.Cluster{p.cluster, p.cache} }

func (p *parts) watch(ctx context.Context) error {
	var watches sync.WaitGroup
	for _, cluster := range p.clusters() {
		watches.Go(func() { cluster.Watch(ctx) })
	}
	watches.Wait()
	return nil
}

func (p *parts) cleanUp(log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		cache.CleanUp(ctx, p.cache, log)
		return nil
	}
}

func (p *parts) close() {
	p.queue.Close()
	p.cache.Close()
	p.cluster.Close()
}

// runInOrder runs parts of the program until ctx ends or one of them returns. Then it
// ends them one after the other, so that the later ones are there for the earlier
// ones until the end.
func runInOrder(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var ends []func() error
	for _, run := range parts {
		partCtx, end := context.WithCancel(context.WithoutCancel(ctx))
		ended := make(chan error, 1)
		go func() { ended <- run(partCtx); stop() }()
		ends = append(ends, func() error { end(); return <-ended })
	}
	<-ctx.Done()
	var errs []error
	for _, end := range ends {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// serveMetrics serves nothing if addr is empty.
func serveMetrics(ctx context.Context, addr string, p *parts, log *slog.Logger) error {
	if addr == "" {
		<-ctx.Done()
		return nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("METRICS_ADDR: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", status.Metrics(p.clusters(), p.queue.Collectors()...))
	return serveOn(ctx, listener, mux, log)
}

// serveOn serves until ctx is done, then lets requests under way finish.
func serveOn(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler: handler, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	stopCtx, cancel := context.WithTimeout(context.Background(), stopDeadline)
	defer cancel()
	if err := server.Shutdown(stopCtx); err != nil {
		return errors.Join(fmt.Errorf("stop: %w", err), server.Close())
	}
	return nil
}

func migrate(ctx context.Context, args []string, std streams) error {
	flags := flag.NewFlagSet("migrate", flag.ContinueOnError)
	seed := flags.Bool("seed", false, "then fill an empty database with people and posts; their password is published")
	if err := noArguments(flags, args, std); err != nil {
		return err
	}
	cfg, err := loadConfig()
	if err != nil {
		return err
	}
	log := cfg.logger(std.err)
	cfg.ReplicaURLs = nil // they get the schema from the primary, when they can
	parts, err := openChecked(ctx, cfg, log, false)
	if err != nil {
		return err
	}
	defer parts.close()
	applied, err := migrations.Up(ctx, parts.cluster, log)
	if err != nil {
		return err
	}
	forQueue, err := parts.queue.Migrate(ctx)
	if err != nil {
		return err
	}
	applied = append(applied, forQueue...)
	for _, name := range applied {
		fmt.Fprintln(std.out, "applied", name)
	}
	if len(applied) == 0 {
		fmt.Fprintln(std.out, "nothing to do")
	}
	if *seed {
		return site.Seed(ctx, parts.cluster)
	}
	return nil
}

func healthcheck(ctx context.Context, args []string, std streams) error {
	flags := flag.NewFlagSet("healthcheck", flag.ContinueOnError)
	addr := flags.String("addr", cmp.Or(os.Getenv("ADDR"), defaultAddr), "where the site listens")
	timeout := flags.Duration("timeout", 5*time.Second, "how long to wait for the answer")
	if err := noArguments(flags, args, std); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, siteURL(*addr)+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{}} // no proxy: the site is here
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(std.out, response.Body); err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("healthcheck: %s", response.Status)
	}
	return nil
}

// siteURL is where a site that listens on addr can be reached from here.
func siteURL(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "http://" + addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
