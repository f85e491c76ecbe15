package site_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/site/sitetest"
	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
)

// failover is a site with a post, before its first replica takes the primary's place.
type failover struct {
	*sitetest.Site
	author, reader    *sitetest.Program
	post              string
	commitID          string // of the author's latest write
	promoted, follows *stack.Server
}

func newFailover(t *testing.T, engine string) *failover {
	t.Helper()
	servers := stacktest.Start(t, engine, 2)
	s := sitetest.NewOn(t, servers)
	f := &failover{Site: s, promoted: servers.Replicas()[0], follows: servers.Replicas()[1]}
	f.author, f.reader = s.Program(s.User("Mara")), s.Program(nil)
	f.post = f.author.Send(http.MethodPost, "/api/posts", titled("First")).Want(http.StatusCreated).Header.Get("Location")
	s.Applied()
	return f
}

func titled(title string) map[string]string { return map[string]string{"title": title, "body": "Text"} }

func (f *failover) save(title string) {
	f.T.Helper()
	f.commitID = f.author.Send(http.MethodPut, f.post, titled(title), "If-Match: *").Want(http.StatusOK).Header.Get("Commit-Id")
}

// happens kills the primary, promotes the first replica, and starts the site anew.
func (f *failover) happens() {
	f.T.Helper()
	ctx := stacktest.Context(f.T)
	stacktest.Must(f.T, f.Servers.Primary().Kill(ctx))
	for _, r := range []*stack.Server{f.promoted, f.follows} {
		stacktest.Must(f.T, r.Start(ctx))
	}
	stacktest.Must(f.T, f.promoted.Promote(ctx))
	f.Failover()
	f.author.URL, f.reader.URL = f.URL, f.URL
	f.Watch()
}

// reads is a read of the post by a program that was handed a Commit-Id.
func (f *failover) reads(commitID, title string, server *stack.Server, why dbroute.Reason) *sitetest.Reply {
	f.T.Helper()
	return f.reader.Get(f.post, "Commit-Id: "+commitID).Want(http.StatusOK, "title", title).
		WantServer(strconv.Itoa(server.ID()), why)
}

// A replica that follows the new primary never has what that has lost, however far it
// gets.
func TestCommitIDThatAFailoverLost(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		f := newFailover(t, engine)
		ctx := stacktest.Context(t)
		stacktest.Must(t, f.promoted.Stop(ctx))
		stacktest.Must(t, f.follows.Stop(ctx))
		for n := range 20 { // more than the new primary will write
			f.save(fmt.Sprint("Lost ", n))
		}
		lost := f.commitID
		f.happens()
		f.save("Kept")
		f.Applied()
		f.reads(f.commitID, "Kept", f.follows, dbroute.CommitReached)
		healed := ""
		for wait := stacktest.Context(t); healed == ""; time.Sleep(100 * time.Millisecond) {
			stacktest.Must(t, wait.Err())
			r := f.reader.Get(f.post, "Commit-Id: "+lost).Want(http.StatusOK, "title", "Kept")
			why := dbroute.UnknownMarker
			if healed = r.Header.Get("Commit-Id"); healed == "" && f.Cluster.Engine() != dbroute.PostgreSQL {
				why = dbroute.CommitNotReached // it may only not have been seen yet, until it is older
			}
			r.WantServer(strconv.Itoa(f.promoted.ID()), why)
		}
		f.Applied()
		f.reads(healed, "Kept", f.follows, dbroute.CommitReached)
	})
}

// GTIDs name the server that made them, and so they outlive it. A position of the WAL
// belongs to a timeline, which a failover ends: it is unknown, and replaced at once.
func TestCommitIDAfterAFailover(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		f := newFailover(t, engine)
		f.save("Kept")
		before := f.commitID
		f.Applied()
		f.happens()
		if f.Cluster.Engine() != dbroute.PostgreSQL {
			f.reads(before, "Kept", f.follows, dbroute.CommitReached)
			return
		}
		healed := f.reads(before, "Kept", f.promoted, dbroute.UnknownMarker).Header.Get("Commit-Id")
		for ctx := stacktest.Context(t); ; time.Sleep(20 * time.Millisecond) {
			stacktest.Must(t, ctx.Err())
			r := f.reader.Get(f.post, "Commit-Id: "+healed).Want(http.StatusOK, "title", "Kept")
			if r.Header.Get("X-Server-Id") == strconv.Itoa(f.follows.ID()) {
				return
			}
		}
	})
}
