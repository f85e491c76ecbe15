// Package page measures what the site makes of a page that bare echo could serve too.
package page

import (
	"context"
	"errors"
	"fmt"
	"time"

	"freshread/bench/app"
	"freshread/bench/chart"
	"freshread/bench/measure"
	"freshread/bench/report"
	"freshread/bench/servers"
	"freshread/bench/trial"
)

// minRatio is what part of the throughput of bare echo the site is to have.
const minRatio = 0.85

// maxSpread is how far the rounds may lie apart for their median to tell anything.
const maxSpread = 1.3

// clients is how many ask at the same time.
const clients = 4

const path = "/posts/1"

// Measurement is this measurement.
func Measurement() measure.Measurement { return measure.Measurement{Name: "page", Run: run} }

func run(ctx context.Context, o measure.Options) (made report.Section, err error) {
	s, err := servers.Start(ctx, o, "postgres", 1, nil)
	if err != nil {
		return report.Section{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	both, err := serve(ctx, s)
	if err != nil {
		return report.Section{}, err
	}
	if err := both.same(ctx); err != nil {
		return report.Section{}, err
	}
	results, err := trial.Compare(ctx, o.Plan(81, 100*time.Millisecond),
		trial.Variant{Name: "bare echo", Run: both.bare.gets},
		trial.Variant{Name: "the site", Run: both.site.gets})
	if err != nil {
		return report.Section{}, err
	}
	made = section(results)
	made.Machine.Servers = []string{s.Name()}
	return made, nil
}

// pair is the two that serve the same page.
type pair struct{ bare, site *visitors }

func serve(ctx context.Context, s *servers.Servers) (*pair, error) {
	if err := app.Prepare(ctx, s); err != nil {
		return nil, err
	}
	cfg := s.Config()
	site, err := app.New(ctx, s, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.Watch(ctx, site.Cluster); err != nil {
		return nil, err
	}
	_, replica, err := s.DBs(cfg)
	if err != nil {
		return nil, err
	}
	e, err := newBare(replica)
	if err != nil {
		return nil, err
	}
	return &pair{newVisitors(s, e), newVisitors(s, site)}, nil
}

// same fails unless both send the same page: one that does less would be quicker.
func (p *pair) same(ctx context.Context) error {
	bare, err := p.bare.get(ctx)
	if err != nil {
		return err
	}
	site, err := p.site.get(ctx)
	if err != nil {
		return err
	}
	if bare != site {
		return fmt.Errorf("bare echo and the site send different pages:\n%s\n%s", bare, site)
	}
	return nil
}

func section(results []trial.Result) report.Section {
	bare, site := results[0], results[1]
	throughput := 1 / site.Ratio
	s := report.Section{
		Name:  "page",
		Title: "A page",
		Question: fmt.Sprintf("What part of its throughput does an anonymous `GET %s` keep, through everything that the site is: log line, security headers, scope, strategy, markers? "+
			"Beside it is a bare echo handler with the same statements and the same template, which sends the same bytes. "+
			"%d clients ask both over HTTP on this machine, which also runs the database.", path, clients),
		Targets: []report.Target{{
			Want: fmt.Sprintf("at least %.2f of the throughput of bare echo", minRatio),
			Got:  fmt.Sprintf("%.2f, half of the rounds between %.2f and %.2f", throughput, 1/site.High, 1/site.Low),
			Met:  throughput >= minRatio && site.High <= maxSpread*site.Low,
		}},
		Notes: []string{"Allocations are of the whole process, its clients included."},
	}
	table := report.Table{Columns: []string{"Served by", "Pages a second", "Throughput", "Half of the rounds between", "Allocations"}}
	var group chart.Group
	for i, r := range []trial.Result{bare, site} {
		second := float64(time.Second) / float64(r.Time)
		table.Rows = append(table.Rows, []string{
			r.Name, fmt.Sprintf("%.0f", second), fmt.Sprintf("%.2f", 1/r.Ratio),
			fmt.Sprintf("%.2f–%.2f", 1/r.High, 1/r.Low), fmt.Sprintf("%.0f", r.Allocs),
		})
		group.Bars = append(group.Bars, chart.Bar{Label: r.Name, Value: 1 / r.Ratio, Text: fmt.Sprintf("%.2f", 1/r.Ratio), Series: 5 - 5*i})
	}
	bars := chart.Bars{
		Title: "Throughput of an anonymous page", Description: fmt.Sprintf("Bare echo 1, the site %.2f.", throughput),
		Groups: []chart.Group{group}, Mark: minRatio, MarkText: fmt.Sprintf("target: %.2f", minRatio),
	}
	s.Tables = []report.Table{table}
	s.Charts = []report.Chart{{File: "page.svg", Alt: bars.Description, SVG: bars.SVG()}}
	return s
}
