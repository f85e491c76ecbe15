// Package posts is posts and their comments: types, SQL, pages.
package posts

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"freshread/internal/web"
)

// Post is a post as its page shows it.
type Post struct {
	ID        int64
	AuthorID  int64  // 0 if it was written without an account
	Author    string // the author's name, empty likewise
	Title     string
	Body      string
	Version   int // counts saves, from 1
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Edited reports whether the post was saved again after it was created.
func (p Post) Edited() bool { return p.Version > 1 }

// Listing is a post as lists show it.
type Listing struct {
	Post
	Tally
}

// excerptLength is about two lines of a list, in characters.
const excerptLength = 220

// Excerpt is the beginning of the post, on one line.
func (l Listing) Excerpt() string {
	text := strings.Join(strings.Fields(l.Body), " ")
	if utf8.RuneCountInString(text) <= excerptLength {
		return text
	}
	text = string([]rune(text)[:excerptLength])
	if i := strings.LastIndexByte(text, ' '); i > 0 {
		text = text[:i]
	}
	return text + " …"
}

// Comment is a comment on a post.
type Comment struct {
	ID        int64
	AuthorID  int64  // 0 if it was written without an account
	Author    string // the author's name, empty likewise
	Body      string
	Version   int // counts saves, from 1
	CreatedAt time.Time
}

// Draft is what somebody writes in a post.
type Draft struct{ Title, Body string }

// The longest title and texts, in characters.
const (
	MaxTitle   = 200
	MaxBody    = 20_000
	MaxComment = 2_000
)

var (
	// ErrNotFound is a post or a comment that does not exist, or no longer.
	ErrNotFound = fmt.Errorf("post or comment %w", web.ErrNotFound)
	// ErrNotYours is a change to what somebody else wrote.
	ErrNotYours = fmt.Errorf("written by somebody else: %w", web.ErrForbidden)
)

// ConflictError is a change to a version that somebody else has replaced, of a Post or
// a Comment.
type ConflictError[T any] struct{ Current T }

func (e *ConflictError[T]) Error() string { return "saved by somebody else meanwhile" }

// Unwrap tells programs what pages tell in their own words.
func (e *ConflictError[T]) Unwrap() error { return web.ErrChanged }
