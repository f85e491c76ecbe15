package stale

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"freshread/bench/servers"
	"freshread/internal/dbroute"
)

// simulation is sessions of all strategies at once on the same servers, so that all meet
// the same lag.
type simulation struct {
	lag      time.Duration
	length   time.Duration
	writes   []float64 // parts of requests that save, for a group of sessions each
	sessions int       // in each group
	think    time.Duration
}

// group is the sessions of one strategy that save as often as each other.
type group struct {
	strategy string
	writes   float64
	Tally
}

// site is the servers, and what stands on them.
type site struct {
	servers    *servers.Servers
	strategies []strategy
	oracle     oracle
}

func newSite(ctx context.Context, s *servers.Servers) (*site, error) {
	if err := s.Exec(ctx, `CREATE TABLE counters (id bigint PRIMARY KEY, value bigint NOT NULL)`); err != nil {
		return nil, err
	}
	all, err := strategies(ctx, s)
	if err != nil {
		return nil, err
	}
	_, replica, err := s.DBs(s.Config())
	if err != nil {
		return nil, err
	}
	return &site{s, all, newOracle(dbroute.Engine(s.Engine), replica)}, nil
}

// run runs a simulation and returns the groups by their part of saves, the strategies in
// order.
func (s *site) run(ctx context.Context, sim simulation) ([]group, error) {
	replica := s.servers.Replicas()[0]
	if err := replica.SetDelay(ctx, 0); err != nil {
		return nil, err
	}
	groups, sessions := s.gather(sim)
	if err := s.servers.Exec(ctx, `DELETE FROM counters`, insert(len(sessions))); err != nil {
		return nil, err
	}
	if err := replica.SetDelay(ctx, sim.lag); err != nil {
		return nil, err
	}
	until := time.Now().Add(sim.length)
	running, ctx := errgroup.WithContext(ctx)
	for _, session := range sessions {
		running.Go(func() error { return session.run(ctx, until) })
	}
	if err := running.Wait(); err != nil {
		return nil, err
	}
	for i, session := range sessions {
		groups[i/sim.sessions].add(session.tally)
	}
	return groups, nil
}

// gather makes the groups and their sessions, one group after the other.
func (s *site) gather(sim simulation) ([]group, []*session) {
	var groups []group
	var sessions []*session
	for _, writes := range sim.writes {
		for _, strategy := range s.strategies {
			groups = append(groups, group{strategy: strategy.name, writes: writes})
			for range sim.sessions {
				sessions = append(sessions, &session{
					id: int64(len(sessions)), client: strategy.newClient(), oracle: s.oracle,
					writes: writes, think: sim.think,
				})
			}
		}
	}
	return groups, sessions
}

// insert makes a row for each session.
func insert(sessions int) string {
	rows := make([]string, sessions)
	for id := range rows {
		rows[id] = fmt.Sprintf("(%d, 0)", id)
	}
	return `INSERT INTO counters VALUES ` + strings.Join(rows, ", ")
}
