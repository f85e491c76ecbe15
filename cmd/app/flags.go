package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack"
)

// parseFlags allows flags after other arguments too, and returns the latter.
func parseFlags(flags *flag.FlagSet, args []string, std streams) ([]string, error) {
	flags.SetOutput(io.Discard) // package flag would print all flags below an error
	var rest []string
	for {
		err := flags.Parse(args)
		switch {
		case errors.Is(err, flag.ErrHelp):
			flags.SetOutput(std.out)
			flags.Usage()
			return nil, err
		case err != nil:
			fmt.Fprintf(std.err, "app %s: %v (app %[1]s -h lists the flags)\n", flags.Name(), err)
			return nil, errUsage
		case flags.NArg() == 0:
			return rest, nil
		}
		rest = append(rest, flags.Arg(0))
		args = flags.Args()[1:]
	}
}

// noArguments is parseFlags for commands that take flags only.
func noArguments(flags *flag.FlagSet, args []string, std streams) error {
	rest, err := parseFlags(flags, args, std)
	if err == nil && len(rest) > 0 {
		fmt.Fprintf(std.err, "app %s: unexpected argument %q\n", flags.Name(), rest[0])
		return errUsage
	}
	return err
}

// checkEngine refuses what reads cannot be routed on. Open knows why, and
// connects to nothing.
func checkEngine(name string) error {
	cluster, err := dbroute.Open(dbroute.Config{Name: "engine", Primary: name + "://localhost"})
	if err != nil {
		return fmt.Errorf("--engine %s: %w", name, err)
	}
	return cluster.Close()
}

// maxDelay is more than anybody waits for, and less than servers refuse.
const maxDelay = 24 * time.Hour

func checkDelay(engine string, d time.Duration) error {
	if d < 0 || d > maxDelay {
		return fmt.Errorf("--delay %v: want 0 to %v", d, maxDelay)
	}
	if err := stack.CheckDelay(engine, d); err != nil {
		return fmt.Errorf("--delay: %w", err)
	}
	return nil
}

// durations is a flag of several durations, separated by commas.
type durations []time.Duration

func (d *durations) String() string {
	var texts []string
	for _, each := range *d {
		texts = append(texts, each.String())
	}
	return strings.Join(texts, ",")
}

func (d *durations) Set(text string) error {
	*d = nil
	for field := range strings.SplitSeq(text, ",") {
		each, err := time.ParseDuration(strings.TrimSpace(field))
		if err != nil {
			return errors.New("want durations, as in 5s,1s")
		}
		*d = append(*d, each)
	}
	return nil
}
