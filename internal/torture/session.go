package torture

import (
	"fmt"
	"net/http"
	"time"
)

// run does one step after the other until the round ends.
func (c *client) run(p *plan, done <-chan struct{}) {
	for {
		c.n++
		s := p.next()
		select {
		case <-done:
			return
		case <-time.After(s.pause):
		}
		c.do(s)
		if c.last != nil && (c.last.Status == 0 || c.last.Status >= 500) {
			time.Sleep(afterFailure)
		}
	}
}

// afterFailure keeps those whom nobody answers from filling the history.
const afterFailure = 50 * time.Millisecond

// do does one step.
func (c *client) do(s step) {
	c.step = s
	target := c.world.people[s.user]
	post := target.post(s.pick)
	switch c.is.Kind {
	case browser:
		c.browse(s, target, post)
	case visitor:
		c.visit(s, target, post)
	case receiver:
		c.given = c.world.lastHanded()
		c.receive(s, target, post)
	case stranger:
		c.receive(s, target, post)
	case attacker:
		c.attack(s, post)
	default:
		c.program(s, target, post)
	}
}

func (c *client) browse(s step, target *person, post int64) {
	if c.login == "" {
		c.logIn(c.person)
	}
	switch s.action {
	case editPost:
		c.editByForm(c.person, s.pick)
	case createPost:
		c.createByForm(c.person)
	case addComment:
		c.commentByForm(post)
	case deleteComment:
		c.deleteCommentByForm(s.pick)
	case rename:
		c.renameByForm(c.person)
	case readSelf:
		c.seeProfile()
	case logInAnew:
		c.logOut()
		c.logIn(c.person)
	case twoTabs:
		c.saveInTwoTabs(post)
	default:
		c.visit(s, target, post)
	}
}

func (c *client) visit(s step, target *person, post int64) {
	switch s.action {
	case readList:
		c.seePosts()
	case readPerson:
		c.seePerson(target)
	default:
		c.seePost(post)
	}
}

// receive reads the post that the Commit-Id is news of, or another.
func (c *client) receive(s step, target *person, post int64) {
	if c.given != nil && s.pick%2 == 0 {
		if object := c.given.by.Wrote.Object; kindOf(object) == "post" {
			post = numberOf(object)
		} else if parent := c.given.by.Wrote.Parent; kindOf(parent) == "post" {
			c.fetchComments(numberOf(parent))
			return
		}
	}
	if s.action == readComments {
		c.fetchComments(post)
		return
	}
	c.fetchPost(post)
}

func (c *client) program(s step, target *person, post int64) {
	switch s.action {
	case readComments:
		c.fetchComments(post)
	case readList:
		c.fetchPosts()
	case readSelf:
		c.fetchSelf()
	case editPost:
		c.editByCall(c.person, s.pick)
	case createPost:
		c.createByCall(c.person)
	case addComment:
		if c.commentByCall(post, "") {
			c.fetchComments(post)
		}
	case deleteComment:
		c.deleteCommentByCall(s.pick)
	case makeToken:
		if t, err := c.makeToken(c.person); err == nil {
			c.person.addToken(t)
		}
	case revokeToken:
		c.revokeToken(c.person, s.pick)
	default:
		c.fetchPost(post)
	}
}

// signUp makes a person with a token, and their first posts.
func (w *world) signUp(number int) (*person, error) {
	p := &person{name: fmt.Sprintf("u%d", number), password: "out of the blue"}
	p.email = fmt.Sprintf("u%d.%d@example.com", number, w.begun.UnixNano())
	c := w.newClient(Session{ID: number + 500, Kind: "set-up"}, p)
	_, name := p.nextName()
	a := c.signUp(name, p)
	var made struct{ Token string }
	if err := a.decode(&made); err != nil || a.status != http.StatusCreated {
		return nil, fmt.Errorf("sign up: %d %s: %w", a.status, a.body, err)
	}
	c.bearer = made.Token
	var me authorJSON
	if a, ok := c.fetch("/api/me", "", &me); !ok {
		return nil, fmt.Errorf("ask who one is: %d %s", a.status, a.body)
	}
	p.id = me.ID
	for range postsAtStart {
		c.createByCall(p)
	}
	if len(p.posts) != postsAtStart {
		return nil, fmt.Errorf("user %d has %d posts, want %d", p.id, len(p.posts), postsAtStart)
	}
	return p, nil
}
