// Command bench measures what routing costs and what it spares, and writes it to
// docs/bench. `make bench` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"freshread/bench/growth"
	"freshread/bench/measure"
	"freshread/bench/page"
	"freshread/bench/report"
	"freshread/bench/roundtrips"
	"freshread/bench/routing"
	"freshread/bench/stale"
	"freshread/bench/writes"
)

// measurements are all there are, in the order of the report.
func measurements() []measure.Measurement {
	return []measure.Measurement{
		routing.Measurement(),
		page.Measurement(),
		roundtrips.Measurement(),
		stale.Measurement(),
		writes.Measurement(),
		growth.Measurement(),
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

var errMissed = errors.New("a target was not met")

// command is what the program was called with.
type command struct {
	measurements []measure.Measurement
	options      measure.Options
	dir          string // of the report
	profile      string // file for a CPU profile; none if empty
}

// run measures, and saves each section at once: a later one may fail. That a target was
// not met is an error, after all has been measured, unless the figures mean nothing.
func run(ctx context.Context, args []string, out io.Writer) error {
	c, err := parse(args, out)
	if err != nil {
		return err
	}
	if c.options.Quick {
		if c.dir, err = os.MkdirTemp("", "freshread-bench-"); err != nil {
			return err
		}
		defer os.RemoveAll(c.dir)
	}
	stopProfile, err := startProfile(c.profile)
	if err != nil {
		return err
	}
	defer stopProfile()
	book, err := report.Open(c.dir, names(measurements()))
	if err != nil {
		return err
	}
	missed := false
	for _, m := range c.measurements {
		fmt.Fprintln(out, m.Name)
		start := time.Now()
		s, err := m.Run(ctx, c.options)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		servers := s.Machine.Servers
		s.Machine = report.ThisMachine()
		s.Machine.Servers = servers
		if err := book.Put(s); err != nil {
			return err
		}
		tell(out, s, c.options.Quick)
		fmt.Fprintf(out, "  took %v\n", time.Since(start).Round(100*time.Millisecond))
		missed = missed || slices.ContainsFunc(s.Targets, func(t report.Target) bool { return !t.Met })
	}
	if missed && !c.options.Quick {
		return errMissed
	}
	return nil
}

func parse(args []string, out io.Writer) (command, error) {
	all := measurements()
	c := command{options: measure.Options{Log: slog.New(slog.NewTextHandler(out, nil))}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: bench [flags] [measurement]...\nmeasurements: %s\n", strings.Join(names(all), ", "))
		flags.PrintDefaults()
	}
	flags.StringVar(&c.dir, "out", "docs/bench", "folder of the report")
	flags.BoolVar(&c.options.Quick, "quick", false, "only see that everything works: the figures mean nothing, and are not saved")
	flags.StringVar(&c.options.App, "app", "bin/app", "the program whose processes are measured")
	flags.StringVar(&c.options.Dir, "data", "", "folder for the servers' files (default: a temporary one)")
	flags.StringVar(&c.profile, "profile", "", "file for a CPU profile of what is measured, for go tool pprof")
	if err := flags.Parse(args); err != nil {
		return command{}, err
	}
	for _, name := range flags.Args() {
		if !slices.Contains(names(all), name) {
			return command{}, fmt.Errorf("no measurement %q; there are %s", name, strings.Join(names(all), ", "))
		}
	}
	for _, m := range all {
		if flags.NArg() == 0 || slices.Contains(flags.Args(), m.Name) {
			c.measurements = append(c.measurements, m)
		}
	}
	return c, nil
}

func names(all []measure.Measurement) []string {
	list := make([]string, len(all))
	for i, m := range all {
		list[i] = m.Name
	}
	return list
}

// startProfile profiles this process until it is told to stop.
func startProfile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, nil
}

// tell prints what came out.
func tell(out io.Writer, s report.Section, quick bool) {
	for _, t := range s.Targets {
		verdict := ": met"
		switch {
		case quick:
			verdict = ""
		case !t.Met:
			verdict = ": NOT MET"
		}
		fmt.Fprintf(out, "  %s: %s%s\n", t.Want, t.Got, verdict)
	}
}
