package torture

import (
	"fmt"
	"net/http"
	"sync"
)

// attack hurries: it does at once far more than a limit allows.
func (c *client) attack(s step, post int64) {
	switch s.action {
	case guess:
		c.hurry(3*limits.LogInByAccount.Hits, func(one *client, i int) {
			one.place = i // or the limit by address would be in the way
			one.tryPassword(c.person.email, "a guess").done(one)
		})
	case spray:
		c.hurry(3*limits.LogInByAddress.Hits, func(one *client, i int) {
			one.tryPassword(fmt.Sprintf("nobody%d.%s", i, c.person.email), "a guess").done(one)
		})
	case signUpOften:
		c.hurry(3*limits.SignUpByAddress.Hits, func(one *client, i int) {
			name := fmt.Sprintf("s%d.%d.%d", c.is.ID, c.n, i)
			one.signUp(name, &person{email: name + "." + c.person.email, password: c.person.password}).done(one)
		})
	case makeTokens:
		c.hurry(3*limits.TokensByUser.Hits, func(one *client, _ int) { one.makeToken(c.person) })
	default:
		if c.commentByCall(post, "") { // else the site is away, and there is no hurry
			c.hurry(2*limits.WritesByUser.Hits, func(one *client, i int) {
				one.commentByCall(c.person.post(s.pick), fmt.Sprintf(".%d", i))
			})
		}
	}
}

// hurry does something many times at once, each time as a program of its own at the
// same address.
func (c *client) hurry(times int, do func(one *client, i int)) {
	var all sync.WaitGroup
	for i := range times {
		one := *c
		one.comments = nil
		one.step.withKey, one.step.cutAfter = false, 0
		all.Go(func() { do(&one, i) })
	}
	all.Wait()
}

// tryPassword asks for a token by an account's password, which is an attempt to log in.
// The program has no other token any longer.
func (c *client) tryPassword(email, password string) *answer {
	c.bearer, c.token = "", ""
	a := c.call(http.MethodPost, "/api/tokens", map[string]string{"email": email, "password": password, "device_name": "torture"})
	a.triedToLogIn(c, email)
	return a
}

// triedToLogIn notes an attempt to log in that was not held up.
func (a *answer) triedToLogIn(c *client, email string) {
	if a.op.answered() && a.status != http.StatusTooManyRequests {
		a.op.Hits = append(a.op.Hits, Hit{LogInsFrom, c.address()}, Hit{LogInsTo, email})
	}
}

// signUp makes an account and its first token. The program has no other any longer.
func (c *client) signUp(name string, p *person) *answer {
	c.bearer, c.token = "", ""
	a := c.call(http.MethodPost, "/api/signup", map[string]string{"name": name, "email": p.email, "password": p.password, "device_name": "first"})
	if a.op.Result == OK {
		a.op.Hits = append(a.op.Hits, Hit{SignUpsFrom, c.address()})
	}
	return a
}
