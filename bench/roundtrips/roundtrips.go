// Package roundtrips counts how often a request goes to a database server and back.
package roundtrips

import (
	"context"
	"errors"
	"fmt"
	"math"

	"freshread/bench/chart"
	"freshread/bench/measure"
	"freshread/bench/report"
	"freshread/bench/servers"
)

// replicas is enough for a pending marker to be asked about as often as it ever is.
const replicas = 2

// Measurement is this measurement.
func Measurement() measure.Measurement { return measure.Measurement{Name: "roundtrips", Run: run} }

func run(ctx context.Context, o measure.Options) (report.Section, error) {
	var all []counts
	var names []string
	for _, engine := range measure.Either(o, servers.Engines(), []string{"postgres"}) {
		n, name, err := on(ctx, o, engine)
		if err != nil {
			return report.Section{}, fmt.Errorf("%s: %w", engine, err)
		}
		all, names = append(all, n), append(names, name)
	}
	s := section(all, names)
	s.Machine.Servers = names
	return s, nil
}

func on(ctx context.Context, o measure.Options, engine string) (n counts, name string, err error) {
	s, err := servers.Start(ctx, o, engine, replicas, nil)
	if err != nil {
		return counts{}, "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	site, err := newCounted(ctx, s)
	if err != nil {
		return counts{}, "", err
	}
	n, err = site.all(ctx)
	return n, s.Name(), err
}

// row is one kind of request on all engines.
type row struct {
	name   string
	want   string
	figure func(trips) float64 // what the target is of
	least  float64             // less is not cheaper, but wrongly counted
	most   float64
	of     func(counts) trips
}

func rows() []row {
	return []row{
		{
			"a visitor who has written nothing", "none added for an anonymous reader",
			trips.added, 0, 0, func(n counts) trips { return n.anonymous },
		},
		{
			"signed in", "one added for a signed-in reader, the guard",
			trips.added, 1, 1, func(n counts) trips { return n.signedIn },
		},
		{
			"just saved, no replica has it", "at most two for a marker that is pending",
			trips.forMarker, 1, 2, func(n counts) trips { return n.pending },
		},
		{
			"the replicas have it, first page", "one, once, when a marker has become reached",
			trips.forMarker, 1, 1, func(n counts) trips { return n.first },
		},
		{
			"from then on", "none for a marker that is known to be reached",
			trips.forMarker, 0, 0, func(n counts) trips { return n.reached },
		},
	}
}

func section(all []counts, servers []string) report.Section {
	s := report.Section{
		Name:  "roundtrips",
		Title: "Round trips of a request",
		Question: "How many round trips to database servers does `GET " + page + "` make, and how many of them are the site's routing? " +
			"They are counted on the wire, by a proxy before each server. The page's own statements are what any site would send.",
		Notes: []string{
			"A site that asks the replica before each read makes two round trips for each statement.",
			fmt.Sprintf("There are %d replicas; with more, a pending marker costs no more: the client's own replica is asked, and the one that has got furthest.", replicas),
		},
	}
	table := report.Table{Columns: []string{"Request", "Own statements"}}
	table.Columns = append(append(table.Columns, servers...), "Guard", "Marker")
	bars := chart.Bars{Title: "Round trips of a page beyond its own statements", Description: "Guard and marker together, the most of all engines:"}
	var group chart.Group
	for _, r := range rows() {
		first := r.of(all[0])
		cells := []string{r.name, fmt.Sprint(first.reads)}
		least, figure, added := math.Inf(1), math.Inf(-1), 0.0
		for _, n := range all {
			t := r.of(n)
			cells = append(cells, fmt.Sprintf("%.3g", t.all))
			least, figure, added = min(least, r.figure(t)), max(figure, r.figure(t)), max(added, t.added())
		}
		table.Rows = append(table.Rows, append(cells, fmt.Sprint(first.guard()), fmt.Sprintf("%.3g", added-first.guard())))
		s.Targets = append(s.Targets, report.Target{Want: r.want, Got: fmt.Sprintf("%.3g", figure), Met: least >= r.least && figure <= r.most})
		group.Bars = append(group.Bars, chart.Bar{Label: r.name, Value: added, Text: fmt.Sprintf("%.3g", added)})
		bars.Description += fmt.Sprintf(" %s: %.3g.", r.name, added)
	}
	bars.Groups = []chart.Group{group}
	s.Tables = []report.Table{table}
	s.Charts = []report.Chart{{File: "roundtrips.svg", Alt: bars.Description, SVG: bars.SVG()}}
	return s
}
