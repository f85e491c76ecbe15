package posts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"freshread/internal/dbroute"
)

// Store reads and writes posts. It does not know which server it reads: the
// context says.
type Store struct{ db dbroute.Router }

// NewStore returns a store on db.
func NewStore(db dbroute.Router) *Store { return &Store{db} }

// ByID returns a post, or ErrNotFound.
func (s *Store) ByID(ctx context.Context, id int64) (Post, error) {
	var p Post
	err := s.db.Read(ctx, "posts.ByID", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, `
			SELECT p.id, coalesce(u.name, ''), p.title, p.body, p.version, p.created_at, p.updated_at
			  FROM posts p LEFT JOIN users u ON u.id = p.author_id
			 WHERE p.id = ?`, id).
			Scan(&p.ID, &p.Author, &p.Title, &p.Body, &p.Version, &p.CreatedAt, &p.UpdatedAt)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Post{}, fmt.Errorf("post %d: %w", id, ErrNotFound)
	}
	return p, err
}

// Newest returns at most limit posts, newest first: those with a lower id than
// before, or the very newest if before is 0.
func (s *Store) Newest(ctx context.Context, before int64, limit int) ([]Summary, error) {
	var list []Summary
	err := s.db.Read(ctx, "posts.Newest", func(q dbroute.Querier) error {
		rows, err := q.QueryContext(ctx, `
			SELECT p.id, coalesce(u.name, ''), p.title, p.body, p.version, p.created_at, p.updated_at,
			       (SELECT count(*) FROM comments c WHERE c.post_id = p.id)
			  FROM posts p LEFT JOIN users u ON u.id = p.author_id
			 WHERE p.id < ?
			 ORDER BY p.id DESC
			 LIMIT ?`, endIfZero(before), limit)
		if err != nil {
			return err
		}
		list, err = collect(rows, func(p *Summary) []any {
			return []any{&p.ID, &p.Author, &p.Title, &p.Body, &p.Version, &p.CreatedAt, &p.UpdatedAt, &p.Comments}
		})
		return err
	})
	return list, err
}

// Comments returns the latest comments on a post, at most limit, oldest first:
// those with a lower id than before, or the very latest if before is 0.
func (s *Store) Comments(ctx context.Context, postID, before int64, limit int) ([]Comment, error) {
	var list []Comment
	err := s.db.Read(ctx, "posts.Comments", func(q dbroute.Querier) error {
		rows, err := q.QueryContext(ctx, `
			SELECT c.id, coalesce(u.name, ''), c.body, c.created_at
			  FROM comments c LEFT JOIN users u ON u.id = c.author_id
			 WHERE c.post_id = ? AND c.id < ?
			 ORDER BY c.id DESC
			 LIMIT ?`, postID, endIfZero(before), limit)
		if err != nil {
			return err
		}
		list, err = collect(rows, func(c *Comment) []any {
			return []any{&c.ID, &c.Author, &c.Body, &c.CreatedAt}
		})
		return err
	})
	slices.Reverse(list)
	return list, err
}

// Create saves a new post and returns its id.
func (s *Store) Create(ctx context.Context, d Draft) (id int64, err error) {
	err = s.db.Write(ctx, "posts.Create", func(ctx context.Context, tx *dbroute.Tx) error {
		id, err = tx.InsertID(ctx, `INSERT INTO posts (title, body) VALUES (?, ?)`, d.Title, d.Body)
		return err
	})
	return id, err
}

// Update saves a post over the version that its author has seen, or over any if
// version is 0. It returns ErrNotFound, or a ConflictError with what is there.
func (s *Store) Update(ctx context.Context, id int64, d Draft, version int) error {
	return s.db.Write(ctx, "posts.Update", func(ctx context.Context, tx *dbroute.Tx) error {
		saved, err := changed(tx.ExecContext(ctx, `
			UPDATE posts
			   SET title = ?, body = ?, version = version + 1, updated_at = CURRENT_TIMESTAMP
			 WHERE id = ? AND (version = ? OR ? = 0)`, d.Title, d.Body, id, version, version))
		if err != nil || saved {
			return err
		}
		current, err := s.ByID(ctx, id)
		if err != nil {
			return err
		}
		return &ConflictError{current}
	})
}

// Delete deletes a post and its comments. It returns ErrNotFound if it is gone.
func (s *Store) Delete(ctx context.Context, id int64) error {
	return s.db.Write(ctx, "posts.Delete", func(ctx context.Context, tx *dbroute.Tx) error {
		deleted, err := changed(tx.ExecContext(ctx, `DELETE FROM posts WHERE id = ?`, id))
		if err == nil && !deleted {
			return fmt.Errorf("post %d: %w", id, ErrNotFound)
		}
		return err
	})
}

// AddComment saves a comment and returns its id. It returns ErrNotFound if the
// post is gone, which the page it was written on may not have known.
func (s *Store) AddComment(ctx context.Context, postID int64, body string) (id int64, err error) {
	err = s.db.Write(ctx, "posts.AddComment", func(ctx context.Context, tx *dbroute.Tx) error {
		err := tx.QueryRowContext(ctx, `SELECT id FROM posts WHERE id = ? FOR UPDATE`, postID).Scan(&postID)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("post %d: %w", postID, ErrNotFound)
		}
		if err != nil {
			return err
		}
		id, err = tx.InsertID(ctx, `INSERT INTO comments (post_id, body) VALUES (?, ?)`, postID, body)
		return err
	})
	return id, err
}

// endIfZero makes the first page of a list a page like any other.
func endIfZero(before int64) int64 {
	if before == 0 {
		return math.MaxInt64
	}
	return before
}

func collect[T any](rows *sql.Rows, columns func(*T) []any) ([]T, error) {
	defer rows.Close()
	var list []T
	for rows.Next() {
		var item T
		if err := rows.Scan(columns(&item)...); err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, rows.Err()
}

func changed(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}
