package posts

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"freshread/internal/web"
	"freshread/templates"
)

// Pages serves the pages of posts.
type Pages struct {
	store *Store
	html  *web.Renderer
}

// NewPages returns pages on store.
func NewPages(store *Store, html *web.Renderer) *Pages { return &Pages{store, html} }

// Register adds the routes. The strategy must be in the chain of r already.
// What is in loaded runs once the post named by the route is loaded.
func (p *Pages) Register(r *web.Routes, loaded ...web.Middleware) {
	r.GET("/", p.home)
	r.GET("/posts", p.list)
	r.GET("/posts/new", p.newForm)
	r.POST("/posts", p.create)
	r.POST("/posts/:id", p.update)
	r.POST("/posts/:id/delete", p.delete)

	one := r.With(Load(p.store)).With(loaded...)
	one.GET("/posts/:id", p.show)
	one.GET("/posts/:id/edit", p.editForm)
	one.POST("/posts/:id/comments", p.addComment)
}

// How many there are on a page.
const (
	postsOnHome = 5
	postsOnPage = 10
	commentsOn  = 100
)

type homePage struct {
	templates.Base
	Posts []Summary
}

func (p *Pages) home(c echo.Context) error {
	list, err := p.store.Newest(c.Request().Context(), 0, postsOnHome)
	if err != nil {
		return err
	}
	page := &homePage{Posts: list}
	page.Title = "Newest posts"
	return p.html.HTML(c, http.StatusOK, "home", page)
}

type listPage struct {
	templates.Base
	Posts  []Summary
	Before int64 // where this page begins; 0 for the first
	Older  int64 // where the next page begins; 0 if there is none
}

func (p *Pages) list(c echo.Context) error {
	before, err := beforeQuery(c)
	if err != nil {
		return err
	}
	list, err := p.store.Newest(c.Request().Context(), before, postsOnPage+1)
	if err != nil {
		return err
	}
	page := &listPage{Posts: list, Before: before}
	if len(list) > postsOnPage {
		page.Posts = list[:postsOnPage]
		page.Older = page.Posts[postsOnPage-1].ID
	}
	page.Title = "Posts"
	return p.html.HTML(c, http.StatusOK, "posts", page)
}

type postPage struct {
	templates.Base
	Post     Post
	Comments []Comment
	Earlier  int64 // where the comments before these end; 0 if there are none
	Form     commentForm
}

func (p *Pages) show(c echo.Context) error {
	return p.showWith(c, http.StatusOK, commentForm{})
}

func (p *Pages) showWith(c echo.Context, status int, form commentForm) error {
	page, err := p.postPage(c, form)
	if err != nil {
		return err
	}
	return p.html.HTML(c, status, "post", page)
}

func (p *Pages) postPage(c echo.Context, form commentForm) (*postPage, error) {
	before, err := beforeQuery(c)
	if err != nil {
		return nil, err
	}
	post := loaded(c)
	comments, err := p.store.Comments(c.Request().Context(), post.ID, before, commentsOn+1)
	if err != nil {
		return nil, err
	}
	page := &postPage{Post: post, Comments: comments, Form: form}
	if len(comments) > commentsOn {
		page.Comments = comments[1:]
		page.Earlier = page.Comments[0].ID
	}
	page.Title = post.Title
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
	path := fmt.Sprintf("/posts/%d", id)
	page := &formPage{Form: form, Action: path, Cancel: path, Submit: "Save"}
	page.Title = "Edit post"
	return page
}

func (p *Pages) newForm(c echo.Context) error {
	return p.html.HTML(c, http.StatusOK, "post-form", newFormPage(draftForm{}))
}

func (p *Pages) editForm(c echo.Context) error {
	post := loaded(c)
	form := draftForm{Title: post.Title, Body: post.Body, Version: post.Version}
	return p.html.HTML(c, http.StatusOK, "post-form", editFormPage(post.ID, form))
}

func (p *Pages) create(c echo.Context) error {
	form, err := postedDraft(c)
	if err != nil {
		return err
	}
	page := newFormPage(form)
	if !form.valid() {
		return p.html.HTML(c, http.StatusUnprocessableEntity, "post-form", page)
	}
	id, err := p.store.Create(c.Request().Context(), form.draft())
	if err != nil {
		return web.OnPage(err, "post-form", page)
	}
	return web.SeeOther(c, fmt.Sprintf("/posts/%d", id))
}

func (p *Pages) update(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	form, err := postedDraft(c)
	if err != nil {
		return err
	}
	page := editFormPage(id, form)
	if !form.valid() {
		return p.html.HTML(c, http.StatusUnprocessableEntity, "post-form", page)
	}
	err = p.store.Update(c.Request().Context(), id, form.draft(), form.Version)
	var conflict *ConflictError
	switch {
	case errors.As(err, &conflict):
		page.Current = &conflict.Current
		page.Form.Version = conflict.Current.Version
		return p.html.HTML(c, http.StatusConflict, "post-form", page)
	case errors.Is(err, ErrNotFound):
		return web.OnPage(err, "post-form", newFormPage(form)) // it was deleted; the text need not be
	case err != nil:
		return web.OnPage(err, "post-form", page)
	}
	return web.SeeOther(c, page.Cancel)
}

func (p *Pages) delete(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	if err := p.store.Delete(c.Request().Context(), id); err != nil {
		return err
	}
	return web.SeeOther(c, "/posts")
}

func (p *Pages) addComment(c echo.Context) error {
	fields, err := web.Form(c)
	if err != nil {
		return err
	}
	form := parseComment(fields)
	if form.BodyError != "" {
		return p.showWith(c, http.StatusUnprocessableEntity, form)
	}
	post := loaded(c)
	id, err := p.store.AddComment(c.Request().Context(), post.ID, form.Body)
	switch {
	case errors.Is(err, ErrNotFound):
		return err
	case err != nil:
		return p.keepComment(c, err, form)
	}
	return web.SeeOther(c, fmt.Sprintf("/posts/%d#comment-%d", post.ID, id))
}

// keepComment shows a comment that could not be saved on a page of what was
// read before the save: after it the scope reads the primary, which is what
// has just failed.
func (p *Pages) keepComment(c echo.Context, err error, form commentForm) error {
	page := &postPage{Post: loaded(c), Form: form}
	page.Title = page.Post.Title
	return web.OnPage(err, "post", page)
}

func postedDraft(c echo.Context) (draftForm, error) {
	fields, err := web.Form(c)
	if err != nil {
		return draftForm{}, err
	}
	return parseDraft(fields)
}
