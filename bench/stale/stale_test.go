package stale

import (
	"os"
	"testing"
	"time"

	"freshread/bench/servers"
	"freshread/internal/stack/stacktest"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

func TestTally(t *testing.T) {
	const want = 7
	fresh, old := int64(7), int64(6)
	for name, c := range map[string]struct {
		had      bool
		got      seen
		expected Tally
	}{
		"an old value is stale, and needed the primary": {false, seen{old, false}, Tally{Reads: 1, Stale: 1, Needed: 1}},
		"the primary was needed":                        {false, seen{fresh, true}, Tally{Reads: 1, Primary: 1, Needed: 1}},
		"the primary was not needed":                    {true, seen{fresh, true}, Tally{Reads: 1, Primary: 1}},
		"the replica had it":                            {true, seen{fresh, false}, Tally{Reads: 1}},
		"the replica got it meanwhile":                  {false, seen{fresh, false}, Tally{Reads: 1}},
		"an old value is stale whatever was there":      {true, seen{old, false}, Tally{Reads: 1, Stale: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var tally Tally
			tally.note(want, c.had, c.got)
			if tally != c.expected {
				t.Errorf("got %+v, want %+v", tally, c.expected)
			}
		})
	}
}

func TestOneReadTooManyInTenMissesTheTarget(t *testing.T) {
	met := func(primary, stale int) (freshness, economy bool) {
		list := targets([]outcome{{groups: []group{{strategy: commit, Tally: Tally{Reads: 100, Primary: primary, Needed: 10, Stale: stale}}}}})
		return list[0].Met, list[1].Met
	}
	if freshness, economy := met(10, 0); !freshness || !economy {
		t.Error("all was as it should be, and it is not met")
	}
	if _, economy := met(11, 0); economy {
		t.Error("11 reads where 10 were needed are within 5 %")
	}
	if freshness, _ := met(10, 1); freshness {
		t.Error("a stale read is none")
	}
}

// What the simulation tells of strategies whose behaviour is known.
func TestSimulation(t *testing.T) {
	stacktest.Only(t, "postgres")
	s := &servers.Servers{Stack: stacktest.Start(t, "postgres", 1), Engine: "postgres"}
	stacktest.Must(t, s.CreateDatabase(t.Context(), "bench"))
	t.Cleanup(func() { stacktest.Must(t, s.Close()) })
	site, err := newSite(t.Context(), s)
	stacktest.Must(t, err)
	groups, err := site.run(t.Context(), simulation{
		lag: 300 * time.Millisecond, length: 2 * time.Second, writes: []float64{0.2}, sessions: 8, think: 40 * time.Millisecond,
	})
	stacktest.Must(t, err)
	for _, g := range groups {
		t.Logf("%+v", g)
		ok := g.Reads > 20 && g.Needed > 0
		switch g.strategy {
		case "always primary":
			ok = ok && g.Stale == 0 && g.Primary == g.Reads && g.Needed < g.Reads
		case "always replica", "gorm dbresolver":
			ok = ok && g.Stale > 0 && g.Primary == 0 && g.Stale == g.Needed
		case "window":
			ok = ok && g.Stale == 0 && g.Primary > g.Needed
		case commit:
			ok = ok && g.Stale == 0 && g.Primary >= g.Needed && g.Primary < g.Reads
		}
		if !ok {
			t.Errorf("unexpected: %+v", g)
		}
	}
}
