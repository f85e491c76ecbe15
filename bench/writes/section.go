package writes

import (
	"fmt"
	"math"
	"time"

	"freshread/bench/chart"
	"freshread/bench/report"
)

func section(outcomes []outcome) report.Section {
	s := report.Section{
		Name:  "writes",
		Title: "What a write pays",
		Question: "What does it cost to ask for the commit ID after each commit? A transaction of one `UPDATE` through `cluster.Write` is compared to the same through `database/sql`, " +
			"and on PostgreSQL to a commit that waits until the replica has applied it, which is another way to read one's own writes there. " +
			"Every commit is synced to the disk.",
	}
	table := report.Table{Columns: []string{"Server", "Write", "Round trips", "One client", "Ratio", fmt.Sprintf("%d at once, each", together), "Ratio"}}
	bars := chart.Bars{Title: "A write of one row, one client", Description: "Times beside the bare commit on the same server:"}
	for _, o := range outcomes {
		group := chart.Group{Name: o.server}
		for i, r := range o.alone {
			trips := o.bare
			if i == 1 {
				trips = o.captured
			}
			table.Rows = append(table.Rows, []string{
				o.server, r.Name, fmt.Sprintf("%.3g", trips), milliseconds(r.Time), ratio(r.Ratio),
				milliseconds(o.together[i].Time), ratio(o.together[i].Ratio),
			})
			text := fmt.Sprintf("%s, %s", ratio(r.Ratio), milliseconds(r.Time))
			group.Bars = append(group.Bars, chart.Bar{Label: names[i], Value: r.Ratio, Text: text, Series: []int{5, 0, 1}[i]})
			bars.Description += fmt.Sprintf(" %s, %s %s.", o.server, names[i], text)
		}
		bars.Groups = append(bars.Groups, group)
		if o.waitsForLate > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("With a replica that applies %v late, each synchronous commit takes %v. While that replica does not answer, no write returns. The commit ID costs the same whatever replicas do.",
				late, o.waitsForLate.Round(time.Millisecond)))
		}
	}
	s.Targets = []report.Target{target(outcomes)}
	s.Tables = []report.Table{table}
	s.Charts = []report.Chart{{File: "writes.svg", Alt: bars.Description, SVG: bars.SVG()}}
	return s
}

// names are those of the variants in a chart.
var names = []string{"bare commit", "with its commit ID", "synchronous"}

func target(outcomes []outcome) report.Target {
	least, most := math.Inf(1), math.Inf(-1)
	for _, o := range outcomes {
		least, most = min(least, o.captured-o.bare), max(most, o.captured-o.bare)
	}
	return report.Target{Want: "one round trip for the commit ID, on every engine", Got: fmt.Sprintf("%.3g", most), Met: least == 1 && most == 1}
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/1e6) }

func ratio(r float64) string { return fmt.Sprintf("%.2f", r) }
