package stale

import (
	"fmt"
	"time"

	"freshread/bench/chart"
	"freshread/bench/report"
)

// maxBeyond is how many more primary reads than the fewest possible there may be.
const maxBeyond = 0.05

func section(outcomes []outcome) report.Section {
	s := report.Section{
		Name:  "stale",
		Title: "Stale own reads, and reads on the primary",
		Question: "How often is somebody shown less than they have saved, and what part of all reads goes to the primary to avoid it? " +
			"Each session clicks every 200 ms on average. 1, 5 or 20 % of the clicks save something, and the page that shows it is read at once, as after a redirect. " +
			"Sessions of all strategies run on the same servers at the same time, for 20 s and twice the lag. " +
			"Before a session that has saved reads, the replica itself is asked whether it has what was saved; if it has not, the read *needs* the primary. " +
			"No strategy can do with fewer reads on the primary, unless it shows old data or makes the client wait.",
		Targets: targets(outcomes),
		Notes: []string{
			fmt.Sprintf("`window` reads the primary for %v after each save, `commit` until the replica has reached the save's commit ID. gorm's `dbresolver` sends each `SELECT` to the replica.", window),
			fmt.Sprintf("A window of %v is too long for a replica that is hardly late, and too short for one that is later than that: no one number is right for both.", window),
			"MySQL and MariaDB hold replicas back by whole seconds, and MySQL applies up to a second later than it is told.",
			"“Needed” differs by strategy, since each has sessions of its own, which save at different times. For strategies that read stale data it is what they would have needed.",
		},
	}
	for _, o := range outcomes {
		s.Tables = append(s.Tables, table(o))
	}
	s.Charts = charts(outcomes)
	return s
}

func targets(outcomes []outcome) []report.Target {
	var all Tally
	worst := 0.0
	for _, o := range outcomes {
		var at Tally
		for _, g := range o.groups {
			if g.strategy == commit {
				at.add(g.Tally)
			}
		}
		all.add(at)
		worst = max(worst, at.beyond())
	}
	return []report.Target{
		{
			Want: "no stale own read under `commit`",
			Got:  fmt.Sprintf("%d of %d", all.Stale, all.Reads), Met: all.Reads > 0 && all.Stale == 0,
		},
		{
			Want: "under `commit`, at every lag, within 5 % of the fewest reads on the primary that are possible",
			Got:  fmt.Sprintf("%d where %d were needed, %+.1f %%; at the worst lag %+.1f %%", all.Primary, all.Needed, 100*all.beyond(), 100*worst),
			Met:  worst <= maxBeyond,
		},
	}
}

// table has a row for each strategy, and columns for each part of saves.
func table(o outcome) report.Table {
	t := report.Table{
		Title:   fmt.Sprintf("%s, %s late: stale own reads, reads on the primary, and those that needed it", o.server, lag(o.lag)),
		Columns: []string{"Strategy"},
	}
	rows := map[string]int{}
	parts := map[float64]bool{}
	for _, g := range o.groups {
		if !parts[g.writes] {
			parts[g.writes] = true
			t.Columns = append(t.Columns, fmt.Sprintf("%.0f %% save: stale", 100*g.writes), "primary", "needed")
		}
		i, ok := rows[g.strategy]
		if !ok {
			i = len(t.Rows)
			rows[g.strategy] = i
			t.Rows = append(t.Rows, []string{g.strategy})
		}
		t.Rows[i] = append(t.Rows[i], percent(g.part(g.Stale)), percent(g.part(g.Primary)), percent(g.part(g.Needed)))
	}
	return t
}

// charted is the part of saves that the charts are of.
const charted = 0.05

func charts(outcomes []outcome) []report.Chart {
	stale := chart.Lines{Title: "Stale own reads, PostgreSQL, 5 % of requests save", X: "replication lag", Y: "% of reads"}
	primary := chart.Lines{Title: "Reads on the primary, PostgreSQL, 5 % of requests save", X: "replication lag", Y: "% of reads"}
	places := map[string]int{} // of the strategies among the lines
	for _, o := range outcomes {
		if o.engine != "postgres" {
			continue
		}
		stale.Steps, primary.Steps = append(stale.Steps, lag(o.lag)), append(primary.Steps, lag(o.lag))
		for _, g := range o.groups {
			if g.writes != charted {
				continue
			}
			i, ok := places[g.strategy]
			if !ok {
				i = len(places)
				places[g.strategy] = i
				stale.Series = append(stale.Series, chart.Series{Name: g.strategy})
				primary.Series = append(primary.Series, chart.Series{Name: g.strategy})
			}
			stale.Series[i].Values = append(stale.Series[i].Values, 100*g.part(g.Stale))
			primary.Series[i].Values = append(primary.Series[i].Values, 100*g.part(g.Primary))
		}
	}
	return []report.Chart{draw("stale.svg", stale), draw("stale-primary.svg", primary)}
}

func draw(file string, l chart.Lines) report.Chart {
	l.Description = l.Title + "."
	for _, s := range l.Series {
		l.Description += " " + s.Name + ":"
		for i, value := range s.Values {
			l.Description += fmt.Sprintf(" %.1f %% at %s,", value, l.Steps[i])
		}
		l.Description = l.Description[:len(l.Description)-1] + "."
	}
	return report.Chart{File: file, Alt: l.Description, SVG: l.SVG()}
}

func lag(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%d s", int(d.Seconds()))
}

func percent(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }
