// Command app runs the site: on servers of yours (serve, worker, migrate,
// routes, healthcheck) or on real ones that it starts for you (demo, lab, torture).
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
  torture      let servers fail under many sessions, and check what those have seen
  serve        serve the site on the servers named by the environment, and work its jobs
  worker       work the jobs, and serve no pages
  migrate      bring the schema of the primary and of the queue up to date
  routes       print each route with its middleware, in order
  healthcheck  ask a running site whether it is ready

app COMMAND -h prints a command's flags; .env.example lists the environment.
`

// streams are where a command prints: results and progress.
type streams struct{ out, err io.Writer }

var errUsage = errors.New("usage")

func main() {
	// A reader that closes the pipe, as in app lab | head, must not end us before
	// our servers are stopped.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
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

// stopSignals respects nohup, which ignores the hang-up for us.
func stopSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

func run(ctx context.Context, args []string, std streams) error {
	commands := map[string]func(context.Context, []string, streams) error{
		"demo":        demo,
		"lab":         runLab,
		"torture":     runTorture,
		"serve":       serve,
		"worker":      worker,
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
