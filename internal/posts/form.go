package posts

import (
	"fmt"
	"net/url"
	"strconv"

	"freshread/internal/web"
)

// draftForm is the form of a post: what was typed, and what is wrong with it.
type draftForm struct {
	Title, Body           string
	TitleError, BodyError string
	Version               int // the version that was edited; 0 for a new post
}

// MaxTitle and MaxBody are for the template.
func (draftForm) MaxTitle() int { return MaxTitle }
func (draftForm) MaxBody() int  { return MaxBody }

func parseDraft(fields url.Values) (draftForm, error) {
	f := draftForm{}
	f.Title, f.TitleError = web.CheckLine(fields.Get("title"), "title", MaxTitle)
	f.Body, f.BodyError = web.CheckText(fields.Get("body"), "text", MaxBody)
	if v := fields.Get("version"); v != "" {
		version, err := strconv.ParseInt(v, 10, 32)
		if err != nil || version < 1 {
			return draftForm{}, fmt.Errorf("%w: version %q", web.ErrBadRequest, v)
		}
		f.Version = int(version)
	}
	return f, nil
}

func (f draftForm) valid() bool { return f.TitleError == "" && f.BodyError == "" }

func (f draftForm) draft() Draft { return Draft{Title: f.Title, Body: f.Body} }

// commentForm is the form of a comment.
type commentForm struct{ Body, BodyError string }

// MaxBody is for the template.
func (commentForm) MaxBody() int { return MaxComment }

func parseComment(fields url.Values) commentForm {
	body, problem := web.CheckText(fields.Get("body"), "comment", MaxComment)
	return commentForm{body, problem}
}
