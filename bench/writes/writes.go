// Package writes measures what a write pays for its commit ID.
package writes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"freshread/bench/measure"
	"freshread/bench/report"
	"freshread/bench/servers"
	"freshread/bench/trial"
)

// Measurement is this measurement.
func Measurement() measure.Measurement { return measure.Measurement{Name: "writes", Run: run} }

// late is how late a replica is that synchronous replication waits for.
const late = 100 * time.Millisecond

// durable lets every commit reach the disk, as it does in production.
func durable(engine string) map[string]string {
	if engine == "postgres" {
		return map[string]string{
			"fsync": "on", "full_page_writes": "on",
			// Only those who ask for it wait for the replica.
			"synchronous_standby_names": "*", "synchronous_commit": "local",
		}
	}
	return map[string]string{"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1", "innodb_flush_method": "fsync"}
}

// outcome is what writes cost on one engine.
type outcome struct {
	server          string
	bare, captured  float64        // round trips
	alone, together []trial.Result // one client, and several at once
	waitsForLate    time.Duration  // one synchronous commit with a replica that is late; PostgreSQL only
}

func run(ctx context.Context, o measure.Options) (report.Section, error) {
	var outcomes []outcome
	var names []string
	for _, engine := range measure.Either(o, servers.Engines(), []string{"postgres"}) {
		found, err := on(ctx, o, engine)
		if err != nil {
			return report.Section{}, fmt.Errorf("%s: %w", engine, err)
		}
		outcomes, names = append(outcomes, found), append(names, found.server)
	}
	s := section(outcomes)
	s.Machine.Servers = names
	return s, nil
}

func on(ctx context.Context, o measure.Options, engine string) (found outcome, err error) {
	s, err := servers.Start(ctx, o, engine, 1, durable(engine))
	if err != nil {
		return outcome{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	found.server = s.Name()
	if err := prepare(ctx, s); err != nil {
		return outcome{}, err
	}
	if found.bare, found.captured, err = roundTrips(ctx, s); err != nil {
		return outcome{}, err
	}
	w, err := newWriters(ctx, s, s.Config())
	if err != nil {
		return outcome{}, err
	}
	if found.alone, err = trial.Compare(ctx, o.Plan(21, 300*time.Millisecond), w.variants(1)...); err != nil {
		return outcome{}, err
	}
	if found.together, err = trial.Compare(ctx, o.Plan(21, 300*time.Millisecond), w.variants(together)...); err != nil {
		return outcome{}, err
	}
	if w.waiting != nil {
		found.waitsForLate, err = w.waitForLate(ctx, measure.Either(o, 10, 1))
	}
	return found, err
}
