// Package measure is what the measurements have in common.
package measure

import (
	"context"
	"log/slog"
	"time"

	"freshread/bench/report"
	"freshread/bench/trial"
)

// Measurement is one of those that `make bench` makes.
type Measurement struct {
	Name string // as it is asked for: make bench ARGS=Name
	Run  func(context.Context, Options) (report.Section, error)
}

// Options are for all measurements.
type Options struct {
	Quick bool         // only see that it works; the figures mean nothing
	App   string       // the program `app`
	Dir   string       // where servers keep their files; a temporary folder if empty
	Log   *slog.Logger // tells what is being done
}

// Plan returns how to compare variants in turns of such a length.
func (o Options) Plan(rounds int, turn time.Duration) trial.Plan {
	if o.Quick {
		return trial.Plan{Rounds: 2, Turn: turn / 20}
	}
	return trial.Plan{Rounds: rounds, Turn: turn}
}

// InMemory is Plan for what runs in this process alone and waits for nobody.
func (o Options) InMemory(rounds int, turn time.Duration) trial.Plan {
	plan := o.Plan(rounds, turn)
	plan.CPU = true
	return plan
}

// Either returns one of two, the second if all has to be quick.
func Either[T any](o Options, usual, quick T) T {
	if o.Quick {
		return quick
	}
	return usual
}
