package posts

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"freshread/internal/auth"
	"freshread/internal/web"
	"freshread/templates"
)

// Pages serves the pages of posts and of the people who wrote them.
type Pages struct {
	store  *Store
	users  *auth.Store
	limits *auth.Limits
	html   *web.Renderer
	check  *Check
}

// NewPages returns pages on store. With a check, stale pages say so.
func NewPages(store *Store, users *auth.Store, limits *auth.Limits, html *web.Renderer, check *Check) *Pages {
	return &Pages{store, users, limits, html, check}
}

// Register adds the routes. The strategy and auth.Load must be in the chain of r
// already. What is in loaded runs once the post named by the route is loaded.
//
// What a form is sent to loads nothing, but for a new comment, whose errors are told
// on the page of its post. Who may change what is decided in the transaction.
func (p *Pages) Register(r *web.Routes, loaded ...web.Middleware) {
	r.GET("/", p.home)
	r.GET("/posts", p.list)
	r.POST("/posts", p.create)
	r.POST("/posts/:id", p.update)
	r.POST("/posts/:id/delete", p.delete)
	r.POST("/posts/:id/comments/:comment", p.updateComment)
	r.POST("/posts/:id/comments/:comment/delete", p.deleteComment)
	r.GET("/people/:id", p.person)

	one := r.With(Load(p.store)).With(loaded...)
	one.GET("/posts/:id", p.show)
	one.POST("/posts/:id/comments", p.addComment)

	r.GET("/posts/new", p.newForm, auth.Required())
	one.GET("/posts/:id/edit", p.editForm, auth.Required())
	one.GET("/posts/:id/comments/:comment/edit", p.editCommentForm, auth.Required())
}

// How many there are on a page.
const (
	postsOnHome = 5
	postsOnPage = 10
	commentsOn  = 100
)

type homePage struct {
	templates.Base
	Posts  []Listing
	People int
	Counts Counts
}

func (p *Pages) home(c echo.Context) error {
	ctx := c.Request().Context()
	list, err := p.store.Newest(ctx, 0, postsOnHome)
	if err != nil {
		return err
	}
	people, err := p.users.Count(ctx)
	if err != nil {
		return err
	}
	counts, err := p.store.Counts(ctx)
	if err != nil {
		return err
	}
	page := &homePage{Posts: list, People: people, Counts: counts}
	page.Title = "Newest posts"
	return p.html.HTML(c, http.StatusOK, "home", page)
}

// slice is a part of a list of posts.
type slice struct {
	Posts  []Listing
	Before int64 // where it begins; 0 for the first
	Older  int64 // where the next begins; 0 if there is none
}

// newSlice is made from one post more than a page has.
func newSlice(list []Listing, before int64) slice {
	list, older := web.Split(list, postsOnPage, func(l Listing) int64 { return l.ID })
	return slice{Posts: list, Before: before, Older: older}
}

type listPage struct {
	templates.Base
	slice
}

func (p *Pages) list(c echo.Context) error {
	before, err := web.BeforeQuery(c)
	if err != nil {
		return err
	}
	list, err := p.store.Newest(c.Request().Context(), before, postsOnPage+1)
	if err != nil {
		return err
	}
	page := &listPage{slice: newSlice(list, before)}
	page.Title = "Posts"
	return p.html.HTML(c, http.StatusOK, "posts", page)
}

type personPage struct {
	templates.Base
	slice
	Person auth.User
}

func (p *Pages) person(c echo.Context) error {
	id, err := web.IDParam(c, "id")
	if err != nil {
		return err
	}
	before, err := web.BeforeQuery(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	person, err := p.users.ByID(ctx, id)
	if err != nil {
		return err
	}
	list, err := p.store.ByAuthor(ctx, id, before, postsOnPage+1)
	if err != nil {
		return err
	}
	page := &personPage{slice: newSlice(list, before), Person: person}
	page.Title = person.Name
	page.Stale = p.check.person(c, person)
	return p.html.HTML(c, http.StatusOK, "person", page)
}

type postPage struct {
	templates.Base
	Post     Post
	Comments []Comment
	All      bool  // they are all that the post has
	Earlier  int64 // where the comments before these end; 0 if there are none
	Summary  Summary
	Pending  bool   // a change is not in the summary yet
	Trouble  string // why it will not be for the moment
	Form     commentForm
	user     auth.User
}

// MayChange reports whether whoever looks at the page may change what author
// wrote.
func (p *postPage) MayChange(author int64) bool { return p.user.MayChange(author) }

func newPostPage(c echo.Context, form commentForm) *postPage {
	page := &postPage{Post: loaded(c), Form: form, user: auth.Current(c.Request().Context())}
	page.Title = page.Post.Title
	return page
}

func (p *Pages) show(c echo.Context) error {
	return p.showWith(c, http.StatusOK, commentForm{})
}

func (p *Pages) showWith(c echo.Context, status int, form commentForm) error {
	page, err := p.pageWith(c, form)
	if err != nil {
		return err
	}
	return p.html.HTML(c, status, "post", page)
}

func (p *Pages) pageWith(c echo.Context, form commentForm) (*postPage, error) {
	before, err := web.BeforeQuery(c)
	if err != nil {
		return nil, err
	}
	page := newPostPage(c, form)
	page.Comments, err = p.store.Comments(c.Request().Context(), page.Post.ID, before, commentsOn+1)
	if err != nil {
		return nil, err
	}
	page.All = before == 0 && len(page.Comments) <= commentsOn
	if page.Summary, page.Pending, err = p.store.SummaryOf(c.Request().Context(), page.Post.ID); err != nil {
		return nil, err
	}
	page.Trouble = p.store.SummaryTrouble()
	if len(page.Comments) > commentsOn {
		page.Comments = page.Comments[1:]
		page.Earlier = page.Comments[0].ID
	}
	page.Stale = p.check.post(c, page.Post)
	return page, nil
}

type formPage struct {
	templates.Base
	Form    draftForm
	Action  string // where the form is sent
	Cancel  string
	Submit  string
	Current *Post // what somebody else has saved meanwhile
}

func newFormPage(form draftForm) *formPage {
	page := &formPage{Form: form, Action: "/posts", Cancel: "/posts", Submit: "Publish"}
	page.Title = "New post"
	return page
}

func editFormPage(id int64, form draftForm) *formPage {
	path := postPath(id)
	page := &formPage{Form: form, Action: path, Cancel: path, Submit: "Save"}
	page.Title = "Edit post"
	return page
}

func postPath(id int64) string { return fmt.Sprintf("/posts/%d", id) }

func (p *Pages) newForm(c echo.Context) error {
	return p.html.HTML(c, http.StatusOK, "post-form", newFormPage(draftForm{}))
}

func (p *Pages) editForm(c echo.Context) error {
	post := loaded(c)
	if !auth.Current(c.Request().Context()).MayChange(post.AuthorID) {
		return ErrNotYours
	}
	form := draftForm{Title: post.Title, Body: post.Body, Version: edited(post.Version)}
	return p.html.HTML(c, http.StatusOK, "post-form", editFormPage(post.ID, form))
}

func (p *Pages) create(c echo.Context) error {
	form, err := postedDraft(c)
	if err != nil {
		return err
	}
	page := newFormPage(form)
	author := auth.Current(c.Request().Context())
	switch {
	case author.ID == 0:
		return web.OnPage(web.ErrLogInRequired, "post-form", page)
	case !form.valid():
		return p.html.HTML(c, http.StatusUnprocessableEntity, "post-form", page)
	}
	ctx := c.Request().Context()
	if err := p.limits.Write(ctx, author.ID); err != nil {
		return web.OnPage(err, "post-form", page)
	}
	id, err := p.store.Create(ctx, author.ID, form.draft())
	if err != nil {
		return web.OnPage(err, "post-form", page)
	}
	return web.SeeOther(c, postPath(id), web.FlashPostSaved)
}

func (p *Pages) update(c echo.Context) error {
	id, err := web.IDParam(c, "id")
	if err != nil {
		return err
	}
	form, err := postedDraft(c)
	if err != nil {
		return err
	}
	page := editFormPage(id, form)
	editor := auth.Current(c.Request().Context())
	switch {
	case editor.ID == 0:
		return web.OnPage(web.ErrLogInRequired, "post-form", page)
	case !form.valid():
		return p.html.HTML(c, http.StatusUnprocessableEntity, "post-form", page)
	}
	ctx := c.Request().Context()
	if err := p.limits.Write(ctx, editor.ID); err != nil {
		return web.OnPage(err, "post-form", page)
	}
	err = p.store.Update(ctx, editor, id, form.draft(), form.Version.seen())
	var conflict *ConflictError[Post]
	switch {
	case errors.As(err, &conflict):
		page.Current = &conflict.Current
		page.Form.Version = edited(conflict.Current.Version)
		return p.html.HTML(c, http.StatusConflict, "post-form", page)
	case errors.Is(err, ErrNotYours):
		return err
	case errors.Is(err, ErrNotFound):
		return web.OnPage(err, "post-form", newFormPage(form)) // it was deleted; the text need not be
	case err != nil:
		return web.OnPage(err, "post-form", page)
	}
	return web.SeeOther(c, page.Cancel, web.FlashPostSaved)
}

func (p *Pages) delete(c echo.Context) error {
	id, err := web.IDParam(c, "id")
	if err != nil {
		return err
	}
	editor := auth.Current(c.Request().Context())
	if editor.ID == 0 {
		return web.ErrLogInRequired
	}
	ctx := c.Request().Context()
	if err := p.limits.Write(ctx, editor.ID); err != nil {
		return err
	}
	if err := p.store.Delete(ctx, editor, id, web.Any); err != nil {
		return err
	}
	return web.SeeOther(c, "/posts", web.FlashPostDeleted)
}

func postedDraft(c echo.Context) (draftForm, error) {
	fields, err := web.Form(c)
	if err != nil {
		return draftForm{}, err
	}
	return parseDraft(fields)
}
