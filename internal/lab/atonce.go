package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/PuerkitoBio/goquery"
)

// doSides does a step on both sides.
func (r *run) doSides(ctx context.Context, step Step) error {
	if step.AtOnce {
		return r.atOnce(ctx, step)
	}
	for _, s := range r.sides {
		if err := s.do(ctx, step, r.began); err != nil {
			return err
		}
		r.tell(step.Do.doing())
	}
	return nil
}

// done is a step that one side has done.
type done struct {
	side *runningSide
	step Step
	o    Observation
	err  error
}

// atOnce notes what came back in the order in which it did.
func (r *run) atOnce(ctx context.Context, step Step) error {
	all, under := make(chan done), 0
	begin := func(s *runningSide, step Step, after time.Duration) {
		under++
		go func() {
			d := done{side: s, step: step, err: sleepUntil(ctx, time.Now().Add(after))}
			if d.err == nil {
				d.o, d.err = s.timed(ctx, step, r.began)
			}
			all <- d
		}()
	}
	for _, s := range r.sides {
		begin(s, step, 0)
		if step.Meanwhile != nil {
			begin(s, *step.Meanwhile, r.times.Behind/5)
		}
	}
	var errs []error
	for ; under > 0; under-- {
		d := <-all
		if errs = append(errs, d.err); d.err == nil {
			d.side.judgeTimed(d.step, &d.o, r.times.Behind)
			d.side.result.Observations = append(d.side.result.Observations, d.o)
			r.sortObservations()
			r.tell(step.Do.doing())
		}
	}
	return errors.Join(errs...)
}

// sortObservations orders what was done at once by when it began.
func (r *run) sortObservations() {
	for _, s := range r.sides {
		slices.SortStableFunc(s.result.Observations, func(a, b Observation) int { return cmp.Compare(a.At, b.At) })
	}
}

// timed does a step and notes how long that took, if it matters.
func (s *runningSide) timed(ctx context.Context, step Step, began time.Time) (o Observation, err error) {
	start := time.Now()
	o = Observation{At: start.Sub(began), By: step.By}
	switch step.Do {
	case Save:
		err = s.save(ctx, &o)
	case Comment:
		err = s.addComment(ctx, step.By, &o)
	case TrySave:
		err = s.trySave(ctx, step.By, &o)
	case Visit:
		err = s.look(ctx, step.By, &o)
	case VisitUntilNew:
		err = s.lookUntilNew(ctx, step.By, &o)
	default:
		err = fmt.Errorf("action %d cannot be timed", step.Do)
	}
	if s.want(step).Takes != "" {
		o.Took = time.Since(start)
	}
	return o, err
}

func (s *runningSide) judgeTimed(step Step, o *Observation, behind time.Duration) {
	want := s.want(step)
	problem := func(what string) {
		if o.Problem != "" {
			o.Problem += "; "
		}
		o.Problem += what
	}
	if o.Method == http.MethodGet {
		s.judge(step, o)
	} else if want.Fails != o.failed {
		problem(fmt.Sprintf("it fails: %v, want %v", o.failed, want.Fails))
	}
	switch most, least := behind*2/3, behind/3; {
	case want.Takes == Short && o.Took > most:
		problem(fmt.Sprintf("it takes %s, want at most %s", shortly(o.Took), shortly(most)))
	case want.Takes == Long && o.Took < least:
		problem(fmt.Sprintf("it takes %s, want at least %s", shortly(o.Took), shortly(least)))
	}
}

// reloadAfter is how long somebody who waits for a change looks at a page.
const reloadAfter = 100 * time.Millisecond

func (s *runningSide) lookUntilNew(ctx context.Context, by Visitor, o *Observation) error {
	for reloads := 0; ; reloads++ {
		if err := s.look(ctx, by, o); err != nil {
			return err
		}
		if o.Value == s.subject.New {
			if reloads > 0 {
				o.Note = fmt.Sprintf("%d reloads", reloads)
			}
			return nil
		}
		if err := sleepUntil(ctx, time.Now().Add(reloadAfter)); err != nil {
			return err
		}
	}
}

// trySave saves the title once more, and takes for an answer that it may not be saved.
// A comment would count all comments anew: in one row, whose lock a commit keeps from
// the other side too while it waits.
func (s *runningSide) trySave(ctx context.Context, by Visitor, o *Observation) error {
	o.Method, o.Label, o.Value = http.MethodPost, title.Label, title.New
	request, err := s.form(ctx, s.post, "title", title.New, "body", postBody)
	if err != nil {
		return err
	}
	response, err := s.browsers[by].Do(request)
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusSeeOther:
	case http.StatusServiceUnavailable:
		page, err := goquery.NewDocumentFromReader(response.Body)
		if err != nil {
			return fmt.Errorf("save: %w", err)
		}
		o.failed, o.Note = true, fmt.Sprintf("%d, %s", response.StatusCode, strings.TrimSuffix(page.Find(".problem strong").Text(), "."))
	default:
		return fmt.Errorf("save: %s", response.Status)
	}
	return o.writtenBy(response)
}
