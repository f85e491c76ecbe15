package posts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"freshread/internal/auth"
	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/web"
)

// Store reads and writes posts. It does not know which server it reads: the
// context says.
type Store struct {
	db         dbroute.Router
	cache      *cache.Cache
	summariser Summariser // nil if nobody makes summaries
}

// NewStore returns a store on db that tells summariser, if it is not nil, what to
// summarise.
func NewStore(db dbroute.Router, c *cache.Cache, summariser Summariser) *Store {
	return &Store{db, c, summariser}
}

// ByID returns a post, or ErrNotFound.
func (s *Store) ByID(ctx context.Context, id int64) (Post, error) {
	var p Post
	err := s.db.Read(ctx, "posts.ByID", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, `
			SELECT p.id, coalesce(p.author_id, 0), coalesce(u.name, ''), p.title, p.body, p.version, p.created_at, p.updated_at
			  FROM posts p LEFT JOIN users u ON u.id = p.author_id
			 WHERE p.id = ?`, id).
			Scan(&p.ID, &p.AuthorID, &p.Author, &p.Title, &p.Body, &p.Version, &p.CreatedAt, &p.UpdatedAt)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Post{}, fmt.Errorf("post %d: %w", id, ErrNotFound)
	}
	return p, err
}

// summaries selects what lists show; a condition, an order and a limit follow.
const summaries = `
	SELECT p.id, coalesce(p.author_id, 0), coalesce(u.name, ''), p.title, p.body, p.version, p.created_at, p.updated_at
	  FROM posts p LEFT JOIN users u ON u.id = p.author_id`

// Newest returns at most limit posts, newest first: those with a lower id than
// before, or the very newest if before is 0.
func (s *Store) Newest(ctx context.Context, before int64, limit int) ([]Listing, error) {
	return s.list(ctx, "posts.Newest", summaries+` WHERE p.id < ? ORDER BY p.id DESC LIMIT ?`, endIfZero(before), limit)
}

// ByAuthor is Newest for the posts of one user.
func (s *Store) ByAuthor(ctx context.Context, authorID, before int64, limit int) ([]Listing, error) {
	return s.list(ctx, "posts.ByAuthor", summaries+` WHERE p.author_id = ? AND p.id < ? ORDER BY p.id DESC LIMIT ?`,
		authorID, endIfZero(before), limit)
}

func (s *Store) list(ctx context.Context, name, query string, args ...any) ([]Listing, error) {
	var list []Listing
	err := s.db.Read(ctx, name, func(q dbroute.Querier) error {
		rows, err := q.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		list, err = collect(rows, func(p *Listing) []any {
			return []any{&p.ID, &p.AuthorID, &p.Author, &p.Title, &p.Body, &p.Version, &p.CreatedAt, &p.UpdatedAt}
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, s.addTallies(ctx, list)
}

// Comments returns the latest comments on a post, at most limit, oldest first:
// those with a lower id than before, or the very latest if before is 0.
func (s *Store) Comments(ctx context.Context, postID, before int64, limit int) ([]Comment, error) {
	var list []Comment
	err := s.db.Read(ctx, "posts.Comments", func(q dbroute.Querier) error {
		rows, err := q.QueryContext(ctx, `
			SELECT c.id, coalesce(c.author_id, 0), coalesce(u.name, ''), c.body, c.version, c.created_at
			  FROM comments c LEFT JOIN users u ON u.id = c.author_id
			 WHERE c.post_id = ? AND c.id < ?
			 ORDER BY c.id DESC
			 LIMIT ?`, postID, endIfZero(before), limit)
		if err != nil {
			return err
		}
		list, err = collect(rows, func(c *Comment) []any {
			return []any{&c.ID, &c.AuthorID, &c.Author, &c.Body, &c.Version, &c.CreatedAt}
		})
		return err
	})
	slices.Reverse(list)
	return list, err
}

// Create saves a user's new post and returns its id.
func (s *Store) Create(ctx context.Context, authorID int64, d Draft) (id int64, err error) {
	err = s.db.Write(ctx, "posts.Create", func(ctx context.Context, tx *dbroute.Tx) error {
		id, err = tx.InsertID(ctx, `INSERT INTO posts (author_id, title, body, changes) VALUES (?, ?, ?, 1)`, authorID, d.Title, d.Body)
		if err != nil {
			return err
		}
		return s.changed(ctx, tx, Change{PostID: id}, CountsKey)
	})
	return id, err
}

// Update saves a post over one of the versions that its editor has seen. It returns
// ErrNotFound, ErrNotYours, or a ConflictError with what is there.
func (s *Store) Update(ctx context.Context, editor auth.User, id int64, d Draft, seen web.Versions) error {
	return s.db.Write(ctx, "posts.Update", func(ctx context.Context, tx *dbroute.Tx) error {
		if err := s.lockOwnPost(ctx, tx, editor, id, seen); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `
			UPDATE posts
			   SET title = ?, body = ?, version = version + 1, changes = changes + 1, updated_at = CURRENT_TIMESTAMP(6)
			 WHERE id = ?`, d.Title, d.Body, id)
		if err != nil {
			return err
		}
		return s.changed(ctx, tx, Change{PostID: id}, tallyKey(id))
	})
}

// Delete deletes a post and its comments. It returns the errors of Update.
func (s *Store) Delete(ctx context.Context, editor auth.User, id int64, seen web.Versions) error {
	return s.db.Write(ctx, "posts.Delete", func(ctx context.Context, tx *dbroute.Tx) error {
		if err := s.lockOwnPost(ctx, tx, editor, id, seen); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM posts WHERE id = ?`, id); err != nil {
			return err
		}
		return cache.Forget(ctx, tx, tallyKey(id), CountsKey)
	})
}

// lockOwnPost locks a post that is about to be changed.
func (s *Store) lockOwnPost(ctx context.Context, tx *dbroute.Tx, editor auth.User, id int64, seen web.Versions) error {
	version, err := lockOwn(ctx, tx, editor, `SELECT coalesce(author_id, 0), version FROM posts WHERE id = ? FOR UPDATE`, id)
	if err != nil || seen.Has(version) {
		return err
	}
	current, err := s.ByID(ctx, id)
	if err != nil {
		return err
	}
	return &ConflictError[Post]{current}
}

// lockOwn locks a row that its author, or an admin, is about to change, and returns
// its version. That is decided in the transaction and not by what the client has
// read before, which may be old.
func lockOwn(ctx context.Context, tx *dbroute.Tx, editor auth.User, query string, key ...any) (version int, err error) {
	var author int64
	err = tx.QueryRowContext(ctx, query, key...).Scan(&author, &version)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, ErrNotFound
	case err != nil:
		return 0, err
	case !editor.MayChange(author):
		return 0, ErrNotYours
	}
	return version, nil
}

// AddComment saves a user's comment and returns its id. It returns ErrNotFound if the
// post is gone, which the page it was written on may not have known.
func (s *Store) AddComment(ctx context.Context, postID, authorID int64, body string) (id int64, err error) {
	err = s.db.Write(ctx, "posts.AddComment", func(ctx context.Context, tx *dbroute.Tx) error {
		err := countChange(ctx, tx, postID)
		if err != nil {
			return err
		}
		id, err = tx.InsertID(ctx, `INSERT INTO comments (post_id, author_id, body) VALUES (?, ?, ?)`, postID, authorID, body)
		if err != nil {
			return err
		}
		return s.changed(ctx, tx, Change{PostID: postID}, tallyKey(postID), CountsKey)
	})
	return id, err
}

// CommentByID returns a comment on a post, or ErrNotFound.
func (s *Store) CommentByID(ctx context.Context, postID, id int64) (Comment, error) {
	var c Comment
	err := s.db.Read(ctx, "posts.CommentByID", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, `
			SELECT c.id, coalesce(c.author_id, 0), coalesce(u.name, ''), c.body, c.version, c.created_at
			  FROM comments c LEFT JOIN users u ON u.id = c.author_id
			 WHERE c.post_id = ? AND c.id = ?`, postID, id).
			Scan(&c.ID, &c.AuthorID, &c.Author, &c.Body, &c.Version, &c.CreatedAt)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Comment{}, fmt.Errorf("comment %d: %w", id, ErrNotFound)
	}
	return c, err
}

// UpdateComment saves a comment over one of the versions that its editor has seen.
// It returns ErrNotFound, ErrNotYours, or a ConflictError with what is there.
func (s *Store) UpdateComment(ctx context.Context, editor auth.User, postID, id int64, body string, seen web.Versions) error {
	return s.db.Write(ctx, "posts.UpdateComment", func(ctx context.Context, tx *dbroute.Tx) error {
		if err := s.lockComment(ctx, tx, editor, postID, id, seen); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE comments SET body = ?, version = version + 1 WHERE id = ?`, body, id); err != nil {
			return err
		}
		return s.changed(ctx, tx, Change{PostID: postID})
	})
}

// DeleteComment deletes a comment. It returns the errors of UpdateComment.
func (s *Store) DeleteComment(ctx context.Context, editor auth.User, postID, id int64, seen web.Versions) error {
	return s.db.Write(ctx, "posts.DeleteComment", func(ctx context.Context, tx *dbroute.Tx) error {
		if err := s.lockComment(ctx, tx, editor, postID, id, seen); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM comments WHERE id = ?`, id); err != nil {
			return err
		}
		return s.changed(ctx, tx, Change{PostID: postID, CanWait: true}, tallyKey(postID), CountsKey)
	})
}

// countChange counts a change to what belongs to a post. It comes first and locks the
// post, so that no two transactions wait for each other.
func countChange(ctx context.Context, tx *dbroute.Tx, postID int64) error {
	result, err := tx.ExecContext(ctx, `UPDATE posts SET changes = changes + 1 WHERE id = ?`, postID)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return fmt.Errorf("post %d: %w", postID, ErrNotFound)
	}
	return err
}

// lockComment locks a comment that is about to be changed, and counts that.
func (s *Store) lockComment(ctx context.Context, tx *dbroute.Tx, editor auth.User, postID, id int64, seen web.Versions) error {
	if err := countChange(ctx, tx, postID); err != nil {
		return err
	}
	version, err := lockOwn(ctx, tx, editor, `SELECT coalesce(author_id, 0), version FROM comments WHERE post_id = ? AND id = ? FOR UPDATE`, postID, id)
	if err != nil || seen.Has(version) {
		return err
	}
	current, err := s.CommentByID(ctx, postID, id)
	if err != nil {
		return err
	}
	return &ConflictError[Comment]{current}
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
