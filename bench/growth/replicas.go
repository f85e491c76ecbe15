package growth

import (
	"context"
	"fmt"

	"freshread/bench/measure"
	"freshread/bench/memory"
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
	var curves []curve
	for _, kind := range []struct{ name, commit string }{
		{"nothing written", ""}, {"marker reached", reachedCommit}, {"marker pending", pendingCommit},
	} {
		c, err := compare(ctx, o, kind.name, steps, func(n int) (repeat, error) {
			cluster, m, err := carrying(ctx, n, kind.commit)
			if err != nil {
				return nil, err
			}
			return requests(cluster.Cluster, []dbroute.Marker{m}), nil
		})
		if err != nil {
			return err
		}
		curves = append(curves, c)
	}
	most := steps[len(steps)-1]
	asked, err := questions(ctx, most)
	if err != nil {
		return err
	}
	draw(s, "growth-replicas.svg", "replicas", steps, curves...)
	wantFlat(s, "a request costs the same with 8 replicas as with 1, unless its marker is pending", curves[:2]...)
	s.Targets = append(s.Targets, report.Target{
		Want: fmt.Sprintf("at most %d replicas are asked about a pending marker, however many there are", maxAsked),
		Got:  fmt.Sprintf("%.0f of %d", asked, most), Met: asked <= maxAsked,
	})
	s.Notes = append(s.Notes, "**What grows with replicas:** a pending marker asks one replica where there is one, and two where there are more. Each process polls each server twice a second.")
	return nil
}

// carrying is a cluster, and the marker of a commit that its replicas have reached or not,
// or the zero Marker.
func carrying(ctx context.Context, replicas int, commit string) (*memory.Cluster, dbroute.Marker, error) {
	cluster, err := open(ctx, dbroute.PostgreSQL, replicas, "")
	if err != nil || commit == "" {
		return cluster, dbroute.Marker{}, err
	}
	for _, r := range cluster.Replicas {
		r.Behind.Store(commit == pendingCommit)
	}
	m, err := markerOf(cluster, commit)
	return cluster, m, err
}

// questions is how many replicas a request asks whose marker is pending.
func questions(ctx context.Context, replicas int) (float64, error) {
	cluster, m, err := carrying(ctx, replicas, pendingCommit)
	if err != nil {
		return 0, err
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
