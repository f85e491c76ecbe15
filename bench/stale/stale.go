// Package stale measures who is shown less than they have saved, and how often the
// primary is read to avoid that: by strategy, and by how late replicas are.
package stale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"freshread/bench/measure"
	"freshread/bench/report"
	"freshread/bench/servers"
)

// Measurement is this measurement.
func Measurement() measure.Measurement { return measure.Measurement{Name: "stale", Run: run} }

// lagsOf are what each engine can be held back by. MySQL and MariaDB know whole seconds.
func lagsOf(engine string, o measure.Options) []time.Duration {
	switch {
	case o.Quick && engine == "postgres":
		return []time.Duration{100 * time.Millisecond}
	case o.Quick:
		return nil
	case engine == "postgres":
		return []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second}
	}
	return []time.Duration{time.Second, 10 * time.Second}
}

// patient lets a replica wait for a query that is in the way of what it applies, instead of
// ending it: one that is late on purpose has used up its patience before.
func patient(engine string) map[string]string {
	if engine == "postgres" {
		return map[string]string{"max_standby_streaming_delay": "-1"}
	}
	return nil
}

// outcome is one simulation on one engine.
type outcome struct {
	server string
	engine string
	lag    time.Duration
	groups []group
}

func run(ctx context.Context, o measure.Options) (report.Section, error) {
	var outcomes []outcome
	var names []string
	for _, engine := range servers.Engines() {
		lags := lagsOf(engine, o)
		if len(lags) == 0 {
			continue
		}
		more, name, err := on(ctx, o, engine, lags)
		if err != nil {
			return report.Section{}, fmt.Errorf("%s: %w", engine, err)
		}
		outcomes, names = append(outcomes, more...), append(names, name)
	}
	s := section(outcomes)
	s.Machine.Servers = names
	return s, nil
}

func on(ctx context.Context, o measure.Options, engine string, lags []time.Duration) (outcomes []outcome, name string, err error) {
	s, err := servers.Start(ctx, o, engine, 1, patient(engine))
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	site, err := newSite(ctx, s)
	if err != nil {
		return nil, "", err
	}
	for _, lag := range lags {
		sim := simulation{
			lag: lag, length: measure.Either(o, 20*time.Second+2*lag, 1500*time.Millisecond),
			writes: []float64{0.01, 0.05, 0.2}, sessions: 16, think: 200 * time.Millisecond,
		}
		o.Log.Info("simulating", "engine", engine, "lag", lag, "for", sim.length)
		groups, err := site.run(ctx, sim)
		if err != nil {
			return nil, "", fmt.Errorf("lag %v: %w", lag, err)
		}
		outcomes = append(outcomes, outcome{s.Name(), engine, lag, groups})
	}
	return outcomes, s.Name(), nil
}
