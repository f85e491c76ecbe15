package growth

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"freshread/bench/measure"
	"freshread/bench/memory"
	"freshread/bench/report"
	"freshread/internal/dbroute"
)

// leastKept is less than any way to remember a session would take.
const leastKept = 8

func sessions(ctx context.Context, o measure.Options, s *report.Section) error {
	steps := []int{10, 1_000, 100_000}
	reached, err := compare(ctx, o, "marker reached", steps, func(n int) (repeat, error) {
		cluster, err := open(ctx, dbroute.PostgreSQL, 1, "")
		if err != nil {
			return nil, err
		}
		markers, err := distinct(cluster, n, 1)
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
		Got:  fmt.Sprintf("%.1f bytes for each of 100,000", kept), Met: kept < leastKept,
	})
	return nil
}

// distinct are markers of commits that differ, and that have all been reached. Those of
// another batch differ from these.
func distinct(cluster *memory.Cluster, n, batch int) ([]dbroute.Marker, error) {
	markers := make([]dbroute.Marker, n)
	for i := range markers {
		var err error
		if markers[i], err = markerOf(cluster, fmt.Sprintf("postgres:1:%X/%X", batch, 64*i)); err != nil {
			return nil, err
		}
	}
	return markers, nil
}

// keptFor is how many bytes for each of n sessions are in use after all have been there. It
// is the least of what several times n sessions have left: what is kept for each would be
// there every time.
func keptFor(ctx context.Context, n int) (float64, error) {
	cluster, err := open(ctx, dbroute.PostgreSQL, 1, "")
	if err != nil {
		return 0, err
	}
	batches := make([][]dbroute.Marker, 5)
	for i := range batches {
		if batches[i], err = distinct(cluster, n, i+1); err != nil {
			return 0, err
		}
	}
	least, before := math.MaxFloat64, inUse()
	for _, markers := range batches {
		if err := requests(cluster.Cluster, markers)(ctx, n); err != nil {
			return 0, err
		}
		after := inUse()
		least, before = min(least, float64(after)-float64(before)), after
	}
	runtime.KeepAlive(batches)
	return max(0, least) / float64(n), nil
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC() // what the first has put off
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
