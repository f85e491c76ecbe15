package growth

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"freshread/bench/measure"
	"freshread/bench/report"
	"freshread/bench/servers"
	"freshread/bench/trial"
	"freshread/bench/wire"
)

// fleet is processes of the site on the same servers.
type fleet struct {
	program     string
	environment []string
	proxies     wire.Proxies
}

// load is what a number of processes cost.
type load struct {
	cpu   float64 // milliseconds of all processes, for one request
	trips float64 // round trips of one request
	polls float64 // round trips each second, without any request
}

func processes(ctx context.Context, o measure.Options, s *report.Section) (err error) {
	steps := measure.Either(o, []int{1, 2, 4}, []int{1, 2})
	on, err := servers.Start(ctx, o, "postgres", 1, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.Close()) }()
	f, err := newFleet(ctx, o, on)
	if err != nil {
		return err
	}
	requests := measure.Either(o, 4000, 100)
	found := make([][]load, len(steps)) // by step and round
	for range measure.Either(o, 5, 1) {
		for i, n := range steps {
			o.Log.Info("serving", "processes", n)
			l, err := f.measure(ctx, n, requests)
			if err != nil {
				return fmt.Errorf("%d processes: %w", n, err)
			}
			found[i] = append(found[i], l)
		}
	}
	drawProcesses(s, steps, found)
	return nil
}

func drawProcesses(s *report.Section, steps []int, found [][]load) {
	table := report.Table{Title: "By processes of the site", Columns: []string{
		"Processes", "CPU for a page, ms", "Ratio", "Round trips of a page", "Round trips a second when nobody asks",
	}}
	var last, first load
	for i, rounds := range found {
		var cpu, trips, polls []float64
		for _, l := range rounds {
			cpu, trips, polls = append(cpu, l.cpu), append(trips, l.trips), append(polls, l.polls)
		}
		last = load{trial.Quantile(cpu, 0.5), trial.Quantile(trips, 0.5), trial.Quantile(polls, 0.5)}
		if i == 0 {
			first = last
		}
		table.Rows = append(table.Rows, []string{
			fmt.Sprint(steps[i]), fmt.Sprintf("%.3f", last.cpu), fmt.Sprintf("%.2f", last.cpu/first.cpu),
			fmt.Sprintf("%.2f", last.trips), fmt.Sprintf("%.0f", last.polls),
		})
	}
	s.Tables = append(s.Tables, table)
	s.Targets = append(s.Targets, report.Target{
		Want: fmt.Sprintf("a page costs the same CPU and round trips in %d processes as in 1", steps[len(steps)-1]),
		Got:  fmt.Sprintf("%.2f times the CPU, %.2f round trips beside %.2f", last.cpu/first.cpu, last.trips, first.trips),
		Met:  last.cpu <= flat*first.cpu && last.trips <= first.trips+0.05,
	})
	s.Notes = append(s.Notes, "**What grows with processes:** each polls each server twice a second, has pools of its own, and asks a replica once about a marker that the others know to be reached. They are asked one after the other here: all at once on the cores of one machine they would take a quarter more CPU for a page.")
}

// newFleet makes the tables and fills them.
func newFleet(ctx context.Context, o measure.Options, s *servers.Servers) (*fleet, error) {
	cfg, proxies, err := wire.Through(s.Config())
	s.OnClose(proxies.Close)
	if err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	rand.Read(key)
	f := &fleet{o.App, []string{
		"DATABASE_PRIMARY_URL=" + cfg.Primary, "DATABASE_REPLICA_URLS=" + cfg.Replicas[0],
		"SESSION_KEYS=" + hex.EncodeToString(key), "SECURE_COOKIES=false", "CHECK_TIMEOUT=2s",
	}, proxies}
	migrate := f.command(ctx, "migrate", "--seed")
	var said bytes.Buffer
	migrate.Stderr = &said
	if err := migrate.Run(); err != nil {
		return nil, fmt.Errorf("%s migrate: %w: %s", o.App, err, said.Bytes())
	}
	return f, s.WaitApplied(ctx)
}

// measure starts n processes, and lets them serve pages. What others use that do
// nothing for as long, to start and to poll the servers, is not the pages'.
func (f *fleet) measure(ctx context.Context, n, requests int) (l load, err error) {
	busy, err := f.run(ctx, n, requests, time.Second)
	if err != nil {
		return load{}, err
	}
	idle, err := f.run(ctx, n, 0, time.Second+busy.took)
	if err != nil {
		return load{}, err
	}
	return load{
		cpu:   float64(busy.cpu-idle.cpu) / float64(time.Millisecond) / float64(requests),
		trips: (float64(busy.trips) - idle.polls*busy.took.Seconds()) / float64(requests),
		polls: idle.polls,
	}, nil
}
