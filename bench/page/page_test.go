package page

import (
	"os"
	"strings"
	"testing"
	"time"

	"freshread/bench/servers"
	"freshread/bench/trial"
	"freshread/internal/stack/stacktest"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

func TestBothServeTheSamePage(t *testing.T) {
	stacktest.Only(t, "postgres")
	s := &servers.Servers{Stack: stacktest.Start(t, "postgres", 1), Engine: "postgres"}
	stacktest.Must(t, s.CreateDatabase(t.Context(), "bench"))
	t.Cleanup(func() { stacktest.Must(t, s.Close()) })
	both, err := serve(t.Context(), s)
	stacktest.Must(t, err)
	stacktest.Must(t, both.same(t.Context()))
	page, err := both.site.get(t.Context())
	stacktest.Must(t, err)
	if !strings.Contains(page, "data-comment") {
		t.Errorf("the page has no comments: %s", page)
	}
}

func TestLessThroughputMissesTheTarget(t *testing.T) {
	for _, c := range []struct {
		ratio, spread float64
		want          bool
	}{{1.1, 1.2, true}, {1.3, 1.2, false}, {1.1, 1.5, false}} {
		site := trial.Result{Ratio: c.ratio, Time: time.Millisecond, Low: c.ratio, High: c.ratio * c.spread}
		made := section([]trial.Result{{Ratio: 1, Time: time.Millisecond}, site})
		if got := made.Targets[0].Met; got != c.want {
			t.Errorf("at %.2f of the time, and a spread of %.1f, met is %v", c.ratio, c.spread, got)
		}
	}
}
