package torture

import (
	"net/http"
	"time"
)

const (
	// tabApart is how long after the one tab's save the other saves.
	tabApart = 300 * time.Millisecond
	// tabSlow is how long the first answer is under way: it overtakes nothing.
	tabSlow = 400 * time.Millisecond
	// tabLook is how long the browser looks afterwards: longer than replicas are behind.
	tabLook = time.Second
)

// saveInTwoTabs saves in a tab whose answer is long under way, and meanwhile in another,
// logs out there, and looks at what both have saved. Nothing knows of the two saves then
// but the markers: the browser is nobody's. An answer that comes late must take back
// nothing of what an earlier one has said.
func (c *client) saveInTwoTabs(post int64) {
	c.step.cutAfter = 0
	slow := *c
	slow.http.Transport = late{c.http.Transport, tabSlow}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		slow.sendComment(post, ".slow")
	}()
	time.Sleep(tabApart)
	c.sendComment(post, "")
	c.logOut()
	<-answered
	for until := time.Now().Add(tabLook); time.Now().Before(until); time.Sleep(tabLook / 20) {
		c.seePost(post)
	}
}

// late answers late, though what was asked is done.
type late struct {
	http.RoundTripper
	by time.Duration
}

func (l late) RoundTrip(r *http.Request) (*http.Response, error) {
	begun := time.Now()
	response, err := l.RoundTripper.RoundTrip(r)
	time.Sleep(time.Until(begun.Add(l.by)))
	return response, err
}
