package torture

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/PuerkitoBio/goquery"
)

// page opens a page, and records what it shows.
func (c *client) page(path string, read func(*answer, *goquery.Document)) *goquery.Document {
	a := c.get(path)
	defer a.done(c)
	return c.look(a, read)
}

// look records who is signed in on a page, and what read finds there.
func (c *client) look(a *answer, read func(*answer, *goquery.Document)) *goquery.Document {
	if a.status != http.StatusOK && a.status != http.StatusNotFound && a.status != http.StatusSeeOther && a.status != http.StatusUnauthorized {
		c.signedIn(a, nil)
		return nil
	}
	document, err := goquery.NewDocumentFromReader(bytes.NewReader(a.body))
	if err != nil {
		a.op.Problem = err.Error()
		return nil
	}
	c.signedIn(a, document)
	if a.status == http.StatusOK && read != nil {
		read(a, document)
	}
	return document
}

// signedIn notes whether the log-in that the browser has counted.
func (c *client) signedIn(a *answer, page *goquery.Document) {
	if c.login == "" {
		return
	}
	if page == nil {
		a.op.As, a.op.Credential = c.person.id, string(c.login)
		return
	}
	viewer := page.Find("[data-viewer]")
	c.accepted(a, c.login, viewer.Length() == 1)
	a.sawName(c.person.id, viewer.Text())
}

func (a *answer) sawName(user int64, name string) {
	if n := versionIn(name, "n"); n > 0 {
		a.op.Saw = append(a.op.Saw, Sight{object("name", user), n, name})
	}
}

func (a *answer) sawPost(id int64, title string) {
	a.op.Saw = append(a.op.Saw, Sight{object("post", id), versionIn(title, "v"), title})
}

// sawByline records the author of something on a page.
func (a *answer) sawByline(of *goquery.Selection) {
	link := of.Find(".byline a").First()
	if id, err := strconv.ParseInt(strings.TrimPrefix(link.AttrOr("href", ""), "/people/"), 10, 64); err == nil {
		a.sawName(id, link.Text())
	}
}

// notThere records that a page does not exist.
func (a *answer) notThere(o Object) {
	if a.status == http.StatusNotFound {
		a.op.Saw = append(a.op.Saw, Sight{Object: o, Version: Absent})
	}
}

func (c *client) seePost(id int64) {
	a := c.get(fmt.Sprintf("/posts/%d", id))
	defer a.done(c)
	a.notThere(object("post", id))
	c.look(a, func(a *answer, page *goquery.Document) {
		a.sawPost(id, page.Find("[data-title]").Text())
		a.sawByline(page.Find("article.post > .meta"))
		list := &List{Parent: object("post", id)}
		page.Find("[data-comment]").Each(func(i int, li *goquery.Selection) {
			n := attribute(li, "data-comment")
			if i == 0 && page.Find("a[href^='?before=']").Length() > 0 {
				list.From = n
			}
			a.op.Saw = append(a.op.Saw, Sight{object("comment", n), 1, strings.TrimSpace(li.Find(".prose").Text())})
			a.sawByline(li)
		})
		a.op.List = list
	})
}

// seeSummary reports whether a post's summary includes all of its changes, or it is
// too late for that. Only then the look is kept.
func (c *client) seeSummary(id int64, late bool) (done bool) {
	a := c.get(fmt.Sprintf("/posts/%d", id))
	s := Sight{Object: object("summary", id), Version: Absent}
	c.look(a, func(_ *answer, page *goquery.Document) {
		summary := page.Find(".summary")
		title, comments := summary.Find("[data-summary-title]").Text(), attribute(summary.Find("[data-summary-comments]"), "data-summary-comments")
		shown := page.Find("[data-comment]").Length()
		all := page.Find("a[href^='?before=']").Length() == 0
		if _, pending := summary.Attr("data-pending"); !pending && title == page.Find("[data-title]").Text() && (!all || int(comments) == shown) {
			s.Version = 1
		}
		s.Value = fmt.Sprintf("%s, %d comments", title, comments)
	})
	if s.Version == Absent && !late {
		return false
	}
	a.op.Saw = append(a.op.Saw, s)
	a.done(c)
	return true
}

func attribute(s *goquery.Selection, name string) int64 {
	n, _ := strconv.ParseInt(s.AttrOr(name, ""), 10, 64)
	return n
}

// sawSummaries records a list of posts.
func (a *answer) sawSummaries(page *goquery.Document) (last int64) {
	page.Find("li[data-post]").Each(func(_ int, li *goquery.Selection) {
		last = attribute(li, "data-post")
		a.sawPost(last, strings.TrimSpace(li.Find("h2").Text()))
		a.sawByline(li)
		a.op.Saw = append(a.op.Saw, Sight{Object: "count/" + object("post", last), Version: Version(attribute(li, "data-comments"))})
	})
	return last
}

func (c *client) seePosts() {
	c.page("/posts", func(a *answer, page *goquery.Document) {
		a.op.List = &List{Parent: "posts", From: a.sawSummaries(page)}
	})
}

func (c *client) seePerson(p *person) {
	c.page(fmt.Sprintf("/people/%d", p.id), func(a *answer, page *goquery.Document) {
		a.sawName(p.id, page.Find("[data-person]").Text())
		a.sawSummaries(page)
	})
}

func (c *client) seeProfile() {
	c.page("/profile", func(a *answer, page *goquery.Document) {
		if c.person != nil {
			a.sawName(c.person.id, page.Find("#name").AttrOr("value", ""))
		}
	})
}

// wrote records the answer to a form: a redirect if it was saved.
func (c *client) wrote(a *answer, w Wrote) bool {
	defer a.done(c)
	saved := a.status == http.StatusSeeOther && !strings.HasPrefix(a.header.Get("Location"), "/login")
	if a.op.Result == OK && !saved {
		a.op.Result = Refused
	}
	a.op.Wrote = w
	if c.login == "" {
		return saved
	}
	if saved {
		c.accepted(a, c.login, true)
	} else {
		c.look(a, nil)
	}
	return saved
}

func (c *client) editByForm(p *person, pick uint32) {
	id := p.post(pick)
	path := fmt.Sprintf("/posts/%d", id)
	version := Absent
	c.page(path+"/edit", func(a *answer, page *goquery.Document) {
		version = Version(attribute(page.Find("[name=version]"), "value"))
		if title, shown := page.Find("#title").Attr("value"); shown {
			a.sawPost(id, title)
		}
	})
	if version == Absent {
		return // it was not to be had; nothing could be edited
	}
	title := c.title(id, version+1)
	a := c.post(path, "title", title, "body", "Text of "+title, "version", strconv.Itoa(int(version)))
	c.wrote(a, Wrote{Object: object("post", id), Version: version + 1, Value: title})
}

// title is the title of a version of a post, which tells where it comes from.
func (c *client) title(post int64, version Version) string {
	return fmt.Sprintf("p%d v%d s%d.%d", post, version, c.is.ID, c.n)
}

var postLocation = regexp.MustCompile(`^/posts/(\d+)(?:#comment-(\d+))?$`)

// created returns the numbers in the address that a form leads to.
func (a *answer) created() (post, comment int64) {
	m := postLocation.FindStringSubmatch(a.header.Get("Location"))
	if m == nil {
		return 0, 0
	}
	post, _ = strconv.ParseInt(m[1], 10, 64)
	comment, _ = strconv.ParseInt(m[2], 10, 64)
	return post, comment
}

// newTitle is the title of a new post, whose number nobody knows yet.
func (c *client) newTitle() string { return fmt.Sprintf("new v1 s%d.%d", c.is.ID, c.n) }

func (c *client) createByForm(p *person) {
	title := c.newTitle()
	a := c.post("/posts", "title", title, "body", "Text of "+title)
	w := Wrote{Object: "post/new", Version: 1, Value: title, Parent: "posts"}
	id, _ := a.created()
	if id > 0 {
		w.Object = object("post", id)
	}
	if c.wrote(a, w) {
		p.addPost(id)
		c.seePost(id)
	}
}

func (c *client) commentByForm(post int64) {
	if c.sendComment(post, "") {
		c.seePost(post)
	}
}

// sendComment reports whether it was saved.
func (c *client) sendComment(post int64, more string) bool {
	text := c.commentText(more)
	a := c.post(fmt.Sprintf("/posts/%d/comments", post), "body", text)
	w := Wrote{Object: "comment/new", Version: 1, Value: text, Parent: object("post", post)}
	_, id := a.created()
	if id > 0 {
		w.Object = object("comment", id)
	}
	saved := c.wrote(a, w)
	if saved {
		c.comments = append(c.comments, comment{post, id})
	}
	return saved
}

func (c *client) commentText(more string) string {
	return fmt.Sprintf("comment s%d.%d%s", c.is.ID, c.n, more)
}

// takeComment takes one of the session's comments away; not ok if there is none.
func (c *client) takeComment(pick uint32) (_ comment, ok bool) {
	if len(c.comments) == 0 {
		return comment{}, false
	}
	i := int(pick) % len(c.comments)
	taken := c.comments[i]
	c.comments = append(c.comments[:i:i], c.comments[i+1:]...)
	return taken, true
}

func (c *client) deleteCommentByForm(pick uint32) {
	taken, ok := c.takeComment(pick)
	if !ok {
		return
	}
	a := c.post(fmt.Sprintf("/posts/%d/comments/%d/delete", taken.post, taken.id))
	if c.wrote(a, Wrote{Object: object("comment", taken.id), Version: Gone}) {
		c.seePost(taken.post)
	}
}

func (c *client) renameByForm(p *person) {
	n, name := p.nextName()
	a := c.post("/profile", "name", name, "bio", "")
	if c.wrote(a, Wrote{Object: object("name", p.id), Version: n, Value: name}) {
		c.seeProfile()
	}
}

func (c *client) logIn(p *person) {
	c.logins++
	next := Object(fmt.Sprintf("login/%d.%d", c.is.ID, c.logins))
	a := c.post("/login", "email", p.email, "password", p.password, "next", "/profile")
	a.triedToLogIn(c, p.email)
	a.op.As = p.id
	c.login = "" // what the browser had it has no longer, or does not know
	if c.wrote(a, Wrote{Object: next, Version: 1}) {
		c.login = next
		c.seeProfile()
	}
}

// logOut ends the log-in, and looks whether it has ended for the cookie too.
func (c *client) logOut() {
	if c.login == "" {
		return
	}
	ended := c.login
	cookies := c.http.Jar.Cookies(siteURL)
	a := c.post("/logout")
	a.op.As = c.person.id
	a.op.Wrote = Wrote{Object: ended, Version: Gone}
	a.done(c)
	thief := c.world.newClient(Session{ID: c.is.ID, Kind: c.is.Kind, User: c.is.User}, c.person)
	thief.http.Jar.SetCookies(siteURL, cookies)
	thief.login, thief.n, thief.final = ended, c.n, c.final
	thief.seeProfile()
	if a.op.Result == OK {
		c.person.addEnded(func() {
			thief.http.Jar.SetCookies(siteURL, cookies) // it may have been told to forget them
			thief.final = true
			thief.seeProfile()
		})
	}
	c.login = ""
}
