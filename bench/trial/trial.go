// Package trial compares variants of one thing. They run in turn, a short while each
// and many times, so that what else the machine does meets all of them alike, and it
// is the medians that count.
package trial

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Variant is one of the things to compare.
type Variant struct {
	Name string
	// Run does it n times.
	Run func(ctx context.Context, n int) error
}

// Plan says how long to compare.
type Plan struct {
	Rounds int           // how often each variant has its turn
	Turn   time.Duration // how long that takes, about
	// CPU counts the time of this process' threads on a CPU, and not by the clock: for
	// what waits for nobody, so that it matters less what else the machine does.
	CPU bool
}

// Result is what a variant costs, each figure being the median of its turns.
type Result struct {
	Name   string
	Time   time.Duration // of one; see Plan.CPU
	Over   time.Duration // beyond the first variant in the same round
	Ratio  float64       // to the time of the first variant in the same round
	Low    float64       // a quarter of the ratios are lower
	High   float64       // a quarter of the ratios are higher
	Allocs float64       // of one
	Bytes  float64       // allocated by one
}

// turn is what one variant did in one round.
type turn struct {
	time          time.Duration // of one
	allocs, bytes float64
}

// Compare runs the variants by the plan. The first is what the others are compared to.
func Compare(ctx context.Context, plan Plan, variants ...Variant) ([]Result, error) {
	sizes := make([]int, len(variants))
	for i, v := range variants {
		var err error
		if sizes[i], err = plan.size(ctx, v); err != nil {
			return nil, err
		}
	}
	turns := make([][]turn, len(variants)) // by variant and round
	for round := range plan.Rounds {
		for k := range variants {
			i := (round + k) % len(variants) // nobody is always the first
			t, err := plan.take(ctx, variants[i], sizes[i])
			if err != nil {
				return nil, err
			}
			turns[i] = append(turns[i], t)
		}
	}
	results := make([]Result, len(variants))
	for i, v := range variants {
		results[i] = summarize(v.Name, turns[i], turns[0])
	}
	return results, nil
}

// size finds how many fill a turn. It also warms up. It goes by the quickest of several
// tries: a try that something came between would make the turns too short to tell.
func (p Plan) size(ctx context.Context, v Variant) (int, error) {
	quickest := p.Turn
	for n, long := 1, 0; long < 5; {
		t, err := p.take(ctx, v, n)
		if err != nil {
			return 0, err
		}
		if t.time*time.Duration(n) < p.Turn/4 {
			n *= 2 // too short to tell: CPU time is counted in microseconds
			continue
		}
		quickest = min(quickest, t.time)
		long++
	}
	return max(1, int(p.Turn/quickest)), nil
}

// take runs a variant n times. The garbage of whoever ran before is not its own.
func (p Plan) take(ctx context.Context, v Variant, n int) (turn, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, cpuStart := time.Now(), CPUTime()
	err := v.Run(ctx, n)
	taken := time.Since(start)
	if p.CPU {
		taken = CPUTime() - cpuStart
	}
	runtime.ReadMemStats(&after)
	if err != nil {
		return turn{}, fmt.Errorf("%s: %w", v.Name, err)
	}
	return turn{
		time:   taken / time.Duration(n),
		allocs: float64(after.Mallocs-before.Mallocs) / float64(n),
		bytes:  float64(after.TotalAlloc-before.TotalAlloc) / float64(n),
	}, nil
}

func summarize(name string, turns, first []turn) Result {
	var times, overs []time.Duration
	var ratios, allocs, bytes []float64
	for round, t := range turns {
		times = append(times, t.time)
		overs = append(overs, t.time-first[round].time)
		ratios = append(ratios, float64(t.time)/float64(first[round].time))
		allocs = append(allocs, t.allocs)
		bytes = append(bytes, t.bytes)
	}
	return Result{
		Name: name, Time: Quantile(times, 0.5), Over: Quantile(overs, 0.5),
		Ratio: Quantile(ratios, 0.5), Low: Quantile(ratios, 0.25), High: Quantile(ratios, 0.75),
		Allocs: Quantile(allocs, 0.5), Bytes: Quantile(bytes, 0.5),
	}
}

// Quantile returns the value below which the part q of all are; the zero value if there
// are none.
func Quantile[T cmp.Ordered](values []T, q float64) T {
	if len(values) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
