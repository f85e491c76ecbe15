package roundtrips

import (
	"log/slog"
	"os"
	"testing"

	"freshread/bench/measure"
	"freshread/internal/stack/stacktest"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

func TestTargetsAreMet(t *testing.T) {
	stacktest.Only(t, "postgres")
	s, err := run(t.Context(), measure.Options{Quick: true, Log: slog.New(slog.DiscardHandler)})
	stacktest.Must(t, err)
	for _, target := range s.Targets {
		if !target.Met {
			t.Errorf("not met: %+v", target)
		}
	}
}

func TestAnyOtherNumberMissesTheTarget(t *testing.T) {
	as := func(more float64) counts {
		return counts{
			anonymous: trips{all: 2 + more, reads: 2},
			signedIn:  trips{all: 4 + more, reads: 3, guarded: 1},
			pending:   trips{all: 6 + more, reads: 3, guarded: 1},
			first:     trips{all: 5 + more, reads: 3, guarded: 1},
			reached:   trips{all: 4 + more, reads: 3, guarded: 1},
		}
	}
	for _, more := range []float64{0, 0.1, -2} {
		for _, target := range section([]counts{as(0), as(more)}, []string{"a", "b"}).Targets {
			if target.Met != (more == 0) {
				t.Errorf("with %v more: %+v", more, target)
			}
		}
	}
}
