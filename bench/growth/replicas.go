package growth

import (
	"context"
	"fmt"

	"freshread/bench/measure"
	"freshread/bench/report"
	"freshread/internal/dbroute"
)

// Commits of the primary in memory, whose replicas are at F/0.
const (
	reachedCommit = "postgres:1:E/0"
	pendingCommit = "postgres:1:F/1000"
)

// maxAsked is how many replicas may be asked about one pending marker.
const maxAsked = 2

func replicas(ctx context.Context, o measure.Options, s *report.Section) error {
	steps := []int{1, 2, 4, 8}
	asked := make([]float64, len(steps))
	with := func(commit string) func(int) (func(context.Context, int) error, error) {
		return func(n int) (func(context.Context, int) error, error) {
			cluster, err := open(ctx, dbroute.PostgreSQL, n, "")
			if err != nil {
				return nil, err
			}
			var m dbroute.Marker
			if commit != "" {
				if m, err = markerOf(cluster, commit); err != nil {
					return nil, err
				}
			}
			for _, r := range cluster.Replicas {
				r.Behind.Store(commit == pendingCommit)
			}
			return requests(cluster.Cluster, []dbroute.Marker{m}), nil
		}
	}
	nothing, err := compare(ctx, o, "nothing written", steps, with(""))
	if err != nil {
		return err
	}
	reached, err := compare(ctx, o, "marker reached", steps, with(reachedCommit))
	if err != nil {
		return err
	}
	pending, err := compare(ctx, o, "marker pending", steps, with(pendingCommit))
	if err != nil {
		return err
	}
	for i, n := range steps {
		if asked[i], err = questions(ctx, n); err != nil {
			return err
		}
	}
	draw(s, "growth-replicas.svg", "replicas", steps, nothing, reached, pending)
	wantFlat(s, "a request costs the same with 8 replicas as with 1, unless its marker is pending", nothing, reached)
	s.Targets = append(s.Targets, report.Target{
		Want: fmt.Sprintf("at most %d replicas are asked about a pending marker, however many there are", maxAsked),
		Got:  fmt.Sprintf("%.0f of 8", asked[len(asked)-1]), Met: asked[len(asked)-1] <= maxAsked,
	})
	s.Notes = append(s.Notes, "**What grows with replicas:** a pending marker asks one replica where there is one, and two where there are more. Each process polls each server twice a second.")
	return nil
}

// questions is how many replicas a request asks whose marker is pending.
func questions(ctx context.Context, replicas int) (float64, error) {
	cluster, err := open(ctx, dbroute.PostgreSQL, replicas, "")
	if err != nil {
		return 0, err
	}
	m, err := markerOf(cluster, pendingCommit)
	if err != nil {
		return 0, err
	}
	for _, r := range cluster.Replicas {
		r.Behind.Store(true)
	}
	const n = 100
	if err := requests(cluster.Cluster, []dbroute.Marker{m})(ctx, n); err != nil {
		return 0, err
	}
	var asked int64
	for _, r := range cluster.Replicas {
		asked += r.Asked.Load()
	}
	return float64(asked) / n, nil
}
