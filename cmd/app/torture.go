package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"freshread/internal/torture"
)

var errTortured = errors.New("a promise was broken")

// runTorture lets servers fail under many sessions, and checks what those have seen.
func runTorture(ctx context.Context, args []string, std streams) error {
	o := torture.Options{Progress: std.err, Calm: 2 * time.Second}
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.StringVar(&o.Engine, "engine", "postgres", "database: postgres, mysql or mariadb")
	flags.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()%1_000_000), "what is random is made from it; a new one if it is not given")
	flags.DurationVar(&o.Duration, "duration", time.Minute, "how long the sessions work, at least")
	flags.IntVar(&o.Operations, "operations", 0, "how many of their requests are answered, at least")
	flags.IntVar(&o.Replicas, "replicas", 2, "number of replicas")
	flags.IntVar(&o.Processes, "processes", 3, "number of processes of the site")
	flags.BoolVar(&o.OwnQueue, "own-queue", false, "with PostgreSQL: the job queue has a database of its own, as with the others")
	flags.StringVar(&o.Dir, "data", "", "folder for the servers' files (default: a temporary one)")
	flags.StringVar(&o.Logs, "logs", "", "folder in which the logs of the site's processes are kept (default: nowhere)")
	if err := noArguments(flags, args, std); err != nil {
		return err
	}
	if err := checkEngine(o.Engine); err != nil {
		return err
	}
	switch {
	case o.Replicas < 1 || o.Replicas > 8:
		return fmt.Errorf("--replicas %d: want 1 to 8", o.Replicas)
	case o.Processes < 1 || o.Processes > 16:
		return fmt.Errorf("--processes %d: want 1 to 16", o.Processes)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	o.Serve = func(env []string) *exec.Cmd {
		cmd := exec.Command(program, "serve")
		cmd.Env = env // and nothing of ours, which may be that of another site
		return cmd
	}
	report, err := torture.Run(ctx, o)
	if err != nil {
		return err
	}
	if err := report.Print(std.out); err != nil {
		return err
	}
	if len(report.Violations) > 0 {
		return errTortured
	}
	return nil
}
