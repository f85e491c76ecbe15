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

func run(ctx context.Context, args []string, out io.Writer) error {
	all := measurements()
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.Name
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: bench [flags] [measurement]...\nmeasurements: %s\n", strings.Join(names, ", "))
		flags.PrintDefaults()
	}
	var o measure.Options
	dir := flags.String("out", "docs/bench", "folder of the report")
	flags.BoolVar(&o.Quick, "quick", false, "only see that everything works; the figures mean nothing, and go to a temporary folder")
	flags.StringVar(&o.App, "app", "bin/app", "the program whose processes are measured")
	flags.StringVar(&o.Dir, "data", "", "folder for the servers' files (default: a temporary one)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.Log = slog.New(slog.NewTextHandler(out, nil))
	for _, name := range flags.Args() {
		if !slices.Contains(names, name) {
			return fmt.Errorf("no measurement %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	if o.Quick {
		temporary, err := os.MkdirTemp("", "freshread-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		*dir = temporary
	}
	book, err := report.Open(*dir, names)
	if err != nil {
		return err
	}
	for _, m := range all {
		if flags.NArg() > 0 && !slices.Contains(flags.Args(), m.Name) {
			continue
		}
		if err := one(ctx, m, o, book, out); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// one makes a measurement and saves it at once: a later one may fail.
func one(ctx context.Context, m measure.Measurement, o measure.Options, book *report.Book, out io.Writer) error {
	start := time.Now()
	fmt.Fprintf(out, "%s\n", m.Name)
	s, err := m.Run(ctx, o)
	if err != nil {
		return err
	}
	servers := s.Machine.Servers
	s.Machine = report.ThisMachine()
	s.Machine.Servers = servers
	if err := book.Put(s); err != nil {
		return err
	}
	for _, t := range s.Targets {
		met := "met"
		if !t.Met {
			met = "NOT MET"
		}
		fmt.Fprintf(out, "  %s: %s: %s\n", t.Want, t.Got, met)
	}
	fmt.Fprintf(out, "  took %v\n", time.Since(start).Round(100*time.Millisecond))
	return nil
}
