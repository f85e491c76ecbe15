package torture

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is what a run has shown.
type Report struct {
	Options
	Version    string
	Violations []Violation

	begun      time.Time
	rounds     int
	worked     time.Duration
	operations int // that were answered
	sent       int
	kinds      map[string]int
	results    map[string]int
	faults     map[string]int
	slowest    *Op // by its bound
	bound      time.Duration
	onReplica  int
	reads      int
}

// add takes in a round, and tells at once what was broken in it.
func (r *Report) add(h *History, progress io.Writer) {
	if r.kinds == nil {
		r.kinds, r.results, r.faults = map[string]int{}, map[string]int{}, map[string]int{}
	}
	r.rounds++
	r.worked += h.Worked
	found := Check(h)
	r.Violations = append(r.Violations, found...)
	var b strings.Builder
	printViolations(&b, found)
	io.WriteString(progress, b.String())
	r.sent += len(h.Ops)
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.answered() {
			r.operations++
		}
		r.kinds[kindOfOp(o)]++
		r.results[outcomeOf(o)]++
		if bound := h.bound(o); r.slowest == nil || share(o, bound) > share(r.slowest, r.bound) {
			r.slowest, r.bound = o, bound
		}
		if strings.HasPrefix(o.Action, "GET") && len(o.Servers) > 0 {
			r.reads++
			if o.Servers[len(o.Servers)-1].Replica {
				r.onReplica++
			}
		}
	}
	for _, f := range h.Faults {
		target, _, _ := strings.Cut(f.Target, " ")
		r.faults[target+" "+string(f.Kind)]++
	}
}

// share is how much of its bound an operation has taken.
func share(o *Op, bound time.Duration) float64 { return float64(o.End-o.Start) / float64(bound) }

// kindOfOp is what was asked for, without its numbers.
func kindOfOp(o *Op) string {
	path, _, _ := strings.Cut(o.Action, "?")
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if part != "" && strings.Trim(part, "0123456789") == "" {
			parts[i] = ":id"
		}
	}
	return strings.Join(parts, "/")
}

func outcomeOf(o *Op) string {
	switch {
	case o.Cut:
		return "client went away"
	case o.Status == 0:
		return "no answer"
	}
	return fmt.Sprint(o.Status)
}

// String tells the run in one line.
func (r *Report) String() string {
	return fmt.Sprintf("%d operations answered of %d sent, %d faults, %d violations, %.0f%% of pages read on replicas",
		r.operations, r.sent, sum(r.faults), len(r.Violations), 100*float64(r.onReplica)/float64(max(r.reads, 1)))
}

func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// mostShown is how many violations of a rule are shown in full.
const mostShown = 3

// Print prints the report.
func (r *Report) Print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s %s, seed %d: %s, in %d rounds and %.0fs\n", r.Engine, r.Version, r.Seed, r, r.rounds, time.Since(r.begun).Seconds())
	table(&b, "operations", r.kinds)
	table(&b, "answers", r.results)
	table(&b, "faults", r.faults)
	if r.slowest != nil {
		fmt.Fprintf(&b, "\nslowest answer by its bound: %.1fs, of %v allowed\n  %s\n", (r.slowest.End - r.slowest.Start).Seconds(), r.bound, r.slowest)
	}
	shown := printViolations(&b, r.Violations)
	for _, rule := range slices.Sorted(maps.Keys(shown)) {
		fmt.Fprintf(&b, "\n%s: %d violations\n", rule, shown[rule])
	}
	if len(r.Violations) > 0 {
		fmt.Fprintf(&b, "\nagain: app torture --engine %s --seed %d --duration %v --operations %d --replicas %d --processes %d\n",
			r.Engine, r.Seed, r.Duration, r.Operations, r.Replicas, r.Processes)
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// printViolations prints the first ones of each rule, and returns how many there are.
func printViolations(b *strings.Builder, violations []Violation) map[Rule]int {
	counts := map[Rule]int{}
	for i := range violations {
		v := &violations[i]
		if counts[v.Rule]++; counts[v.Rule] <= mostShown {
			v.print(b)
		}
	}
	return counts
}

func (v *Violation) print(b *strings.Builder) {
	fmt.Fprintf(b, "\nVIOLATION of %s: %s\n", v.Rule, v.Text)
	for _, o := range v.Ops {
		fmt.Fprintf(b, "  %s\n", o)
	}
	for _, f := range v.Faults {
		fmt.Fprintf(b, "    fault %s\n", f)
	}
}

func table(b *strings.Builder, title string, counts map[string]int) {
	fmt.Fprintf(b, "\n%s\n", title)
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(b, "%9d  %s\n", counts[key], key)
	}
}
