// Package app puts the site on servers that are measured.
package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"freshread/bench/servers"
	"freshread/internal/auth"
	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/web"
	"freshread/migrations"
)

// hardlyAny is a limit that nobody meets.
var hardlyAny = cache.Limit{Hits: 1_000_000, Per: time.Second}

// cheap is what a password hash takes: what logs in here is no part of a figure.
var cheap = auth.Cost{Memory: 8, Time: 1, Threads: 1}

// App is the site in this process.
type App struct {
	http.Handler
	Cluster *dbroute.Cluster
}

// Prepare makes the tables of the site on servers, with the people and posts of the demo.
func Prepare(ctx context.Context, s *servers.Servers) error {
	cfg := s.Config()
	cluster, err := s.Open(ctx, cfg)
	if err != nil {
		return err
	}
	if _, err := migrations.Up(ctx, cluster, cfg.Logger); err != nil {
		return err
	}
	if err := site.Seed(ctx, cluster); err != nil {
		return err
	}
	return s.WaitApplied(ctx)
}

// New returns a site on prepared servers as it runs in production: nothing but the pages,
// and a line in the log for each request. change may change that. It is closed with the
// servers.
func New(ctx context.Context, s *servers.Servers, cfg dbroute.Config, change ...func(*site.Config)) (*App, error) {
	cluster, err := s.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	cached, err := cache.OpenCluster(cluster.Config(), cache.DefaultConns)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	s.OnClose(cached.Close)
	siteCfg := site.Config{
		Cluster: cluster, Cache: cached, SessionKeys: [][]byte{[]byte(rand.Text() + rand.Text())[:32]},
		Log:          slog.New(web.LogHandler(slog.NewTextHandler(io.Discard, nil))),
		PasswordCost: cheap, Limits: site.SameLimits(hardlyAny),
	}
	for _, f := range change {
		f(&siteCfg)
	}
	handler, err := site.New(siteCfg)
	if err != nil {
		return nil, err
	}
	return &App{handler, cluster}, nil
}
