package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"time"

	"freshread/internal/jobs"
	"freshread/internal/lab"
	"freshread/internal/site"
	"freshread/internal/web"
)

type demoFlags struct {
	local    lab.LocalConfig
	addr     string
	strategy site.Strategy
	window   time.Duration
	jobReads jobs.Mode
	jobWait  time.Duration
}

func parseDemo(args []string, std streams) (*demoFlags, error) {
	f := &demoFlags{strategy: site.Commit, jobReads: jobs.Commit}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.StringVar(&f.local.Engine, "engine", "postgres", "database: postgres, mysql or mariadb")
	replicas := flags.Int("replicas", 1, "number of replicas")
	delays := durations{5 * time.Second}
	flags.Var(&delays, "delay", "how late the replicas apply: for all, or one for each, as in 5s,1s")
	flags.StringVar(&f.addr, "addr", defaultAddr, "where the site listens")
	flags.TextVar(&f.strategy, "strategy", f.strategy, "how reads are routed: commit, window or none")
	flags.DurationVar(&f.window, "window", 6*time.Second, "how long reads stay on the primary under --strategy window")
	flags.TextVar(&f.jobReads, "job-reads", f.jobReads, "where jobs read: commit, primary or replica (the bug)")
	flags.DurationVar(&f.jobWait, "job-wait", jobs.DefaultCommitWait, "how long a job waits for a replica that has its commit")
	flags.StringVar(&f.local.Dir, "data", "", "folder for the servers' files (default: a temporary one)")
	verbose := flags.Bool("verbose", false, "log each request and what it read")
	if err := noArguments(flags, args, std); err != nil {
		return nil, err
	}
	if err := checkEngine(f.local.Engine); err != nil {
		return nil, err
	}
	for _, d := range delays {
		if err := checkDelay(f.local.Engine, d); err != nil {
			return nil, err
		}
	}
	switch {
	case *replicas < 0 || *replicas > 8:
		return nil, fmt.Errorf("--replicas %d: want 0 to 8", *replicas)
	case len(delays) != 1 && len(delays) != *replicas:
		return nil, fmt.Errorf("--delay %s: want one for all, or one for each of %d replicas", &delays, *replicas)
	case f.window <= 0:
		return nil, fmt.Errorf("--window %v: want more than 0", f.window)
	case f.jobWait <= 0:
		return nil, fmt.Errorf("--job-wait %v: want more than 0", f.jobWait)
	}
	for i := range *replicas {
		f.local.Delays = append(f.local.Delays, delays[min(i, len(delays)-1)])
	}
	level := slog.LevelWarn
	if *verbose {
		level = slog.LevelInfo
	}
	f.local.Log = slog.New(web.LogHandler(slog.NewTextHandler(std.err, &slog.HandlerOptions{Level: level})))
	f.local.Seed = true
	return f, nil
}

// demoWorkers is how many jobs are worked at once.
const demoWorkers = 10

// demoRuns is how many experiments may be run at once, each on servers of its own.
const demoRuns = 3

// demo serves the site on servers of its own, which are gone when it ends.
func demo(ctx context.Context, args []string, std streams) (err error) {
	f, err := parseDemo(args, std)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", f.addr) // before the servers, which take longer
	if err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	defer listener.Close()
	fmt.Fprintf(std.out, "starting %s: a primary and %d replica(s)\n", f.local.Engine, len(f.local.Delays))
	local, err := lab.StartLocal(ctx, f.local)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	queue, err := jobs.Open(jobs.Config{
		Cluster: local.Cluster, Log: f.local.Log, URL: local.QueueURL, Workers: demoWorkers, CommitWait: f.jobWait,
		Reads: map[string]jobs.Mode{jobs.SummarisePost{}.Kind(): f.jobReads},
	})
	if err != nil {
		return err
	}
	defer queue.Close()
	experiments, err := lab.NewPages(lab.PagesConfig{
		Engine: f.local.Engine, Dir: f.local.Dir, Lag: labDelay, AtOnce: demoRuns, Log: f.local.Log, Done: ctx.Done(),
	})
	if err != nil {
		return err
	}
	defer experiments.Wait()
	site, err := site.New(site.Config{
		Cluster: local.Cluster, Cache: local.Cache, Jobs: queue, Log: f.local.Log, Strategy: f.strategy, Window: f.window,
		Done: ctx.Done(), SessionKeys: newSessionKeys(), Demo: true, ShowReads: true, Lab: experiments.Register,
	})
	if err != nil {
		return err
	}
	for _, s := range local.Stack.Servers() {
		late := ""
		if s.Delay() > 0 {
			late = fmt.Sprintf(", applies %v late", s.Delay())
		}
		fmt.Fprintf(std.out, "server %d: %s at %s, %s%s\n", s.ID(), s.Role(), s.Addr(), s.Version(), late)
	}
	if local.Queue != nil {
		queue := local.Queue.Primary()
		fmt.Fprintf(std.out, "queue: postgres at %s, %s\n", queue.Addr(), queue.Version())
	}
	fmt.Fprintf(std.out, "ready: %s\n", siteURL(listener.Addr().String()))
	return runInOrder(ctx,
		func(ctx context.Context) error { return serveOn(ctx, listener, site, f.local.Log) },
		queue.Run,
	)
}
