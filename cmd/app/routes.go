package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"text/tabwriter"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/jobs"
	"freshread/internal/site"
)

// routes prints the order of the middleware, which is what keeps reads fresh.
// It connects to nothing.
func routes(_ context.Context, args []string, std streams) error {
	strategy := site.Commit
	flags := flag.NewFlagSet("routes", flag.ContinueOnError)
	flags.TextVar(&strategy, "strategy", strategy, "commit, window or none")
	if err := noArguments(flags, args, std); err != nil {
		return err
	}
	cluster, err := dbroute.Open(dbroute.Config{Name: "routes", Primary: "postgres://localhost"})
	if err != nil {
		return err
	}
	defer cluster.Close()
	cacheCluster, err := cache.OpenCluster(cluster.Config(), cache.DefaultConns)
	if err != nil {
		return err
	}
	defer cacheCluster.Close()
	log := slog.New(slog.DiscardHandler)
	queue, err := jobs.Open(jobs.Config{Cluster: cluster, Log: log})
	if err != nil {
		return err
	}
	defer queue.Close()
	site, err := site.New(site.Config{
		Cluster: cluster, Cache: cacheCluster, Jobs: queue, Log: log, Strategy: strategy, SessionKeys: newSessionKeys(),
	})
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	for _, r := range site.Routes() {
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.Method, r.Path, strings.Join(r.Middleware, " → "))
	}
	return table.Flush()
}
