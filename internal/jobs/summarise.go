package jobs

import (
	"context"
	"errors"

	"github.com/riverqueue/river"

	"freshread/internal/dbroute"
	"freshread/internal/posts"
)

// SummarisePost makes the summary of a post.
type SummarisePost struct {
	PostID int64 `json:"post_id"`
}

// Kind is the name of the kind of job.
func (SummarisePost) Kind() string { return "summarise_post" }

// Kinds are the kinds of jobs that there are.
func Kinds() []string { return []string{SummarisePost{}.Kind()} }

// PostChanged queues the summary of a post. It makes a Queue a posts.Summariser.
func (q *Queue) PostChanged(ctx context.Context, tx *dbroute.Tx, c posts.Change) error {
	job := SummarisePost{PostID: c.PostID}
	if c.CanWait {
		return q.EnqueueAfter(ctx, tx, job, q.cfg.Delay)
	}
	return q.Enqueue(ctx, tx, job)
}

// Trouble says why jobs stay in the outbox at the moment, or "".
func (q *Queue) Trouble() string {
	cause := q.outbox.trouble.Load()
	switch {
	case cause == nil:
		return ""
	case errors.Is(*cause, errNotQueued):
		return "the queue cannot be reached"
	case errors.Is(*cause, errRefused):
		return "the queue refuses one of the jobs"
	}
	return "the primary cannot be reached or is busy"
}

// summariser works SummarisePost.
type summariser struct {
	river.WorkerDefaults[SummarisePost]
	posts *posts.Store
}

// Work reads where the run's scope says, and writes on the primary. It may be run
// again, and after a later job of the same post: see posts.Store.SaveSummary.
func (s *summariser) Work(ctx context.Context, job *river.Job[SummarisePost]) error {
	run := runOf(ctx)
	run.PostID = job.Args.PostID
	source, err := s.posts.Source(ctx, job.Args.PostID)
	if errors.Is(err, posts.ErrNotFound) {
		run.Outcome = "no such post"
		return nil
	}
	if err != nil {
		return err
	}
	run.Title, run.CommentsJoined, run.CommentsCounted = source.Title, source.CommentsJoined, source.CommentsCounted
	saved, err := s.posts.SaveSummary(ctx, source.Summary())
	switch {
	case errors.Is(err, posts.ErrNotFound):
		run.Outcome = "the post was deleted"
		return nil
	case err == nil && !saved:
		run.Outcome = "included already"
	}
	return err
}
