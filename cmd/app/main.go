// Command app runs the site: on servers of yours (serve, migrate, routes,
// healthcheck) or on real ones that it starts for you (demo, lab).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `Usage: app COMMAND [flags]

  demo         start a primary and a late replica here, and the site on them
  lab          run the experiments: each bug beside its cure
  serve        serve the site on the servers named by the environment
  migrate      bring the primary's schema up to date
  routes       print each route with its middleware, in order
  healthcheck  ask a running site whether it is ready

app COMMAND -h prints a command's flags; .env.example lists the environment.
`

// streams are where a command prints: results and progress.
type streams struct{ out, err io.Writer }

var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], streams{os.Stdout, os.Stderr})
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, std streams) error {
	commands := map[string]func(context.Context, []string, streams) error{
		"demo":        demo,
		"lab":         runLab,
		"serve":       serve,
		"migrate":     migrate,
		"routes":      routes,
		"healthcheck": healthcheck,
	}
	if len(args) == 0 {
		fmt.Fprint(std.err, usage)
		return errUsage
	}
	switch args[0] {
	case "help", "-h", "--help":
		fmt.Fprint(std.out, usage)
		return nil
	}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(std.err, "app: no command %q\n\n%s", args[0], usage)
		return errUsage
	}
	return command(ctx, args[1:], std)
}

// parseFlags allows flags after other arguments too, and returns the latter.
func parseFlags(flags *flag.FlagSet, args []string, std streams) ([]string, error) {
	flags.SetOutput(std.err)
	var rest []string
	for {
		if err := flags.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, errUsage // flag has printed it
		}
		if flags.NArg() == 0 {
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
