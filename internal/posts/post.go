// Package posts is posts and their comments: types, SQL, pages.
package posts

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// Post is a post as its page shows it.
type Post struct {
	ID        int64
	Author    string // empty if it was written without an account
	Title     string
	Body      string
	Version   int // counts saves, from 1
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Edited reports whether the post was saved again after it was created.
func (p Post) Edited() bool { return p.Version > 1 }

// Summary is a post as lists show it.
type Summary struct {
	Post
	Comments int
}

// excerptLength is about two lines of a list, in characters.
const excerptLength = 220

// Excerpt is the beginning of the post, on one line.
func (s Summary) Excerpt() string {
	text := strings.Join(strings.Fields(s.Body), " ")
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
	Author    string // empty if it was written without an account
	Body      string
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

// ErrNotFound is a post that does not exist, or no longer.
var ErrNotFound = errors.New("no such post")

// ConflictError is an update of a version that somebody else has replaced.
type ConflictError struct{ Current Post }

func (e *ConflictError) Error() string { return "post was saved by somebody else meanwhile" }
