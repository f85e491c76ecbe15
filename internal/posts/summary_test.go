package posts_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"freshread/internal/auth"
	"freshread/internal/dbroute"
	"freshread/internal/posts"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack/stacktest"
	"freshread/internal/web"
)

// asked notes what it is asked to summarise.
type asked struct{ changes []posts.Change }

func (a *asked) PostChanged(_ context.Context, _ *dbroute.Tx, c posts.Change) error {
	a.changes = append(a.changes, c)
	return nil
}

func (*asked) Trouble() string { return "" }

func TestEachChangeAsksForASummary(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		ctx, author := stacktest.Context(t), s.User("Mara").ID
		editor := auth.User{ID: author}
		var a asked
		store := posts.NewStore(s.Cluster, nil, &a)
		post, err := store.Create(ctx, author, posts.Draft{Title: "First", Body: "Text"})
		stacktest.Must(t, err)
		comment, err := store.AddComment(ctx, post, author, "A comment")
		stacktest.Must(t, err)
		stacktest.Must(t, store.Update(ctx, editor, post, posts.Draft{Title: "Second", Body: "Text"}, web.Versions{1}))
		stacktest.Must(t, store.UpdateComment(ctx, editor, post, comment, "A better comment", web.Any))
		stacktest.Must(t, store.DeleteComment(ctx, editor, post, comment, web.Any))
		want := []posts.Change{{PostID: post}, {PostID: post}, {PostID: post}, {PostID: post}, {PostID: post, CanWait: true}}
		if got := fmt.Sprint(a.changes); got != fmt.Sprint(want) {
			t.Errorf("asked for %v, want %v", got, want)
		}
		source, err := store.Source(dbroute.UsePrimary(ctx), post)
		stacktest.Must(t, err)
		if source.Changes != int64(len(want)) || source.Title != "Second" || source.CommentsJoined != 0 || source.CommentsCounted != 0 {
			t.Errorf("the source is %+v", source)
		}

		// What is refused asks for nothing.
		var conflict *posts.ConflictError[posts.Post]
		if err := store.Update(ctx, editor, post, posts.Draft{Title: "Third", Body: "Text"}, web.Versions{1}); !errors.As(err, &conflict) {
			t.Errorf("an update of an old version: %v", err)
		}
		if err := store.DeleteComment(ctx, editor, post, comment, web.Any); !errors.Is(err, posts.ErrNotFound) {
			t.Errorf("the deletion of a deleted comment: %v", err)
		}
		if len(a.changes) != len(want) {
			t.Errorf("asked for %v", a.changes[len(want):])
		}
	})
}

func TestSummaryCountsWords(t *testing.T) {
	for words, minutes := range map[int]int{0: 0, 1: 1, 220: 1, 221: 2, 2200: 10} {
		sum := posts.Source{Title: "T", Body: strings.Repeat("née\n\n", words), CommentsCounted: 3}.Summary()
		if sum.Words != words || sum.Minutes != minutes || sum.Comments != 3 || sum.Title != "T" {
			t.Errorf("the summary of %d words is %+v", words, sum)
		}
	}
}

func TestLaterSummaryWins(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		ctx := dbroute.UsePrimary(stacktest.Context(t))
		post := create(s, s.User("Mara").ID, "First")
		older := posts.Summary{PostID: post, Title: "Older", Comments: 1, Changes: 2}
		newer := posts.Summary{PostID: post, Title: "Newer", Comments: 2, Changes: 3}
		for _, c := range []struct {
			sum   posts.Summary
			saved bool
			want  string
		}{{older, true, "Older"}, {older, false, "Older"}, {newer, true, "Newer"}, {older, false, "Newer"}, {newer, false, "Newer"}} {
			saved, err := s.Posts.SaveSummary(ctx, c.sum)
			stacktest.Must(t, err)
			got, _, err := s.Posts.SummaryOf(ctx, post)
			stacktest.Must(t, err)
			if saved != c.saved || got.Title != c.want {
				t.Errorf("%s is saved: %v, and then there is %s; want %v, %s", c.sum.Title, saved, got.Title, c.saved, c.want)
			}
		}
		if _, err := s.Posts.SaveSummary(ctx, posts.Summary{PostID: post + 1}); !errors.Is(err, posts.ErrNotFound) {
			t.Errorf("of a post that is not there: %v", err)
		}
		exec(s, `DELETE FROM posts WHERE id = ?`, post) // the summary goes too
		if _, _, err := s.Posts.SummaryOf(ctx, post); !errors.Is(err, posts.ErrNotFound) {
			t.Errorf("after the deletion: %v", err)
		}
	})
}

// All lock the post first, so that none waits for one that waits for it.
func TestChangesAtOnceDoNotDeadlock(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		s := sitetest.New(t, engine)
		ctx, author := stacktest.Context(t), s.User("Mara").ID
		editor := auth.User{ID: author}
		for range 5 {
			post := create(s, author, "Busy")
			comment, err := s.Posts.AddComment(ctx, post, author, "A comment")
			stacktest.Must(t, err)
			var g errgroup.Group
			for range 3 {
				for _, change := range []func() error{
					func() error { return s.Posts.UpdateComment(ctx, editor, post, comment, "Better", web.Any) },
					func() error { _, err := s.Posts.AddComment(ctx, post, author, "Another"); return err },
					func() error { return s.Posts.DeleteComment(ctx, editor, post, comment, web.Any) },
					func() error {
						return s.Posts.Update(ctx, editor, post, posts.Draft{Title: "Busy", Body: "Text"}, web.Any)
					},
					func() error {
						_, err := s.Posts.SaveSummary(ctx, posts.Summary{PostID: post, Title: "Busy", Changes: 1})
						return err
					},
					func() error { return s.Posts.Delete(ctx, editor, post, web.Any) },
				} {
					g.Go(func() error {
						if err := change(); !errors.Is(err, posts.ErrNotFound) {
							return err
						}
						return nil // another has deleted it
					})
				}
			}
			stacktest.Must(t, g.Wait())
		}
	})
}
