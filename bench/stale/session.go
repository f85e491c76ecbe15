package stale

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// session is somebody who clicks, and sometimes saves.
type session struct {
	id     int64
	client client
	oracle oracle
	writes float64       // the part of requests that save
	think  time.Duration // between two requests, on average

	value int64 // of the last save
	had   bool  // the replica has it: what it has it keeps
	tally Tally
}

// run clicks until the time is over.
func (s *session) run(ctx context.Context, until time.Time) error {
	for {
		pause := time.Duration(rand.ExpFloat64() * float64(s.think))
		if time.Now().Add(pause).After(until) {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		if rand.Float64() < s.writes {
			if err := s.save(ctx); err != nil {
				return err
			}
		}
		if err := s.look(ctx); err != nil { // after a save it is what the redirect leads to
			return err
		}
	}
}

func (s *session) save(ctx context.Context) error {
	if err := s.client.write(ctx, s.id, s.value+1); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	s.value++
	s.had = false
	return nil
}

func (s *session) look(ctx context.Context) (err error) {
	if s.value == 0 {
		s.had = true // it has saved nothing
	}
	if !s.had {
		if s.had, err = s.oracle.has(ctx, s.id, s.value); err != nil {
			return err
		}
	}
	got, err := s.client.read(ctx, s.id)
	if err != nil {
		return fmt.Errorf("look: %w", err)
	}
	s.tally.note(s.value, s.had, got)
	return nil
}
