package trial_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"freshread/bench/trial"
)

// By the clock this would tell more of what else the machine does.
var quick = trial.Plan{Rounds: 9, Turn: 4 * time.Millisecond, CPU: true}

// spin keeps a core busy for so many steps, n times.
func spin(steps int) func(context.Context, int) error {
	x := uint64(1)
	return func(_ context.Context, n int) error {
		for range n * steps {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		if x == 0 {
			return errors.New("the steps do nothing")
		}
		return nil
	}
}

func TestTwiceTheWorkIsARatioOfTwo(t *testing.T) {
	results, err := trial.Compare(t.Context(), quick,
		trial.Variant{Name: "once", Run: spin(20_000)},
		trial.Variant{Name: "twice", Run: spin(40_000)})
	if err != nil {
		t.Fatal(err)
	}
	if r := results[1]; r.Name != "twice" || r.Ratio < 1.5 || r.Ratio > 2.7 || r.Over < results[0].Time/2 {
		t.Errorf("got %+v beside %+v", r, results[0])
	}
	if r := results[0]; r.Ratio != 1 || r.Over != 0 {
		t.Errorf("the first beside itself is %+v", r)
	}
}

func TestAllocationsAreCountedEach(t *testing.T) {
	var keep []byte
	results, err := trial.Compare(t.Context(), quick,
		trial.Variant{Name: "three", Run: func(_ context.Context, n int) error {
			for range 3 * n {
				keep = make([]byte, 100)
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if got := results[0].Allocs; got < 3 || got > 3.2 || len(keep) != 100 {
		t.Errorf("%.2f allocations, want 3", got)
	}
}

func TestAnErrorEndsIt(t *testing.T) {
	broken := errors.New("broken")
	_, err := trial.Compare(t.Context(), quick,
		trial.Variant{Name: "bad", Run: func(context.Context, int) error { return broken }})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestQuantile(t *testing.T) {
	values := []int{5, 1, 4, 2, 3}
	for q, want := range map[float64]int{0: 1, 0.25: 2, 0.5: 3, 0.75: 4, 1: 5} {
		if got := trial.Quantile(values, q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	if got := trial.Quantile([]int{}, 0.5); got != 0 {
		t.Errorf("quantile of nothing is %d", got)
	}
}
