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
	f := checkDraft(fields.Get("title"), fields.Get("body"))
	if v := fields.Get("version"); v != "" {
		version, err := strconv.ParseInt(v, 10, 32)
		if err != nil || version < 1 {
			return draftForm{}, fmt.Errorf("%w: version %q", web.ErrBadRequest, v)
		}
		f.Version = int(version)
	}
	return f, nil
}

func checkDraft(title, body string) draftForm {
	f := draftForm{}
	f.Title, f.TitleError = web.CheckLine(title, "title", MaxTitle)
	f.Body, f.BodyError = web.CheckText(body, "text", MaxBody)
	return f
}

func (f draftForm) valid() bool { return f.TitleError == "" && f.BodyError == "" }

func (f draftForm) draft() Draft { return Draft{Title: f.Title, Body: f.Body} }

// seen is the version that a save may replace.
func (f draftForm) seen() web.Versions {
	if f.Version == 0 {
		return web.Any
	}
	return web.Versions{f.Version}
}

// commentForm is the form of a comment.
type commentForm struct{ Body, BodyError string }

// MaxBody is for the template.
func (commentForm) MaxBody() int { return MaxComment }

func parseComment(fields url.Values) commentForm { return checkComment(fields.Get("body")) }

func checkComment(typed string) commentForm {
	body, problem := web.CheckText(typed, "comment", MaxComment)
	return commentForm{body, problem}
}
