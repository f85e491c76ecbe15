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
	Version               edited
}

// MaxTitle and MaxBody are for the template.
func (draftForm) MaxTitle() int { return MaxTitle }
func (draftForm) MaxBody() int  { return MaxBody }

func parseDraft(fields url.Values) (draftForm, error) {
	f := checkDraft(fields.Get("title"), fields.Get("body"))
	var err error
	f.Version, err = parseVersion(fields)
	return f, err
}

func checkDraft(title, body string) draftForm {
	f := draftForm{}
	f.Title, f.TitleError = web.CheckLine(title, "title", MaxTitle)
	f.Body, f.BodyError = web.CheckText(body, "text", MaxBody)
	return f
}

func (f draftForm) valid() bool { return f.TitleError == "" && f.BodyError == "" }

func (f draftForm) draft() Draft { return Draft{Title: f.Title, Body: f.Body} }

// edited is the version that a form was made from; 0 if it is of something new.
type edited int

func parseVersion(fields url.Values) (edited, error) {
	v := fields.Get("version")
	if v == "" {
		return 0, nil
	}
	version, err := strconv.ParseInt(v, 10, 32)
	if err != nil || version < 1 {
		return 0, fmt.Errorf("%w: version %q", web.ErrBadRequest, v)
	}
	return edited(version), nil
}

// seen is the version that a save may replace.
func (v edited) seen() web.Versions {
	if v == 0 {
		return web.Any
	}
	return web.Versions{int(v)}
}

// commentForm is the form of a comment.
type commentForm struct {
	Body, BodyError string
	Version         edited
}

// MaxBody is for the template.
func (commentForm) MaxBody() int { return MaxComment }

func parseComment(fields url.Values) (commentForm, error) {
	f := checkComment(fields.Get("body"))
	var err error
	f.Version, err = parseVersion(fields)
	return f, err
}

func checkComment(typed string) commentForm {
	body, problem := web.CheckText(typed, "comment", MaxComment)
	return commentForm{Body: body, BodyError: problem}
}
