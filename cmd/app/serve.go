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
	"time"

	"golang.org/x/sync/errgroup"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
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
	if err := noArguments(flag.NewFlagSet("serve", flag.ContinueOnError), args, std); err != nil {
		return err
	}
	cfg, err := loadServeConfig()
	if err != nil {
		return err
	}
	log := cfg.logger(std.err)
	cluster, err := openChecked(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer cluster.Close()
	cacheCluster, err := cache.OpenCluster(cluster.Config(), cfg.CacheConns)
	if err != nil {
		return err
	}
	defer cacheCluster.Close()
	pending, err := migrations.Pending(ctx, cluster, log)
	if err != nil {
		return err
	}
	if pending {
		return errors.New("the primary's schema is not up to date: run app migrate first")
	}
	site, err := cfg.newSite(cluster, cacheCluster, log, ctx.Done())
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return fmt.Errorf("ADDR: %w", err)
	}
	log.Info("serving", "addr", listener.Addr().String(), "strategy", cfg.Strategy)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveOn(ctx, listener, site, log) })
	group.Go(func() error { cluster.Watch(ctx); return nil })
	group.Go(func() error { cacheCluster.Watch(ctx); return nil })
	group.Go(func() error { cache.CleanUp(ctx, cacheCluster, log); return nil })
	if cfg.MetricsAddr != "" {
		group.Go(func() error { return serveMetrics(ctx, cfg.MetricsAddr, log, cluster, cacheCluster) })
	}
	return group.Wait()
}

func serveMetrics(ctx context.Context, addr string, log *slog.Logger, clusters ...*dbroute.Cluster) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("METRICS_ADDR: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", status.Metrics(clusters...))
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

func openChecked(ctx context.Context, cfg *config, log *slog.Logger) (*dbroute.Cluster, error) {
	cluster, err := cfg.openCluster(log, "")
	if err != nil {
		return nil, err
	}
	err = cluster.Check(ctx)
	var lacks *dbroute.CapabilityError
	if errors.As(err, &lacks) { // the window needs none of it
		if err = cluster.Close(); err == nil {
			cluster, err = cfg.openCluster(log, lacks.Error())
		}
	}
	if err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	return cluster, nil
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
	cluster, err := openChecked(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer cluster.Close()
	applied, err := migrations.Up(ctx, cluster, log)
	if err != nil {
		return err
	}
	for _, name := range applied {
		fmt.Fprintln(std.out, "applied", name)
	}
	if len(applied) == 0 {
		fmt.Fprintln(std.out, "nothing to do")
	}
	if *seed {
		return site.Seed(ctx, cluster)
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
