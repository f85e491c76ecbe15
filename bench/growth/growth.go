// Package growth measures what a request costs as there come to be more of everything.
package growth

import (
	"context"
	"fmt"
	"strings"
	"time"

	"freshread/bench/chart"
	"freshread/bench/measure"
	"freshread/bench/report"
	"freshread/bench/trial"
)

// Measurement is this measurement.
func Measurement() measure.Measurement { return measure.Measurement{Name: "growth", Run: run} }

// flat is how much more than at first something may cost at last and still be called flat.
const flat = 1.25

func run(ctx context.Context, o measure.Options) (report.Section, error) {
	s := report.Section{
		Name:  "growth",
		Title: "Growth",
		Question: "What does a request cost as there are more replicas, more processes, more sessions with markers, longer sets of GTIDs, more jobs that wait? " +
			"It should cost the same, but for what must grow. By replicas, sessions and GTIDs the cost is the CPU time of a request with one read, on a driver that answers from memory; by processes and jobs it is measured on real servers.",
	}
	for _, part := range []func(context.Context, measure.Options, *report.Section) error{
		replicas, sessions, gtids, processes, jobs,
	} {
		if err := part(ctx, o, &s); err != nil {
			return report.Section{}, err
		}
	}
	return s, nil
}

// curve is what one kind of request costs at each step.
type curve struct {
	name    string
	results []trial.Result // by step; the first is what the others are compared to
}

// repeat makes n requests.
type repeat func(ctx context.Context, n int) error

// compare measures one kind of request at each step.
func compare(ctx context.Context, o measure.Options, name string, steps []int, at func(step int) (repeat, error)) (curve, error) {
	var variants []trial.Variant
	for _, step := range steps {
		run, err := at(step)
		if err != nil {
			return curve{}, fmt.Errorf("%s at %d: %w", name, step, err)
		}
		variants = append(variants, trial.Variant{Name: fmt.Sprintf("%s at %d", name, step), Run: run})
	}
	results, err := trial.Compare(ctx, o.InMemory(31, 20*time.Millisecond), variants...)
	return curve{name, results}, err
}

// growth is by how much the cost at the last step exceeds that at the first, as a ratio.
func (c curve) growth() float64 { return c.results[len(c.results)-1].Ratio }

// draw adds a table and a chart of curves to a section.
func draw(s *report.Section, file, of string, steps []int, curves ...curve) {
	table := report.Table{Title: "By " + of, Columns: []string{"Request"}}
	lines := chart.Lines{Title: "A request, by " + of, X: of, Y: "µs"}
	for _, step := range steps {
		table.Columns = append(table.Columns, thousands(step))
		lines.Steps = append(lines.Steps, thousands(step))
	}
	table.Columns = append(table.Columns, "Last to first")
	lines.Description = "Time of one request at " + strings.Join(lines.Steps, ", ") + "."
	for _, c := range curves {
		row, series := []string{c.name}, chart.Series{Name: c.name}
		for _, r := range c.results {
			row = append(row, fmt.Sprintf("%.2f µs", float64(r.Time)/1e3))
			series.Values = append(series.Values, float64(r.Time)/1e3)
		}
		table.Rows = append(table.Rows, append(row, fmt.Sprintf("%.2f", c.growth())))
		lines.Series = append(lines.Series, series)
		lines.Description += fmt.Sprintf(" %s: %s.", c.name, strings.Join(row[1:], ", "))
	}
	s.Tables = append(s.Tables, table)
	s.Charts = append(s.Charts, report.Chart{File: file, Alt: lines.Description, SVG: lines.SVG()})
}

// wantFlat adds the target that curves do not grow.
func wantFlat(s *report.Section, what string, curves ...curve) {
	worst := 0.0
	for _, c := range curves {
		worst = max(worst, c.growth())
	}
	s.Targets = append(s.Targets, report.Target{
		Want: what, Got: fmt.Sprintf("%.2f times as much", worst), Met: worst <= flat,
	})
}

// thousands writes 10000 as 10,000.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
