package lab

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack"
)

// Needs are what an experiment needs of its servers. Where they are not like that, Run
// starts others for it, which takes some seconds.
type Needs struct {
	Replicas int // at least
	// Settings are the servers' own; no servers but those started for them have any.
	Settings map[string]string
}

func (n Needs) metBy(servers *stack.Stack) bool {
	return n.Settings == nil && n.Replicas <= len(servers.Replicas())
}

// Only is the one engine that an experiment can be run on.
type Only struct {
	Engine dbroute.Engine
	Why    string // not on the others
}

// NotOn says why an experiment cannot be run on an engine; empty if it can.
func (e Experiment) NotOn(engine dbroute.Engine) string {
	if e.Only == nil || e.Only.Engine == engine {
		return ""
	}
	return e.Only.Why
}

// startFor starts servers that are as an experiment needs them.
func startFor(ctx context.Context, e Experiment, engine, dir string, log *slog.Logger) (*Local, error) {
	return StartLocal(ctx, LocalConfig{
		Engine: engine, Delays: make([]time.Duration, max(1, e.Needs.Replicas)), Settings: e.Needs.Settings, Dir: dir, Log: log,
		OwnQueue: e.Broken.OwnQueue || e.Fixed.OwnQueue, NoQueue: e.Broken.Jobs == nil && e.Fixed.Jobs == nil,
	})
}

func (r *Runner) runOnOwn(ctx context.Context, e Experiment) (_ *Result, err error) {
	own := *r
	// What an experiment does to them is nothing to report.
	own.Log = slog.New(slog.DiscardHandler)
	local, err := startFor(ctx, e, string(r.Cluster.Engine()), r.Dir, own.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	own.Stack, own.Cluster, own.Cache, own.QueueURL, own.own = local.Stack, local.Cluster, local.Cache, local.QueueURL, true
	return own.Run(ctx, e)
}
