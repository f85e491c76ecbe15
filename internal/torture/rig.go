package torture

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/jobs"
	"freshread/internal/stack"
	"freshread/migrations"
)

// rig is the servers and processes of a run.
type rig struct {
	Options
	stack     *stack.Stack
	links     []*link      // by server
	queue     *stack.Stack // of its own, beside what is not PostgreSQL
	queueLink *link
	env       []string
	processes []*process
	waiting   []int64 // posts that still wait for a job
	logs      string
}

// start starts the servers and makes the site's database.
func (r *rig) start(ctx context.Context) (err error) {
	if r.logs = r.Logs; r.logs == "" {
		r.logs, err = os.MkdirTemp(r.Dir, "torture-")
	} else {
		err = os.MkdirAll(r.logs, 0o700)
	}
	if err != nil {
		return fmt.Errorf("make a folder for logs: %w", err)
	}
	fmt.Fprintf(r.Progress, "starting %s: a primary and %d replicas\n", r.Engine, r.Replicas)
	// A server that has hung finds many a connection that its client has given up.
	settings := map[string]string{"max_connections": strconv.Itoa(200 * r.Processes)}
	if strings.HasPrefix(r.Engine, "postgres") {
		settings["wal_keep_size"] = "1GB" // a replica that is rebuilt needs it
	}
	if r.stack, err = stack.Start(ctx, stack.Options{
		Engine: r.Engine, Replicas: make([]time.Duration, r.Replicas), Settings: settings, Dir: r.Dir,
	}); err != nil {
		return err
	}
	if err := r.stack.CreateDatabase(ctx, databaseName); err != nil {
		return err
	}
	n := newNetwork()
	queueURL, err := r.startQueue(ctx, n)
	if err != nil {
		return err
	}
	if err := r.migrate(ctx); err != nil {
		return err
	}
	var urls []string
	for _, s := range r.stack.Servers() {
		l, err := n.connect(fmt.Sprintf("server %d", s.ID()), s.Addr())
		if err != nil {
			return err
		}
		r.links = append(r.links, l)
		u, err := l.url(s.URL(databaseName))
		if err != nil {
			return err
		}
		urls = append(urls, u)
	}
	key := make([]byte, 32)
	rand.Read(key) // never fails
	r.env = []string{
		"DATABASE_PRIMARY_URL=" + urls[0], "DATABASE_REPLICA_URLS=" + strings.Join(urls[1:], ","),
		"QUEUE_DATABASE_URL=" + queueURL, "JOB_WORKERS=3", "JOB_DELAY=2s", "JOB_COMMIT_WAIT=1s",
		"SESSION_KEYS=" + hex.EncodeToString(key), "SECURE_COOKIES=false", "SHOW_READS=true", "LOG_FORMAT=text", "LOG_LEVEL=warn",
		"LIMIT_WRITES=" + limits.WritesByUser.String(), "LIMIT_TOKENS=" + limits.TokensByUser.String(), "LIMIT_SIGNUP=" + limits.SignUpByAddress.String(),
		"LIMIT_LOGIN_ADDRESS=" + limits.LogInByAddress.String(), "LIMIT_LOGIN_ACCOUNT=" + limits.LogInByAccount.String(),
		"TRUSTED_PROXIES=127.0.0.1/32", // the balancer
	}
	return nil
}

// startQueue starts a database of the queue's own and returns its URL, unless the
// queue can be in the site's.
func (r *rig) startQueue(ctx context.Context, n *network) (string, error) {
	if strings.HasPrefix(r.Engine, "postgres") && !r.OwnQueue {
		return "", nil
	}
	var err error
	if r.queue, err = stack.Start(ctx, stack.Options{Engine: "postgres", Dir: r.Dir}); err != nil {
		return "", err
	}
	if err := r.queue.CreateDatabase(ctx, databaseName); err != nil {
		return "", err
	}
	if r.queueLink, err = n.connect("queue", r.queue.Primary().Addr()); err != nil {
		return "", err
	}
	return r.queueLink.url(r.queue.Primary().URL(databaseName))
}

func (r *rig) migrate(ctx context.Context) error {
	quiet := slog.New(slog.DiscardHandler)
	cluster, err := dbroute.Open(dbroute.Config{Name: "main", Primary: r.stack.Primary().URL(databaseName), Logger: quiet})
	if err != nil {
		return err
	}
	defer cluster.Close()
	if _, err := migrations.Up(ctx, cluster, quiet); err != nil {
		return err
	}
	queueURL := ""
	if r.queue != nil {
		queueURL = r.queue.Primary().URL(databaseName)
	}
	queue, err := jobs.Open(jobs.Config{Cluster: cluster, Log: quiet, URL: queueURL})
	if err != nil {
		return err
	}
	defer queue.Close()
	if _, err := queue.Migrate(ctx); err != nil {
		return err
	}
	return r.stack.WaitApplied(ctx)
}

// prepare keeps a copy of each replica, if there are to be faults, and sets its delay.
func (r *rig) prepare(ctx context.Context) error {
	for i, s := range r.stack.Replicas() {
		var err error
		if r.Calm > 0 {
			err = errors.Join(s.SetDelay(ctx, 0), s.Stop(ctx), s.Save(ctx), s.Start(ctx))
		}
		if err = errors.Join(err, s.SetDelay(ctx, r.Delays[i])); err != nil {
			return err
		}
	}
	return nil
}

// startProcesses starts the site and returns the round robin in front of it.
func (r *rig) startProcesses(ctx context.Context, monotonic bool) (*balancer, error) {
	mode := "off"
	if monotonic {
		mode = "on"
	}
	env := append(r.env[:len(r.env):len(r.env)], "READ_MONOTONIC="+mode)
	var addrs []string
	for i := range r.Processes {
		p, err := startProcess(i+1, r.logs, r.Serve, env)
		if err != nil {
			return nil, err
		}
		r.processes = append(r.processes, p)
		addrs = append(addrs, p.addr)
	}
	return newBalancer(addrs), r.allReady(ctx)
}

func (r *rig) allReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, p := range r.processes {
		if err := p.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) stopProcesses() error {
	var errs []error
	for _, p := range r.processes {
		p.stop()
		errs = append(errs, p.failure())
	}
	r.processes = nil
	return errors.Join(errs...)
}

func (r *rig) close() error {
	err := r.stopProcesses()
	for _, l := range r.links {
		l.close()
	}
	if r.queueLink != nil {
		r.queueLink.close()
	}
	for _, s := range []*stack.Stack{r.stack, r.queue} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	if r.Logs == "" && r.logs != "" {
		err = errors.Join(err, os.RemoveAll(r.logs))
	}
	return err
}

type disturbed struct {
	target
	deck deck
	calm time.Duration
}

// targets returns what faults are injected into, but for the servers of the spared role.
func (r *rig) targets(spared string) []disturbed {
	if r.Calm == 0 {
		return nil
	}
	var all []disturbed
	for i, s := range r.stack.Servers() {
		d := disturbed{&database{server: s, link: r.links[i], label: "replica " + strconv.Itoa(i)}, replicaFaults, r.Calm}
		if i == 0 {
			d = disturbed{&database{server: s, link: r.links[i], label: "primary"}, primaryFaults, 4 * r.Calm}
		}
		if s.Role() != spared {
			all = append(all, d)
		}
	}
	if r.queue != nil {
		all = append(all, disturbed{&database{server: r.queue.Primary(), link: r.queueLink, label: "queue"}, queueFaults, r.Calm})
	}
	for _, p := range r.processes {
		all = append(all, disturbed{p, processFaults, 5 * r.Calm})
	}
	return all
}
