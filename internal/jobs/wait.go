package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"freshread/internal/dbroute"
)

// Mode says where jobs of a kind read.
type Mode string

const (
	// Commit is for jobs queued by a write: they wait for a replica that has reached
	// it and read there. If none has within the bound, this run reads the primary.
	Commit Mode = "commit"
	// Primary is for jobs that must see what was written up to their start, whoever
	// wrote it.
	Primary Mode = "primary"
	// Replica is for jobs that were not queued by what they read. After a write it is
	// the bug: they see the old row, or none.
	Replica Mode = "replica"
)

// UnmarshalText checks the name, for configuration and flags.
func (m *Mode) UnmarshalText(text []byte) error {
	switch Mode(text) {
	case Commit, Primary, Replica:
		*m = Mode(text)
		return nil
	}
	return fmt.Errorf("%q: want commit, primary or replica", text)
}

// MarshalText makes a Mode usable with flag.TextVar.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m), nil }

// commitWait is River middleware that gives each run a scope and routes it.
type commitWait struct {
	river.MiddlewareDefaults
	queue *Queue
}

// Work is called by River around each run. The scope ends with it: what one job has
// written says nothing of where the next one reads on the same worker.
func (w *commitWait) Work(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	q := w.queue
	ctx, scope := q.cfg.Cluster.NewScope(ctx)
	run := newRun(job, q.mode(job.Kind))
	defer func() { q.record(ctx, scope, run) }() // also if the job panics
	err := q.route(ctx, scope, job, run)
	if err == nil {
		err = work(withRun(ctx, run))
	}
	run.end(err)
	return err
}

func (q *Queue) mode(kind string) Mode {
	if mode, ok := q.cfg.Reads[kind]; ok {
		return mode
	}
	return Commit
}

func (q *Queue) route(ctx context.Context, scope *dbroute.Scope, job *rivertype.JobRow, run *Run) error {
	switch run.Mode {
	case Replica:
		scope.RouteAnywhere(dbroute.Marker{})
		return nil
	case Primary:
		scope.Pin()
		return nil
	}
	commit, err := q.commitOf(ctx, job)
	if err != nil {
		return err
	}
	start := time.Now()
	// Servers may issue no commit IDs. That something was written is known all the same.
	scope.RouteByCommitWait(ctx, dbroute.Marker{Commit: commit, Unknown: commit.IsZero()}, q.cfg.CommitWait)
	run.Waited = time.Since(start)
	return nil
}

// commitKey is where a job's metadata has the commit ID that it waits for.
const commitKey = "commit_id"

// commitOf returns a commit ID that covers the transaction which queued the job. From
// the outbox it comes with the job. With InsertTx it cannot: there is none before the
// commit. The job was not there to be picked up before the commit either, so that
// the primary's position at the first pick-up covers it. The job keeps it, for when it
// is retried or snoozed: a later position would make it wait for what others have
// written meanwhile.
func (q *Queue) commitOf(ctx context.Context, job *rivertype.JobRow) (dbroute.CommitID, error) {
	var metadata map[string]json.RawMessage
	var text string
	if json.Unmarshal(job.Metadata, &metadata) == nil && json.Unmarshal(metadata[commitKey], &text) == nil {
		if id, err := q.cfg.Cluster.ParseCommitID(text); err == nil {
			return id, nil
		}
	}
	id, err := lastCommitID(ctx, q.cfg.Cluster)
	if err != nil || id.IsZero() {
		return id, err
	}
	return id, river.MetadataSet(ctx, commitKey, id.String())
}

// lastCommitID is zero where servers issue no commit IDs.
func lastCommitID(ctx context.Context, cluster *dbroute.Cluster) (dbroute.CommitID, error) {
	id, err := cluster.LastCommitID(ctx)
	if errors.Is(err, dbroute.ErrNoCommitID) {
		return dbroute.CommitID{}, nil
	}
	return id, err
}
