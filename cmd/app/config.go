package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/jobs"
	"freshread/internal/lab"
	"freshread/internal/site"
	"freshread/internal/web"
)

const defaultAddr = "127.0.0.1:8080"

// config is the environment of serve, worker and migrate. .env.example explains it.
type config struct {
	Addr           string        `env:"ADDR" envDefault:"127.0.0.1:8080"`
	Engine         engineName    `env:"DATABASE_ENGINE"`
	PrimaryURL     string        `env:"DATABASE_PRIMARY_URL,required,notEmpty"`
	ReplicaURLs    []string      `env:"DATABASE_REPLICA_URLS"`
	ClusterName    string        `env:"CLUSTER_NAME" envDefault:"main"`
	MaxOpenConns   int           `env:"DATABASE_MAX_OPEN_CONNS" envDefault:"20"`
	CheckTimeout   time.Duration `env:"CHECK_TIMEOUT" envDefault:"250ms"`
	CommitTimeout  time.Duration `env:"COMMIT_TIMEOUT" envDefault:"5s"`
	HealthInterval time.Duration `env:"HEALTH_INTERVAL" envDefault:"500ms"`
	HealthTimeout  time.Duration `env:"HEALTH_TIMEOUT" envDefault:"1s"`
	Monotonic      onOff         `env:"READ_MONOTONIC" envDefault:"off"`
	MetricsAddr    string        `env:"METRICS_ADDR"`
	MaxReplicaLag  time.Duration `env:"MAX_REPLICA_LAG" envDefault:"0s"`
	Strategy       site.Strategy `env:"READ_STRATEGY" envDefault:"commit"`
	Window         time.Duration `env:"READ_WINDOW" envDefault:"6s"`
	QueueURL       string        `env:"QUEUE_DATABASE_URL"`
	JobWorkers     int           `env:"JOB_WORKERS" envDefault:"10"`
	JobCommitWait  time.Duration `env:"JOB_COMMIT_WAIT" envDefault:"2s"`
	JobDelay       time.Duration `env:"JOB_DELAY" envDefault:"10s"`
	JobReads       jobReads      `env:"JOB_READS" envDefault:"summarise_post=commit"`
	SessionKeys    sessionKeys   `env:"SESSION_KEYS"`
	SecureCookies  bool          `env:"SECURE_COOKIES" envDefault:"true"`
	Demo           bool          `env:"DEMO" envDefault:"false"`
	ShowReads      bool          `env:"SHOW_READS" envDefault:"false"`
	LogFormat      logFormat     `env:"LOG_FORMAT" envDefault:"json"`
	LogLevel       slog.Level    `env:"LOG_LEVEL" envDefault:"info"`

	site.Limits
	TrustedProxies []netip.Prefix `env:"TRUSTED_PROXIES"`
	CacheConns     int            `env:"CACHE_MAX_OPEN_CONNS" envDefault:"5"`
}

// loadServeConfig is loadConfig for what sets cookies.
func loadServeConfig() (*config, error) {
	cfg, err := loadConfig()
	if os.Getenv("SESSION_KEYS") == "" {
		err = errors.Join(err, errors.New("SESSION_KEYS: should not be empty: openssl rand -hex 32 makes a key"))
	}
	return cfg, err
}

func loadConfig() (*config, error) {
	cfg := config{Limits: site.DefaultLimits}
	if err := env.Parse(&cfg); err != nil {
		return nil, nameVariables(err)
	}
	var wrong []error
	for _, d := range []struct {
		variable string
		value    time.Duration
	}{{"READ_WINDOW", cfg.Window}, {"CHECK_TIMEOUT", cfg.CheckTimeout}, {"COMMIT_TIMEOUT", cfg.CommitTimeout},
		{"HEALTH_INTERVAL", cfg.HealthInterval}, {"HEALTH_TIMEOUT", cfg.HealthTimeout}, {"JOB_COMMIT_WAIT", cfg.JobCommitWait},
		{"JOB_DELAY", cfg.JobDelay}} {
		if d.value <= 0 {
			wrong = append(wrong, fmt.Errorf("%s: %v: want more than 0", d.variable, d.value))
		}
	}
	if cfg.MaxReplicaLag < 0 {
		wrong = append(wrong, fmt.Errorf("MAX_REPLICA_LAG: %v: want 0 or more", cfg.MaxReplicaLag))
	}
	for _, n := range []struct {
		variable string
		value    int
	}{{"DATABASE_MAX_OPEN_CONNS", cfg.MaxOpenConns}, {"CACHE_MAX_OPEN_CONNS", cfg.CacheConns}} {
		if n.value < 1 {
			wrong = append(wrong, fmt.Errorf("%s: %d: want at least 1", n.variable, n.value))
		}
	}
	if cfg.ClusterName == cache.ClusterName {
		wrong = append(wrong, fmt.Errorf("CLUSTER_NAME: %s is what the cache's own cluster is called", cfg.ClusterName))
	}
	if cfg.JobWorkers < 1 {
		wrong = append(wrong, fmt.Errorf("JOB_WORKERS: %d: want at least 1", cfg.JobWorkers))
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	for i := range cfg.ReplicaURLs {
		cfg.ReplicaURLs[i] = strings.TrimSpace(cfg.ReplicaURLs[i])
	}
	return &cfg, nil
}

// nameVariables puts the variable's name where package env puts the field's.
func nameVariables(err error) error {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return err
	}
	var named []error
	for _, err := range all.Errors {
		var parse env.ParseError
		if errors.As(err, &parse) {
			if field, ok := reflect.TypeFor[config]().FieldByName(parse.Name); ok {
				variable, _, _ := strings.Cut(field.Tag.Get("env"), ",")
				err = fmt.Errorf("%s: %w", variable, parse.Err)
			}
		}
		named = append(named, err)
	}
	return errors.Join(named...)
}

func (c *config) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "text" {
		return slog.New(web.LogHandler(slog.NewTextHandler(w, options)))
	}
	return slog.New(web.LogHandler(slog.NewJSONHandler(w, options)))
}

// openCluster opens a cluster; see dbroute.Config on noCommitIDs.
func (c *config) openCluster(log *slog.Logger, noCommitIDs string) (*dbroute.Cluster, error) {
	cfg := dbroute.Config{
		Name: c.ClusterName, Primary: c.PrimaryURL, Replicas: c.ReplicaURLs,
		CheckTimeout: c.CheckTimeout, CommitTimeout: c.CommitTimeout,
		HealthInterval: c.HealthInterval, HealthTimeout: c.HealthTimeout, MaxReplicaLag: c.MaxReplicaLag,
		Monotonic:    bool(c.Monotonic),
		MaxOpenConns: c.MaxOpenConns, Logger: log,
		Engine: dbroute.Engine(c.Engine), NoCommitIDs: noCommitIDs,
	}
	cluster, err := dbroute.Open(cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", refused(cfg), err)
	}
	return cluster, nil
}

// refused names the variable that Open does not accept. Open connects to
// nothing, so it can be tried with one more of them at a time.
func refused(cfg dbroute.Config) string {
	for _, try := range []struct {
		variable string
		cfg      dbroute.Config
	}{
		{"DATABASE_PRIMARY_URL", dbroute.Config{Name: "any", Primary: cfg.Primary}},
		{"DATABASE_ENGINE", dbroute.Config{Name: "any", Primary: cfg.Primary, Engine: cfg.Engine}},
		{"CLUSTER_NAME", dbroute.Config{Name: cfg.Name, Primary: cfg.Primary, Engine: cfg.Engine}},
	} {
		cluster, err := dbroute.Open(try.cfg)
		if err != nil {
			return try.variable
		}
		cluster.Close()
	}
	return "DATABASE_REPLICA_URLS"
}

// openQueue opens a queue that works jobs, or only queues them.
func (c *config) openQueue(cluster *dbroute.Cluster, log *slog.Logger, works bool) (*jobs.Queue, error) {
	cfg := jobs.Config{Cluster: cluster, Log: log, URL: c.QueueURL, CommitWait: c.JobCommitWait, Delay: c.JobDelay, Reads: c.JobReads}
	if works {
		cfg.Workers = c.JobWorkers
	}
	queue, err := jobs.Open(cfg)
	if err != nil {
		return nil, fmt.Errorf("QUEUE_DATABASE_URL: %w", err)
	}
	return queue, nil
}

func (c *config) newSite(cluster, cacheCluster *dbroute.Cluster, queue *jobs.Queue, log *slog.Logger, done <-chan struct{}) (*site.Site, error) {
	cfg := site.Config{
		Done:    done,
		Cluster: cluster, Cache: cacheCluster, Jobs: queue, Log: log, Strategy: c.Strategy, Window: c.Window,
		SessionKeys: c.SessionKeys, SecureCookies: c.SecureCookies,
		Demo: c.Demo, ShowReads: c.ShowReads,
		TrustedProxies: c.TrustedProxies, Limits: c.Limits,
	}
	if c.Demo { // whose servers are others', so that no experiment runs here
		experiments, err := lab.NewPages(lab.PagesConfig{Log: log})
		if err != nil {
			return nil, err
		}
		cfg.Lab = experiments.Register
	}
	return site.New(cfg)
}

// newSessionKeys are for a site whose cookies need not outlive it.
func newSessionKeys() sessionKeys {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	return sessionKeys{key}
}

// sessionKeys are comma-separated, each in hex or base64.
type sessionKeys [][]byte

func (k *sessionKeys) UnmarshalText(text []byte) error {
	for i, field := range strings.Split(string(text), ",") {
		field = strings.TrimSpace(field)
		key, err := hex.DecodeString(field)
		if err != nil {
			key, err = base64.StdEncoding.DecodeString(field)
		}
		if err != nil || len(key) < 32 {
			return fmt.Errorf("key %d: want at least 32 random bytes in hex or base64, as of: openssl rand -hex 32", i+1)
		}
		*k = append(*k, key)
	}
	return nil
}

// jobReads says by kind where jobs read, as in summarise_post=commit.
type jobReads map[string]jobs.Mode

func (r *jobReads) UnmarshalText(text []byte) error {
	*r = jobReads{}
	for field := range strings.SplitSeq(string(text), ",") {
		kind, name, _ := strings.Cut(strings.TrimSpace(field), "=")
		var mode jobs.Mode
		if err := mode.UnmarshalText([]byte(name)); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		if !slices.Contains(jobs.Kinds(), kind) {
			return fmt.Errorf("no kind of job %q: want %s", kind, strings.Join(jobs.Kinds(), ", "))
		}
		(*r)[kind] = mode
	}
	return nil
}

// onOff is a switch.
type onOff bool

func (o *onOff) UnmarshalText(text []byte) error {
	if *o = string(text) == "on"; !*o && string(text) != "off" {
		return fmt.Errorf("%q: want on or off", text)
	}
	return nil
}

// engineName is only needed where the URLs do not tell.
type engineName dbroute.Engine

func (e *engineName) UnmarshalText(text []byte) error {
	switch *e = engineName(text); dbroute.Engine(*e) {
	case "", dbroute.PostgreSQL, dbroute.MySQL, dbroute.MariaDB:
		return nil
	}
	return fmt.Errorf("%q: want postgres, mysql or mariadb", text)
}

type logFormat string

func (f *logFormat) UnmarshalText(text []byte) error {
	if *f = logFormat(text); *f != "json" && *f != "text" {
		return fmt.Errorf("%q: want json or text", text)
	}
	return nil
}
