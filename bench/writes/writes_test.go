package writes

import (
	"log/slog"
	"os"
	"testing"

	"freshread/bench/measure"
	"freshread/internal/stack/stacktest"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

func TestCommitIDCostsOneRoundTrip(t *testing.T) {
	stacktest.Only(t, "postgres")
	found, err := on(t.Context(), measure.Options{Quick: true, Log: slog.New(slog.DiscardHandler)}, "postgres")
	stacktest.Must(t, err)
	if found.bare != 3 || found.captured != 4 {
		t.Errorf("%v round trips bare, %v with the commit ID; want 3 and 4", found.bare, found.captured)
	}
	if len(found.alone) != 3 || found.waitsForLate < late {
		t.Errorf("a synchronous commit waited %v for a replica that is %v late", found.waitsForLate, late)
	}
	if !target([]outcome{found}).Met {
		t.Error("the target is not met")
	}
	for _, captured := range []float64{found.bare, found.bare + 2} {
		found.captured = captured
		if target([]outcome{found}).Met {
			t.Errorf("%v round trips more meet the target", captured-found.bare)
		}
	}
}
