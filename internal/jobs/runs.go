package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"freshread/internal/dbroute"
)

// Run is one run of a job: what it saw, on which server, and why there.
type Run struct {
	JobID           int64
	Kind            string
	Attempt         int // from 1
	Mode            Mode
	ServerID        int          // that it read first; 0 if it read nothing
	Role            dbroute.Role // of that server
	Reason          dbroute.Reason
	Waited          time.Duration // for a replica to reach the commit
	Took            time.Duration // all in all
	PostID          int64
	Title           string // of the post, as it was seen
	CommentsJoined  int    // counted by a join
	CommentsCounted int    // counted by themselves
	Outcome         string
	Failed          bool
	StartedAt       time.Time
}

// newRun is a run that has yet to end.
func newRun(job *rivertype.JobRow, mode Mode) *Run {
	return &Run{
		JobID: job.ID, Kind: job.Kind, Attempt: job.Attempt, Mode: mode,
		Failed: true, StartedAt: time.Now(),
	}
}

// end notes how a run that did not panic has ended.
func (r *Run) end(err error) {
	var snooze *river.JobSnoozeError
	r.Failed = false
	switch {
	case errors.As(err, &snooze):
		r.Outcome = fmt.Sprintf("snoozed for %v", snooze.Duration)
	case err != nil:
		r.Failed, r.Outcome = true, shorten(err.Error())
	case r.Outcome == "":
		r.Outcome = "done"
	}
}

// maxOutcome is what job_runs has room for, in characters.
const maxOutcome = 500

func shorten(text string) string {
	if utf8.RuneCountInString(text) <= maxOutcome {
		return text
	}
	return string([]rune(text)[:maxOutcome-1]) + "…"
}

type runKey struct{}

func withRun(ctx context.Context, r *Run) context.Context { return context.WithValue(ctx, runKey{}, r) }

// runOf returns the run that a worker is in, so that it can say what it saw.
func runOf(ctx context.Context) *Run { return ctx.Value(runKey{}).(*Run) }

const recordTimeout = 5 * time.Second

// record saves a run, whatever became of it. It is no part of the job, whose work is
// done: if it fails, that is logged.
func (q *Queue) record(ctx context.Context, scope *dbroute.Scope, run *Run) {
	run.Took = time.Since(run.StartedAt)
	if run.Outcome == "" {
		run.Outcome = "panicked"
	}
	for _, a := range scope.Accesses() {
		if !a.Write {
			run.ServerID, run.Role, run.Reason = a.ServerID, a.Role, a.Reason
			q.waits.WithLabelValues(run.Kind, string(run.Mode), string(run.Reason)).Observe(run.Waited.Seconds())
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := q.runs.add(ctx, run); err != nil {
		q.cfg.Log.WarnContext(ctx, "run of a job not recorded", "job", run.JobID, "kind", run.Kind, "error", err)
	}
}

// Runs is the latest runs of jobs.
type Runs struct{ db *dbroute.Cluster }

// keptRuns is how many are kept.
const keptRuns = 1000

func (r *Runs) add(ctx context.Context, run *Run) error {
	return r.db.Touch(ctx, "jobs.Record", func(ctx context.Context, tx *dbroute.Tx) error {
		id, err := tx.InsertID(ctx, `
			INSERT INTO job_runs (job_id, kind, attempt, mode, server_id, server_role, reason, waited_ms, took_ms,
			                      post_id, title, comments_joined, comments_counted, outcome, failed, started_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			run.JobID, run.Kind, run.Attempt, run.Mode, run.ServerID, run.Role, run.Reason,
			run.Waited.Milliseconds(), run.Took.Milliseconds(), run.PostID, run.Title,
			run.CommentsJoined, run.CommentsCounted, run.Outcome, run.Failed, run.StartedAt)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM job_runs WHERE id <= ?`, id-keptRuns)
		return err
	})
}

// Latest returns the latest runs, at most limit, the newest first.
func (r *Runs) Latest(ctx context.Context, limit int) ([]Run, error) {
	var runs []Run
	err := r.db.Read(ctx, "jobs.Runs", func(q dbroute.Querier) error {
		runs = nil
		rows, err := q.QueryContext(ctx, `
			SELECT job_id, kind, attempt, mode, server_id, server_role, reason, waited_ms, took_ms,
			       post_id, title, comments_joined, comments_counted, outcome, failed, started_at
			  FROM job_runs
			 ORDER BY id DESC
			 LIMIT ?`, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var run Run
			var waited, took int64
			if err := rows.Scan(&run.JobID, &run.Kind, &run.Attempt, &run.Mode, &run.ServerID, &run.Role, &run.Reason, &waited, &took,
				&run.PostID, &run.Title, &run.CommentsJoined, &run.CommentsCounted, &run.Outcome, &run.Failed, &run.StartedAt); err != nil {
				return err
			}
			run.Waited, run.Took = time.Duration(waited)*time.Millisecond, time.Duration(took)*time.Millisecond
			runs = append(runs, run)
		}
		return rows.Err()
	})
	return runs, err
}
