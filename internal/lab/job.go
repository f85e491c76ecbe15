package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/jobs"
)

// methodJob is what an Observation of a job has for a method.
const methodJob = "JOB"

// startJobs runs a queue of the side's own.
func (s *runningSide) startJobs(ctx context.Context, r *run, cluster *dbroute.Cluster) error {
	cfg := jobs.Config{
		Cluster: cluster, Log: r.Log, Workers: 1, StopTimeout: time.Second,
		Name: "lab-" + strings.ToLower(rand.Text()), // the other side may share the database
	}
	if s.side.OwnQueue || cluster.Engine() != dbroute.PostgreSQL {
		if r.QueueURL == "" {
			return errors.New("it needs a database for the queue")
		}
		cfg.URL = r.QueueURL
	}
	s.side.Jobs(&cfg, r.times)
	queue, err := jobs.Open(cfg)
	if err != nil {
		return err
	}
	if _, err := queue.Migrate(ctx); err != nil {
		queue.Close()
		return err
	}
	runCtx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- queue.Run(runCtx) }()
	s.queue, s.stopJobs = queue, func() error {
		stop()
		defer queue.Close()
		return <-ended
	}
	return nil
}

// awaitJob waits for the next run of a job on the side's post, and notes what it saw.
func (s *runningSide) awaitJob(ctx context.Context, step Step, began time.Time, o *Observation) error {
	for {
		runs, err := s.runs(ctx)
		if err != nil {
			return err
		}
		if len(runs) > s.jobsRun {
			o.readRun(runs[len(runs)-1-s.jobsRun], s.subject, began)
			s.jobsRun++
			o.Stale = o.Value == s.subject.Old
			o.Problem = s.want(step).differs(*o, s.subject)
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for a job: %w", ctx.Err())
		}
	}
}

// runs are those on the side's post, the newest first.
func (s *runningSide) runs(ctx context.Context) ([]jobs.Run, error) {
	all, err := s.queue.Runs().Latest(dbroute.UsePrimary(ctx), 100)
	if err != nil {
		return nil, err
	}
	var runs []jobs.Run
	for _, run := range all {
		if s.post == fmt.Sprintf("/posts/%d", run.PostID) {
			runs = append(runs, run)
		}
	}
	return runs, nil
}

func (o *Observation) readRun(run jobs.Run, subject Subject, began time.Time) {
	o.At, o.Method, o.Label = run.StartedAt.Sub(began), methodJob, subject.Label
	o.Value = strconv.Itoa(run.CommentsCounted)
	o.ServerID, o.Role, o.Reason, o.Waited = run.ServerID, run.Role, string(run.Reason), run.Waited
	if run.Failed {
		o.Problem = run.Outcome
	}
}
