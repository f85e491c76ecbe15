package torture

import (
	"fmt"
	"net/http"
	"strings"
)

type authorJSON struct {
	ID   int64
	Name string
}

type postJSON struct {
	ID       int64
	Title    string
	Version  Version
	Author   authorJSON
	Comments int
}

type commentJSON struct {
	ID      int64
	Body    string
	Version Version
	Author  authorJSON
}

// fetch calls the API with a GET, and decodes what it answers.
func (c *client) fetch(path string, missing Object, into any) (*answer, bool) {
	a := c.call(http.MethodGet, path, nil)
	if missing != "" {
		a.notThere(missing)
	}
	if a.status != http.StatusOK {
		return a, false
	}
	if err := a.decode(into); err != nil {
		a.op.Problem = err.Error()
		return a, false
	}
	return a, true
}

func (a *answer) sawPostJSON(p postJSON) {
	a.op.Saw = append(a.op.Saw, Sight{object("post", p.ID), p.Version, p.Title})
	a.sawName(p.Author.ID, p.Author.Name)
}

func (c *client) fetchPost(id int64) (Version, bool) {
	var p postJSON
	a, ok := c.fetch(fmt.Sprintf("/api/posts/%d", id), object("post", id), &p)
	if ok {
		a.sawPostJSON(p)
	}
	a.done(c)
	return p.Version, ok
}

func (c *client) fetchComments(post int64) {
	path := fmt.Sprintf("/api/posts/%d/comments?limit=100", post)
	for path != "" {
		var list struct {
			Comments []commentJSON
			Next     *string
		}
		a, ok := c.fetch(path, object("post", post), &list)
		path = ""
		if ok {
			a.op.List = &List{Parent: object("post", post)}
			for _, one := range list.Comments {
				a.op.Saw = append(a.op.Saw, Sight{object("comment", one.ID), one.Version, one.Body})
				a.sawName(one.Author.ID, one.Author.Name)
			}
			if list.Next != nil {
				a.op.List.From = list.Comments[len(list.Comments)-1].ID
				if c.final {
					path = *list.Next
				}
			}
			if c.final && strings.Contains(a.op.Action, "before=") {
				a.op.List = nil // it begins in the middle
			}
		}
		a.done(c)
	}
}

func (c *client) fetchPosts() {
	var list struct{ Posts []postJSON }
	a, ok := c.fetch("/api/posts?limit=10", "", &list)
	defer a.done(c)
	if !ok {
		return
	}
	a.op.List = &List{Parent: "posts"}
	for _, p := range list.Posts {
		a.sawPostJSON(p)
		a.op.Saw = append(a.op.Saw, Sight{Object: "count/" + object("post", p.ID), Version: Version(p.Comments)})
		a.op.List.From = p.ID
	}
}

func (c *client) fetchSelf() {
	var me authorJSON
	a, ok := c.fetch("/api/me", "", &me)
	if ok {
		a.sawName(me.ID, me.Name)
	}
	a.done(c)
}

// save sends a write, and reports whether it is acknowledged.
func (c *client) save(method, path string, body any, w Wrote, headers ...string) (*answer, bool) {
	a := c.call(method, path, body, headers...)
	a.op.Wrote = w
	return a, a.op.Result == OK
}

// saved keeps the record of a write that was acknowledged, and hands its Commit-Id on.
func (c *client) saved(a *answer) {
	a.done(c)
	if id := a.header.Get("Commit-Id"); id != "" {
		c.world.hand(id, a.op)
	}
}

func (c *client) editByCall(p *person, pick uint32) {
	id := p.post(pick)
	version, ok := c.fetchPost(id)
	if !ok {
		return
	}
	title := c.title(id, version+1)
	a, ok := c.save(http.MethodPut, fmt.Sprintf("/api/posts/%d", id), draft(title),
		Wrote{Object: object("post", id), Version: version + 1, Value: title}, "If-Match", fmt.Sprintf(`"%d"`, version))
	if !ok {
		a.done(c)
		return
	}
	var saved postJSON
	if a.decode(&saved) == nil {
		a.sawPostJSON(saved)
	}
	c.saved(a)
	c.fetchPost(id)
}

func draft(title string) map[string]string {
	return map[string]string{"title": title, "body": "Text of " + title}
}

func (c *client) createByCall(p *person) {
	title := c.newTitle()
	a, ok := c.save(http.MethodPost, "/api/posts", draft(title), Wrote{Object: "post/new", Version: 1, Value: title, Parent: "posts"})
	var saved postJSON
	if !ok || a.decode(&saved) != nil {
		a.done(c)
		return
	}
	a.op.Wrote.Object = object("post", saved.ID)
	c.saved(a)
	p.addPost(saved.ID)
	c.fetchPost(saved.ID)
}

// keyTries is how often a program sends something again with its key.
const keyTries = 4

func (c *client) commentByCall(post int64, more string) bool {
	text := c.commentText(more)
	path := fmt.Sprintf("/api/posts/%d/comments", post)
	var headers []string
	tries := 1
	if c.step.withKey {
		headers, tries = []string{"Idempotency-Key", fmt.Sprintf("%s r%d", text, c.world.begun.UnixNano())}, keyTries
	}
	inDoubt := false
	for range tries {
		a, ok := c.save(http.MethodPost, path, map[string]string{"body": text},
			Wrote{Object: "comment/new", Version: 1, Value: text, Parent: object("post", post)}, headers...)
		var saved commentJSON
		if ok && a.decode(&saved) == nil {
			a.op.Wrote.Object = object("comment", saved.ID)
			c.saved(a)
			c.comments = append(c.comments, comment{post, saved.ID})
			return true
		}
		if inDoubt && a.op.Result == Refused {
			a.op.Wrote.Value = "" // an earlier one may have been done
		}
		a.done(c)
		if inDoubt = inDoubt || a.op.Result == Unknown; !inDoubt {
			return false
		}
		c.step.cutAfter = 0
	}
	return false
}

func (c *client) deleteCommentByCall(pick uint32) {
	taken, ok := c.takeComment(pick)
	if !ok {
		return
	}
	a, ok := c.save(http.MethodDelete, fmt.Sprintf("/api/posts/%d/comments/%d", taken.post, taken.id), nil,
		Wrote{Object: object("comment", taken.id), Version: Gone})
	if !ok {
		a.done(c)
		return
	}
	c.saved(a)
	c.fetchComments(taken.post)
}

// withToken returns the same program with another token.
func (c *client) withToken(t *token) *client {
	other := *c
	other.bearer, other.token, other.comments = t.text, object("token", t.id), nil
	return &other
}

// makeToken makes a token by password and uses it at once.
func (c *client) makeToken(p *person) (*token, error) {
	fresh := *c
	fresh.comments = nil
	a := fresh.tryPassword(p.email, p.password)
	a.op.As = p.id
	var made struct {
		ID    int64
		Token string
	}
	if a.op.Result != OK || a.decode(&made) != nil {
		a.done(c)
		return nil, fmt.Errorf("no token was made: %s", a.op)
	}
	a.op.Hits = append(a.op.Hits, Hit{TokensOf, p.email})
	a.op.Wrote = Wrote{Object: object("token", made.ID), Version: 1}
	a.done(c)
	t := &token{made.ID, made.Token}
	fresh.withToken(t).fetchSelf()
	return t, nil
}

// revokeToken ends a token, and tries it.
func (c *client) revokeToken(p *person, pick uint32) {
	t := p.takeToken(pick)
	if t == nil {
		return
	}
	other := c.withToken(t)
	a, ok := other.save(http.MethodDelete, fmt.Sprintf("/api/tokens/%d", t.id), nil, Wrote{Object: object("token", t.id), Version: Gone})
	a.done(c)
	if !ok && a.op.Result != Unknown {
		p.addToken(t)
	}
	other.fetchSelf()
	if ok {
		p.addEnded(func() {
			other.final = true
			other.fetchSelf()
		})
	}
}
