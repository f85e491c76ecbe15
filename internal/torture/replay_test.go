package torture

import (
	"slices"
	"testing"
	"time"
)

func steps(seed uint64, round, session int, kind string) []step {
	p := newPlan(seed, round, session, kind, 5)
	var all []step
	for range 500 {
		all = append(all, p.next())
	}
	return all
}

func faults(seed uint64, round, target int, d deck) []plannedFault {
	s := newSchedule(seed, round, target, d, time.Second)
	var all []plannedFault
	for range 50 {
		all = append(all, s.next())
	}
	return all
}

func TestTheSeedSaysEverything(t *testing.T) {
	for kind := range weights {
		want := steps(7, 0, 1, kind)
		if !slices.Equal(steps(7, 0, 1, kind), want) {
			t.Errorf("%s: the same seed gives other steps", kind)
		}
		for name, other := range map[string][]step{
			"seed": steps(8, 0, 1, kind), "round": steps(7, 1, 1, kind), "session": steps(7, 0, 2, kind),
		} {
			if slices.Equal(other, want) {
				t.Errorf("%s: another %s gives the same steps", kind, name)
			}
		}
	}
	want := faults(7, 0, 1, primaryFaults)
	if !slices.Equal(faults(7, 0, 1, primaryFaults), want) {
		t.Error("the same seed gives other faults")
	}
	for name, other := range map[string][]plannedFault{
		"seed": faults(8, 0, 1, primaryFaults), "round": faults(7, 1, 1, primaryFaults), "target": faults(7, 0, 2, primaryFaults),
	} {
		if slices.Equal(other, want) {
			t.Errorf("another %s gives the same faults", name)
		}
	}
}

func TestEveryStepAndFaultHappens(t *testing.T) {
	for kind, all := range weights {
		for a := range all {
			if !slices.ContainsFunc(steps(1, 0, 1, kind), func(s step) bool { return s.action == a }) {
				t.Errorf("%s: in 500 steps it does not %s", kind, a)
			}
		}
	}
	for _, d := range []deck{replicaFaults, primaryFaults, processFaults, queueFaults} {
		first := faults(1, 0, 1, d)[:len(d)]
		for _, kind := range d {
			if !slices.ContainsFunc(first, func(f plannedFault) bool { return f.kind == kind }) {
				t.Errorf("of the first %d faults none is %q", len(d), kind)
			}
		}
	}
}
