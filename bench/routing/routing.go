// Package routing measures what it costs to route a read.
package routing

import (
	"context"
	"fmt"
	"time"

	"freshread/bench/chart"
	"freshread/bench/measure"
	"freshread/bench/report"
	"freshread/bench/trial"
)

// What one read may cost beyond database/sql.
const (
	maxAllocs = 3
	maxTime   = 2 * time.Microsecond
)

// Measurement is this measurement.
func Measurement() measure.Measurement { return measure.Measurement{Name: "routing", Run: run} }

func run(ctx context.Context, o measure.Options) (report.Section, error) {
	variants, err := variants(ctx)
	if err != nil {
		return report.Section{}, err
	}
	results, err := trial.Compare(ctx, o.InMemory(61, 20*time.Millisecond), variants...)
	if err != nil {
		return report.Section{}, err
	}
	return section(results), nil
}

// section takes results in the order of variants.
func section(results []trial.Result) report.Section {
	bare, read, request := results[0], results[inScope], results[withMarker]
	allocs, requestAllocs := read.Allocs-bare.Allocs, request.Allocs-bare.Allocs
	s := report.Section{
		Name:  "routing",
		Title: "Routing overhead",
		Question: "What does one read by primary key cost through `dbroute`, beyond the same statement through `database/sql` alone, on the very same pool? " +
			"The driver answers from memory, so that no network and no server hides it. Times are CPU time, garbage collection included.",
		Targets: []report.Target{
			{
				Want: fmt.Sprintf("at most %d allocations more than `database/sql`", maxAllocs),
				Got:  fmt.Sprintf("%.0f more; %.0f for a whole request with a marker", allocs, requestAllocs),
				Met:  max(allocs, requestAllocs) < maxAllocs+0.5,
			},
			{
				Want: fmt.Sprintf("at most %v more than `database/sql`", maxTime),
				Got:  fmt.Sprintf("%s more; %s for a whole request with a marker", microseconds(read.Over), microseconds(request.Over)),
				Met:  read.Over <= maxTime,
			},
		},
		Notes: []string{
			"A request makes one scope, and decides once: its first read costs what “a whole request” does, and each further one what “in a scope” does. " +
				"Both pools of gorm's `dbresolver` are those of `dbroute` too. " +
				"Over a network the read itself takes far longer, and these microseconds are lost in it.",
		},
	}
	table := report.Table{Columns: []string{"One read", "Time", "Beyond `database/sql`", "Ratio", "Allocations", "Bytes"}}
	bars := chart.Bars{
		Title: "One read by primary key, driver in memory", Description: "Time of one read, by what routes it:",
		Mark: float64(bare.Time+maxTime) / 1e3, MarkText: "target: 2 µs beyond database/sql",
	}
	var group chart.Group
	for i, r := range results {
		table.Rows = append(table.Rows, []string{
			r.Name, microseconds(r.Time), microseconds(r.Over), fmt.Sprintf("%.2f", r.Ratio),
			fmt.Sprintf("%.0f", r.Allocs), fmt.Sprintf("%.0f", r.Bytes),
		})
		text := fmt.Sprintf("%s, %.0f allocs", microseconds(r.Time), r.Allocs)
		group.Bars = append(group.Bars, chart.Bar{Label: plain(r.Name), Value: float64(r.Time) / 1e3, Text: text, Series: series(i)})
		bars.Description += fmt.Sprintf(" %s %s.", plain(r.Name), text)
	}
	bars.Groups = []chart.Group{group}
	s.Tables = []report.Table{table}
	s.Charts = []report.Chart{{File: "routing.svg", Alt: bars.Description, SVG: bars.SVG()}}
	return s
}

// series gives database/sql, dbroute and gorm a colour each.
func series(variant int) int {
	switch {
	case variant == 0:
		return 5
	case variant < firstPeer:
		return 0
	}
	return 1
}
