package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"text/tabwriter"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/lab"
)

var errLabFailed = errors.New("an experiment did not show what it must")

// labDelay is how late the replica of an experiment is.
const labDelay = 3 * time.Second

// runLab runs experiments on servers of its own, one after the other.
func runLab(ctx context.Context, args []string, std streams) (err error) {
	flags := flag.NewFlagSet("lab", flag.ContinueOnError)
	list := flags.Bool("list", false, "list the experiments and stop")
	engine := flags.String("engine", "postgres", "database: postgres, mysql or mariadb")
	delay := flags.Duration("delay", labDelay, "how late the replica applies; 0 pauses it for as long as it takes")
	dir := flags.String("data", "", "folder for the servers' files (default: a temporary one)")
	asJSON := flags.Bool("json", false, "print results as JSON")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Usage: app lab [flags] [EXPERIMENT…]   (all of them if none is named)")
		flags.PrintDefaults()
	}
	names, err := parseFlags(flags, args, std)
	if err != nil {
		return err
	}
	if err := errors.Join(checkEngine(*engine), checkDelay(*engine, *delay)); err != nil {
		return err
	}
	experiments, err := chooseExperiments(names)
	if err != nil {
		return err
	}
	if *list {
		return listExperiments(experiments, dbroute.Engine(*engine), std)
	}
	log := slog.New(slog.NewTextHandler(std.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	local, err := lab.StartLocal(ctx, lab.LocalConfig{
		Engine: *engine, Delays: make([]time.Duration, 1), Dir: *dir, Log: log, OwnQueue: true,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	runner := &lab.Runner{
		Stack: local.Stack, Cluster: local.Cluster, Cache: local.Cache, Log: log, Dir: *dir, QueueURL: local.QueueURL,
		Lag: *delay, Pace: lab.Pace(*delay),
	}
	return runAll(ctx, runner, experiments, *asJSON, std)
}

func runAll(ctx context.Context, runner *lab.Runner, experiments []lab.Experiment, asJSON bool, std streams) error {
	failed := false
	for i, e := range experiments {
		result, err := runner.Run(ctx, e)
		if err != nil {
			return err
		}
		failed = failed || !result.OK()
		switch {
		case asJSON:
			err = json.NewEncoder(std.out).Encode(result)
		default:
			if i > 0 {
				fmt.Fprintln(std.out)
			}
			err = result.Print(std.out)
		}
		if err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	if failed {
		return errLabFailed
	}
	return nil
}

func chooseExperiments(names []string) ([]lab.Experiment, error) {
	all := lab.Experiments()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []lab.Experiment
	for _, name := range names {
		i := slices.IndexFunc(all, func(e lab.Experiment) bool { return e.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no experiment %q: app lab --list names them", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func listExperiments(experiments []lab.Experiment, engine dbroute.Engine, std streams) error {
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	for _, e := range experiments {
		fmt.Fprintf(table, "%s\t%s\n", e.Name, e.Question)
		if why := e.NotOn(engine); why != "" {
			fmt.Fprintf(table, "\tNot on %s: %s\n", engine, why)
		}
	}
	return table.Flush()
}
