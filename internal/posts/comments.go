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

func commentPath(postID, id int64) string { return fmt.Sprintf("/posts/%d#comment-%d", postID, id) }

func (p *Pages) addComment(c echo.Context) error {
	form, err := postedComment(c)
	if err != nil {
		return err
	}
	author := auth.Current(c.Request().Context())
	switch {
	case author.ID == 0:
		return web.OnPage(web.ErrLogInRequired, "post", newPostPage(c, form))
	case form.BodyError != "":
		return p.showWith(c, http.StatusUnprocessableEntity, form)
	}
	post, ctx := loaded(c), c.Request().Context()
	if err := p.limits.Write(ctx, author.ID); err != nil {
		page, readErr := p.pageWith(c, form)
		if readErr != nil {
			page = newPostPage(c, form)
		}
		return web.OnPage(err, "post", page)
	}
	id, err := p.store.AddComment(ctx, post.ID, author.ID, form.Body)
	switch {
	case errors.Is(err, ErrNotFound):
		return err
	case err != nil:
		// The page has no comments: to read them is what would fail now.
		return web.OnPage(err, "post", newPostPage(c, form))
	}
	return web.SeeOther(c, commentPath(post.ID, id), web.FlashCommentSaved)
}

type commentPage struct {
	templates.Base
	Form    commentForm
	Action  string
	Cancel  string
	Current *Comment // what somebody else has saved meanwhile
}

func newCommentPage(postID, id int64, form commentForm) *commentPage {
	page := &commentPage{
		Form:   form,
		Action: fmt.Sprintf("/posts/%d/comments/%d", postID, id),
		Cancel: commentPath(postID, id),
	}
	page.Title = "Edit comment"
	return page
}

func (p *Pages) editCommentForm(c echo.Context) error {
	id, err := web.IDParam(c, "comment")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	post := loaded(c)
	comment, err := p.store.CommentByID(ctx, post.ID, id)
	if err != nil {
		return err
	}
	if !auth.Current(ctx).MayChange(comment.AuthorID) {
		return ErrNotYours
	}
	form := commentForm{Body: comment.Body, Version: edited(comment.Version)}
	return p.html.HTML(c, http.StatusOK, "comment-form", newCommentPage(post.ID, id, form))
}

func (p *Pages) updateComment(c echo.Context) error {
	postID, id, err := commentParams(c)
	if err != nil {
		return err
	}
	form, err := postedComment(c)
	if err != nil {
		return err
	}
	page := newCommentPage(postID, id, form)
	editor := auth.Current(c.Request().Context())
	switch {
	case editor.ID == 0:
		return web.OnPage(web.ErrLogInRequired, "comment-form", page)
	case form.BodyError != "":
		return p.html.HTML(c, http.StatusUnprocessableEntity, "comment-form", page)
	}
	ctx := c.Request().Context()
	if err := p.limits.Write(ctx, editor.ID); err != nil {
		return web.OnPage(err, "comment-form", page)
	}
	err = p.store.UpdateComment(ctx, editor, postID, id, form.Body, form.Version.seen())
	var conflict *ConflictError[Comment]
	switch {
	case errors.As(err, &conflict):
		page.Current = &conflict.Current
		page.Form.Version = edited(conflict.Current.Version)
		return p.html.HTML(c, http.StatusConflict, "comment-form", page)
	case errors.Is(err, ErrNotYours):
		return err
	case err != nil:
		return web.OnPage(err, "comment-form", page)
	}
	return web.SeeOther(c, commentPath(postID, id), web.FlashCommentSaved)
}

func (p *Pages) deleteComment(c echo.Context) error {
	postID, id, err := commentParams(c)
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
	if err := p.store.DeleteComment(ctx, editor, postID, id, web.Any); err != nil {
		return err
	}
	return web.SeeOther(c, postPath(postID)+"#comments", web.FlashCommentDeleted)
}

func commentParams(c echo.Context) (postID, id int64, err error) {
	if postID, err = web.IDParam(c, "id"); err == nil {
		id, err = web.IDParam(c, "comment")
	}
	return postID, id, err
}

func postedComment(c echo.Context) (commentForm, error) {
	fields, err := web.Form(c)
	if err != nil {
		return commentForm{}, err
	}
	return parseComment(fields)
}
