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
	for ratio, want := range map[float64]bool{1.1: true, 1.3: false} {
		made := section([]trial.Result{{Ratio: 1, Time: time.Millisecond}, {Ratio: ratio, Time: time.Millisecond}})
		if got := made.Targets[0].Met; got != want {
			t.Errorf("at %.2f of the time, met is %v", ratio, got)
		}
	}
}
