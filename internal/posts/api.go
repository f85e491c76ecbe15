package posts

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/auth"
	"freshread/internal/idempotency"
	"freshread/internal/web"
)

// API serves /api/posts.
type API struct {
	store  *Store
	limits *auth.Limits
	keys   *idempotency.Keys
}

// NewAPI returns the API of posts on store.
func NewAPI(store *Store, limits *auth.Limits, keys *idempotency.Keys) *API {
	return &API{store, limits, keys}
}

// Register adds the routes: what may be read goes to read, what changes something to
// write. What is in loaded runs once the post named by the route is loaded.
func (a *API) Register(read, write *web.Routes, loaded ...web.Middleware) {
	read.GET("/api/posts", a.list)
	write.POST("/api/posts", a.create)
	write.PUT("/api/posts/:id", a.update)
	write.DELETE("/api/posts/:id", a.delete)
	write.POST("/api/posts/:id/comments", a.addComment)
	read.GET("/api/posts/:id/comments/:comment", a.showComment)
	write.PUT("/api/posts/:id/comments/:comment", a.updateComment)
	write.DELETE("/api/posts/:id/comments/:comment", a.deleteComment)

	one := read.With(Load(a.store)).With(loaded...)
	one.GET("/api/posts/:id", a.show)
	one.GET("/api/posts/:id/comments", a.comments)
}

// once counts a write of the user, and runs it once by its key.
func (a *API) once(c echo.Context, name string, body any, do func(context.Context) (web.Answer, error)) error {
	ctx := c.Request().Context()
	if err := a.limits.Write(ctx, auth.Current(ctx).ID); err != nil {
		return err
	}
	return a.keys.Once(c, name, body, do)
}

// authorJSON is who wrote something.
type authorJSON struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

// author is nil for what was written without an account.
func author(id int64, name string) *authorJSON {
	if id == 0 {
		return nil
	}
	return &authorJSON{id, name}
}

type postJSON struct {
	ID        int64       `json:"id"`
	Title     string      `json:"title"`
	Body      string      `json:"body"`
	Author    *authorJSON `json:"author"`
	Version   int         `json:"version"`
	CreatedAt time.Time   `json:"created_at"`
	UpdatedAt time.Time   `json:"updated_at"`
	ServerID  int         `json:"server_id,omitempty"` // not in lists
}

func jsonOf(p Post) postJSON {
	return postJSON{
		ID: p.ID, Title: p.Title, Body: p.Body, Author: author(p.AuthorID, p.Author),
		Version: p.Version, CreatedAt: p.CreatedAt.UTC(), UpdatedAt: p.UpdatedAt.UTC(),
	}
}

func answerPost(c echo.Context, status int, p Post) web.Answer {
	body := jsonOf(p)
	body.ServerID = web.ServerID(c)
	return web.Answer{Status: status, ETag: web.ETag(p.Version), Body: body}
}

// summaryJSON is a post as the list has it.
type summaryJSON struct {
	postJSON
	Comments int `json:"comments"`
}

func (a *API) list(c echo.Context) error {
	before, limit, err := web.PartQuery(c)
	if err != nil {
		return err
	}
	list, err := a.store.Newest(c.Request().Context(), before, limit+1)
	if err != nil {
		return err
	}
	list, older := web.Split(list, limit, func(l Listing) int64 { return l.ID })
	posts := make([]summaryJSON, len(list))
	for i, s := range list {
		posts[i] = summaryJSON{jsonOf(s.Post), s.Comments}
	}
	return web.Answer{Status: http.StatusOK, Body: struct {
		Posts    []summaryJSON `json:"posts"`
		Next     *string       `json:"next"`
		ServerID int           `json:"server_id,omitempty"`
	}{posts, web.Next(c, older), web.ServerID(c)}}.Send(c)
}

func (a *API) show(c echo.Context) error {
	return answerPost(c, http.StatusOK, loaded(c)).Send(c)
}

// draftJSON is what a program sends to save a post.
type draftJSON struct {
	Title string `json:"title"`
	Body  string `json:"body"`
}

func sentDraft(c echo.Context) (Draft, error) {
	sent, err := web.Decode[draftJSON](c)
	if err != nil {
		return Draft{}, err
	}
	f := checkDraft(sent.Title, sent.Body)
	return f.draft(), web.Invalid("title", f.TitleError, "body", f.BodyError)
}

func (a *API) create(c echo.Context) error {
	draft, err := sentDraft(c)
	if err != nil {
		return err
	}
	return a.once(c, "posts.Create", draft, func(ctx context.Context) (web.Answer, error) {
		id, err := a.store.Create(ctx, auth.Current(ctx).ID, draft)
		if err != nil {
			return web.Answer{}, err
		}
		saved, err := a.store.ByID(ctx, id)
		answer := answerPost(c, http.StatusCreated, saved)
		answer.Location = apiPath(id)
		return answer, err
	})
}

// postToChange reads which post is to be changed, and which versions of it may be.
func postToChange(c echo.Context) (id int64, seen web.Versions, err error) {
	if id, err = web.IDParam(c, "id"); err == nil {
		seen, err = web.IfMatch(c)
	}
	return id, seen, err
}

// commentToChange is postToChange for a comment.
func commentToChange(c echo.Context) (postID, id int64, seen web.Versions, err error) {
	if postID, id, err = commentParams(c); err == nil {
		seen, err = web.IfMatch(c)
	}
	return postID, id, seen, err
}

func apiPath(postID int64) string { return fmt.Sprintf("/api/posts/%d", postID) }

func (a *API) update(c echo.Context) error {
	id, seen, err := postToChange(c)
	if err != nil {
		return err
	}
	draft, err := sentDraft(c)
	if err != nil {
		return err
	}
	return a.once(c, "posts.Update", draft, func(ctx context.Context) (web.Answer, error) {
		if err := a.store.Update(ctx, auth.Current(ctx), id, draft, seen); err != nil {
			return web.Answer{}, err
		}
		saved, err := a.store.ByID(ctx, id)
		return answerPost(c, http.StatusOK, saved), err
	})
}

func (a *API) delete(c echo.Context) error {
	id, seen, err := postToChange(c)
	if err != nil {
		return err
	}
	return a.once(c, "posts.Delete", nil, func(ctx context.Context) (web.Answer, error) {
		return web.Answer{Status: http.StatusNoContent}, a.store.Delete(ctx, auth.Current(ctx), id, seen)
	})
}

type commentJSON struct {
	ID        int64       `json:"id"`
	PostID    int64       `json:"post_id"`
	Body      string      `json:"body"`
	Author    *authorJSON `json:"author"`
	Version   int         `json:"version"`
	CreatedAt time.Time   `json:"created_at"`
	ServerID  int         `json:"server_id,omitempty"` // not in lists
}

func commentOf(postID int64, c Comment) commentJSON {
	return commentJSON{
		ID: c.ID, PostID: postID, Body: c.Body, Author: author(c.AuthorID, c.Author),
		Version: c.Version, CreatedAt: c.CreatedAt.UTC(),
	}
}

func answerComment(c echo.Context, status int, postID int64, comment Comment) web.Answer {
	body := commentOf(postID, comment)
	body.ServerID = web.ServerID(c)
	return web.Answer{Status: status, ETag: web.ETag(comment.Version), Body: body}
}

// comments lists the newest first, as posts are.
func (a *API) comments(c echo.Context) error {
	before, limit, err := web.PartQuery(c)
	if err != nil {
		return err
	}
	post := loaded(c)
	list, err := a.store.Comments(c.Request().Context(), post.ID, before, limit+1)
	if err != nil {
		return err
	}
	slices.Reverse(list)
	list, older := web.Split(list, limit, func(c Comment) int64 { return c.ID })
	comments := make([]commentJSON, len(list))
	for i, comment := range list {
		comments[i] = commentOf(post.ID, comment)
	}
	return web.Answer{Status: http.StatusOK, Body: struct {
		Comments []commentJSON `json:"comments"`
		Next     *string       `json:"next"`
		ServerID int           `json:"server_id,omitempty"`
	}{comments, web.Next(c, older), web.ServerID(c)}}.Send(c)
}

func sentComment(c echo.Context) (string, error) {
	sent, err := web.Decode[struct {
		Body string `json:"body"`
	}](c)
	if err != nil {
		return "", err
	}
	f := checkComment(sent.Body)
	return f.Body, web.Invalid("body", f.BodyError)
}

func (a *API) addComment(c echo.Context) error {
	postID, err := web.IDParam(c, "id")
	if err != nil {
		return err
	}
	body, err := sentComment(c)
	if err != nil {
		return err
	}
	return a.once(c, "posts.AddComment", body, func(ctx context.Context) (web.Answer, error) {
		id, err := a.store.AddComment(ctx, postID, auth.Current(ctx).ID, body)
		if err != nil {
			return web.Answer{}, err
		}
		saved, err := a.store.CommentByID(ctx, postID, id)
		answer := answerComment(c, http.StatusCreated, postID, saved)
		answer.Location = fmt.Sprintf("%s/comments/%d", apiPath(postID), id)
		return answer, err
	})
}

func (a *API) showComment(c echo.Context) error {
	postID, id, err := commentParams(c)
	if err != nil {
		return err
	}
	comment, err := a.store.CommentByID(c.Request().Context(), postID, id)
	if err != nil {
		return err
	}
	return answerComment(c, http.StatusOK, postID, comment).Send(c)
}

func (a *API) updateComment(c echo.Context) error {
	postID, id, seen, err := commentToChange(c)
	if err != nil {
		return err
	}
	body, err := sentComment(c)
	if err != nil {
		return err
	}
	return a.once(c, "posts.UpdateComment", body, func(ctx context.Context) (web.Answer, error) {
		if err := a.store.UpdateComment(ctx, auth.Current(ctx), postID, id, body, seen); err != nil {
			return web.Answer{}, err
		}
		saved, err := a.store.CommentByID(ctx, postID, id)
		return answerComment(c, http.StatusOK, postID, saved), err
	})
}

func (a *API) deleteComment(c echo.Context) error {
	postID, id, seen, err := commentToChange(c)
	if err != nil {
		return err
	}
	return a.once(c, "posts.DeleteComment", nil, func(ctx context.Context) (web.Answer, error) {
		return web.Answer{Status: http.StatusNoContent}, a.store.DeleteComment(ctx, auth.Current(ctx), postID, id, seen)
	})
}
