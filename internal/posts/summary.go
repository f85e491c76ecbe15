package posts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
)

// Summariser makes the summaries, later and elsewhere: package jobs.
type Summariser interface {
	// PostChanged is called in the transaction that changes a post or its comments.
	PostChanged(ctx context.Context, tx *dbroute.Tx, c Change) error
	// Trouble says why summaries are not made at the moment, or "".
	Trouble() string
}

// Change is a change to a post or its comments.
type Change struct {
	PostID int64
	// CanWait is set if nobody looks for it in the summary at once.
	CanWait bool
}

// Summary is what is worth knowing of a post before one reads it.
type Summary struct {
	PostID   int64
	Title    string
	Comments int
	Words    int
	Minutes  int   // that it takes to read
	Changes  int64 // how many changes to the post it includes
	MadeAt   time.Time
}

// changed ends a transaction that has changed something and counted that, by which it
// can be told whether a summary includes it. It asks for a new summary, and last
// forgets what the cache has.
func (s *Store) changed(ctx context.Context, tx *dbroute.Tx, c Change, keys ...string) error {
	if s.summariser != nil {
		if err := s.summariser.PostChanged(ctx, tx, c); err != nil {
			return err
		}
	}
	return cache.Forget(ctx, tx, keys...)
}

// Source is what a summary is made from. The comments are counted in two ways,
// which agree as they are read from one state of one server.
type Source struct {
	PostID          int64
	Title, Body     string
	Changes         int64
	CommentsJoined  int
	CommentsCounted int
}

// Source returns a post's, or ErrNotFound.
func (s *Store) Source(ctx context.Context, id int64) (Source, error) {
	src := Source{PostID: id}
	err := s.db.Read(ctx, "posts.Source", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, `
			SELECT p.title, p.body, p.changes, count(c.id), (SELECT count(*) FROM comments WHERE post_id = p.id)
			  FROM posts p LEFT JOIN comments c ON c.post_id = p.id
			 WHERE p.id = ?
			 GROUP BY p.id, p.title, p.body, p.changes`, id).
			Scan(&src.Title, &src.Body, &src.Changes, &src.CommentsJoined, &src.CommentsCounted)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Source{}, fmt.Errorf("post %d: %w", id, ErrNotFound)
	}
	return src, err
}

// Summary makes the summary.
func (s Source) Summary() Summary {
	return Summary{
		PostID: s.PostID, Title: s.Title, Comments: s.CommentsCounted, Changes: s.Changes,
		Words: len(strings.Fields(s.Body)), Minutes: readingMinutes(utf8.RuneCountInString(s.Body)),
	}
}

// SaveSummary saves a summary, unless there is one already that includes as much. It
// reports whether it did. It returns ErrNotFound if the post is gone.
//
// Jobs may overtake each other, and run twice: the later state wins, whichever is
// saved last.
func (s *Store) SaveSummary(ctx context.Context, sum Summary) (saved bool, err error) {
	err = s.db.Write(ctx, "posts.SaveSummary", func(ctx context.Context, tx *dbroute.Tx) error {
		saved = false
		err := tx.QueryRowContext(ctx, `SELECT id FROM posts WHERE id = ? FOR UPDATE`, sum.PostID).Scan(&sum.PostID)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("post %d: %w", sum.PostID, ErrNotFound)
		}
		if err != nil {
			return err
		}
		var has int64
		err = tx.QueryRowContext(ctx, `SELECT changes FROM post_summaries WHERE post_id = ?`, sum.PostID).Scan(&has)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			_, err = tx.ExecContext(ctx, `
				INSERT INTO post_summaries (post_id, title, comments, words, minutes, changes, made_at) VALUES (?, ?, ?, ?, ?, ?, CURRENT_TIMESTAMP(6))`,
				sum.PostID, sum.Title, sum.Comments, sum.Words, sum.Minutes, sum.Changes)
		case err != nil || has >= sum.Changes:
			return err
		default:
			_, err = tx.ExecContext(ctx, `
				UPDATE post_summaries SET title = ?, comments = ?, words = ?, minutes = ?, changes = ?, made_at = CURRENT_TIMESTAMP(6) WHERE post_id = ?`,
				sum.Title, sum.Comments, sum.Words, sum.Minutes, sum.Changes, sum.PostID)
		}
		saved = err == nil
		return err
	})
	return saved && err == nil, err
}

// SummaryOf returns a post's summary, the zero Summary if none has been made yet,
// and whether it lacks changes that a job is to add.
func (s *Store) SummaryOf(ctx context.Context, id int64) (sum Summary, pending bool, err error) {
	sum.PostID = id
	var changes int64
	err = s.db.Read(ctx, "posts.SummaryOf", func(q dbroute.Querier) error {
		var madeAt sql.NullTime
		err := q.QueryRowContext(ctx, `
			SELECT p.changes, coalesce(s.title, ''), coalesce(s.comments, 0), coalesce(s.words, 0), coalesce(s.minutes, 0),
			       coalesce(s.changes, 0), s.made_at
			  FROM posts p LEFT JOIN post_summaries s ON s.post_id = p.id
			 WHERE p.id = ?`, id).
			Scan(&changes, &sum.Title, &sum.Comments, &sum.Words, &sum.Minutes, &sum.Changes, &madeAt)
		sum.MadeAt = madeAt.Time
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Summary{}, false, fmt.Errorf("post %d: %w", id, ErrNotFound)
	}
	return sum, sum.Changes < changes, err
}

// SummaryTrouble says why summaries are not made at the moment, or "".
func (s *Store) SummaryTrouble() string {
	if s.summariser == nil {
		return ""
	}
	return s.summariser.Trouble()
}
