package torture

import (
	"context"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"freshread/internal/auth"
	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/jobs"
	"freshread/internal/site"
	"freshread/internal/stack/stacktest"
)

// variantVariable makes the test binary a process of the site, of the variant that it
// names.
const variantVariable = "TORTURE_VARIANT"

func TestMain(m *testing.M) {
	if name := os.Getenv(variantVariable); name != "" {
		if err := serveVariant(variants[name]); err != nil {
			slog.Error("serve", "error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(stacktest.Main(m))
}

// serveVariant serves the site as app serve does.
func serveVariant(v variant) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg := dbroute.Config{
		Name: "main", Primary: os.Getenv("DATABASE_PRIMARY_URL"), Logger: log,
		Replicas:  strings.Split(os.Getenv("DATABASE_REPLICA_URLS"), ","),
		Monotonic: os.Getenv("READ_MONOTONIC") == "on" && !v.forgets,
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
		PasswordCost: auth.Cost{Memory: 8, Time: 1, Threads: 1}, Limits: limits,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix(os.Getenv("TRUSTED_PROXIES"))},
	}
	if v.jobs {
		config.Jobs, err = jobs.Open(jobs.Config{
			Cluster: cluster, Log: log, URL: os.Getenv("QUEUE_DATABASE_URL"), Workers: 3,
			Delay: 100 * time.Millisecond, CommitWait: time.Second,
		})
		if err != nil {
			return err
		}
	}
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
	if v.jobs {
		go config.Jobs.Run(ctx)
	}
	var serving http.Handler = handler
	if v.handler != nil {
		serving = v.handler(serving)
	}
	return http.ListenAndServe(os.Getenv("ADDR"), serving)
}
