package routing

import (
	"testing"
	"time"

	"freshread/bench/measure"
	"freshread/bench/trial"
)

// The times are of a busy machine, and too short to mean anything; the allocations hold
// wherever this runs.
func TestReadCostsAtMostThreeAllocations(t *testing.T) {
	s, err := run(t.Context(), measure.Options{Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Targets) != 2 || !s.Targets[0].Met {
		t.Errorf("the targets are %+v", s.Targets)
	}
	if rows := s.Tables[0].Rows; len(rows) != 7 {
		t.Errorf("%d variants were measured", len(rows))
	}
}

func TestMissedTargetsAreSaid(t *testing.T) {
	results := make([]trial.Result, 7)
	results[0] = trial.Result{Allocs: 10, Time: time.Microsecond}
	results[inScope] = trial.Result{Allocs: 12, Time: 4 * time.Microsecond, Over: 3 * time.Microsecond}
	results[withMarker] = trial.Result{Allocs: 14}
	for _, target := range section(results).Targets {
		if target.Met {
			t.Errorf("met: %+v", target)
		}
	}
}
