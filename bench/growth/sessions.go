package growth

import (
	"context"
	"fmt"
	"runtime"

	"freshread/bench/measure"
	"freshread/bench/memory"
	"freshread/bench/report"
	"freshread/internal/dbroute"
)

func sessions(ctx context.Context, o measure.Options, s *report.Section) error {
	steps := []int{10, 1_000, 100_000}
	reached, err := compare(ctx, o, "marker reached", steps, func(n int) (func(context.Context, int) error, error) {
		cluster, err := open(ctx, dbroute.PostgreSQL, 1, "")
		if err != nil {
			return nil, err
		}
		markers, err := distinct(cluster, n)
		return requests(cluster.Cluster, markers), err
	})
	if err != nil {
		return err
	}
	kept, err := keptFor(ctx, steps[len(steps)-1])
	if err != nil {
		return err
	}
	draw(s, "growth-sessions.svg", "sessions that carry a marker", steps, reached)
	wantFlat(s, "a request costs the same with 100,000 sessions that carry a marker as with 10", reached)
	s.Targets = append(s.Targets, report.Target{
		Want: "a process keeps nothing for a session",
		Got:  fmt.Sprintf("%.2f bytes each after 100,000 sessions", kept), Met: kept < 1,
	})
	return nil
}

// distinct are markers of commits that differ, and that have all been reached.
func distinct(cluster *memory.Cluster, n int) ([]dbroute.Marker, error) {
	markers := make([]dbroute.Marker, n)
	for i := range markers {
		var err error
		if markers[i], err = markerOf(cluster, fmt.Sprintf("postgres:1:%X/%X", i%8+1, 64*i)); err != nil {
			return nil, err
		}
	}
	return markers, nil
}

// keptFor is how many bytes for each of n sessions are in use after all have been there.
func keptFor(ctx context.Context, n int) (float64, error) {
	cluster, err := open(ctx, dbroute.PostgreSQL, 1, "")
	if err != nil {
		return 0, err
	}
	markers, err := distinct(cluster, n)
	if err != nil {
		return 0, err
	}
	if err := request(ctx, cluster.Cluster, markers[0]); err != nil { // so that the connection is there
		return 0, err
	}
	before := inUse()
	if err := requests(cluster.Cluster, markers)(ctx, n); err != nil {
		return 0, err
	}
	after := inUse()
	runtime.KeepAlive(markers)
	return max(0, float64(after)-float64(before)) / float64(n), nil
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC() // what the first has put off
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
