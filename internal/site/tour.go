package site

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/auth"
	"freshread/internal/dbroute"
	"freshread/internal/posts"
	"freshread/internal/web"
	"freshread/templates"
)

// tour leads a visitor of a demo from the bug to its cure in three clicks. Each saves
// what the visitor could have saved by hand, and opens the page that shows it.
type tour struct {
	cluster *dbroute.Cluster
	people  *auth.Pages
	posts   *posts.Store
	limits  *auth.Limits
	choice  *web.Choice
	end     string // the page that says why
}

func (t *tour) register(r *web.Routes) { r.POST("/tour", t.step) }

// step takes the form of a step.
func (t *tour) step(c echo.Context) error {
	fields, err := web.Form(c)
	if err != nil {
		return err
	}
	switch step := fields.Get("step"); step {
	case templates.TourBug:
		return t.save(c, step, web.StrategyNone)
	case templates.TourCure:
		return t.save(c, step, web.StrategyCommit)
	case templates.TourWhy:
		t.choice.Reset(c)
		return c.Redirect(http.StatusSeeOther, t.end+"?tour="+step)
	default:
		return fmt.Errorf("%w: step %q of the tour", web.ErrBadRequest, step)
	}
}

// save saves a new title, and opens its page under a strategy.
func (t *tour) save(c echo.Context, step, strategy string) error {
	user, err := t.people.EnterDemo(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := t.limits.Write(ctx, user.ID); err != nil {
		return err
	}
	post, err := t.post(ctx, user)
	if err != nil {
		return err
	}
	if err := t.posts.Update(ctx, user, post.ID, posts.Draft{Title: nextDraft(post.Title), Body: post.Body}, web.Any); err != nil {
		return err
	}
	t.choice.Choose(c, strategy)
	return c.Redirect(http.StatusSeeOther, fmt.Sprintf("/posts/%d?tour=%s", post.ID, step))
}

// The titles of the post that the tour saves, one after the other.
const (
	tourTitle = "Q3 pricing"
	tourDraft = tourTitle + ", draft %d"
	tourBody  = "The autumn prices, for you to pick apart before they go out."
)

func nextDraft(title string) string {
	n := 1
	if _, err := fmt.Sscanf(title, tourDraft, &n); err == nil {
		n++
	}
	return fmt.Sprintf(tourDraft, n)
}

// post returns the user's post for the tour as it is now. Who has none gets one, which
// the replicas must have before it can be stale on them.
func (t *tour) post(ctx context.Context, user auth.User) (post posts.Post, err error) {
	err = t.cluster.Read(dbroute.UsePrimary(ctx), "tour.Post", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, `
			SELECT id, title, body
			  FROM posts
			 WHERE author_id = ? AND title LIKE ?
			 ORDER BY id
			 LIMIT 1`, user.ID, tourTitle+"%").Scan(&post.ID, &post.Title, &post.Body)
	})
	if errors.Is(err, sql.ErrNoRows) {
		post.Title, post.Body = tourTitle, tourBody
		if post.ID, err = t.posts.Create(ctx, user.ID, posts.Draft{Title: post.Title, Body: post.Body}); err == nil {
			err = t.awaitReplicas(ctx)
		}
	}
	return post, err
}

// patience is for replicas that are as late as a demo's usually are.
const patience = 10 * time.Second

// awaitReplicas returns once each replica has what the scope has written.
func (t *tour) awaitReplicas(ctx context.Context) error {
	written, err := t.cluster.LastCommitID(ctx)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(patience)
	for i := range t.cluster.Replicas() {
		ctx, scope := t.cluster.NewScope(ctx)
		scope.Prefer(uint64(i))
		scope.RouteAnywhere(dbroute.Marker{})
		has, err := t.cluster.HasCommitID(ctx, written, time.Until(deadline))
		switch {
		case err != nil:
			return err
		case !has:
			return web.Explain(web.ErrUnavailable,
				"The post that the tour is about is saved, but a replica does not have it yet. Please start the tour again in a moment.")
		}
	}
	return nil
}
