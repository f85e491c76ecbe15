package growth

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"freshread/bench/measure"
	"freshread/bench/report"
	"freshread/bench/servers"
	"freshread/bench/trial"
	"freshread/internal/stack/stacktest"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

func TestAtMostTwoReplicasAreAsked(t *testing.T) {
	for replicas, want := range map[int]float64{1: 1, 2: 2, 8: 2} {
		if got, err := questions(t.Context(), replicas); err != nil || got != want {
			t.Errorf("%v of %d replicas are asked, %v; want %v", got, replicas, err, want)
		}
	}
}

func TestNothingIsKeptForASession(t *testing.T) {
	if kept, err := keptFor(t.Context(), 20_000); err != nil || kept >= leastKept {
		t.Errorf("%.1f bytes each, %v", kept, err)
	}
}

func TestGrowthIsSaid(t *testing.T) {
	for ratio, want := range map[float64]bool{1.1: true, 1.5: false} {
		var s report.Section
		wantFlat(&s, "flat", curve{"steady", []trial.Result{{Ratio: 1}, {Ratio: 1}}}, curve{"grows", []trial.Result{{Ratio: 1}, {Ratio: ratio}}})
		if got := s.Targets[0]; got.Met != want {
			t.Errorf("at %v: %+v", ratio, got)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{1: "1", 999: "999", 1000: "1,000", 100_000: "100,000", 1_234_567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}

// However many wait, one asks for all, and all are told.
func TestJobsThatWait(t *testing.T) {
	stacktest.Only(t, "postgres")
	o := measure.Options{Quick: true, Log: slog.New(slog.DiscardHandler)}
	on, err := servers.Start(t.Context(), o, "postgres", 1, nil)
	stacktest.Must(t, err)
	t.Cleanup(func() { stacktest.Must(t, on.Close()) })
	l, err := newLine(t.Context(), on)
	stacktest.Must(t, err)
	w, err := l.median(t.Context(), 500, 1, 300*time.Millisecond)
	stacktest.Must(t, err)
	if w.asked < 1 || w.asked > 60 || w.told <= 0 {
		t.Errorf("500 that wait ask %.0f times a second, and are told after %v", w.asked, w.told)
	}
}
