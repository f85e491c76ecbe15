package torture

import (
	"fmt"
	"strings"
	"time"

	"freshread/internal/cache"
	"freshread/internal/dbroute"
)

// History is what happened in one round.
type History struct {
	Ops       []Op
	Faults    []Fault
	Monotonic bool // the site ran with READ_MONOTONIC=on
	Limits    map[Allowance]cache.Limit
	Worked    time.Duration // how long the sessions were at work
}

// Op is one request and its answer. The zero value of what does not apply to it
// says nothing.
type Op struct {
	Session Session
	N       int // its place in the session
	Action  string
	Start   time.Duration // since the round began
	End     time.Duration
	Process int // that answered, from 1
	Status  int // 0 if there was no answer
	Problem string
	Request string // by which the log of the process knows it

	Result Result
	Wrote  Wrote
	Saw    []Sight
	List   *List // that Saw is complete for

	As          int64 // the user that the request was signed in as
	Consistency string
	Given       *Op // the write whose Commit-Id was handed to the session
	Credential  string
	Final       bool  // after all faults, when all servers have everything
	Idle        bool  // of a session that has waited for the replicas
	Cut         bool  // the client went away before the answer
	Unread      []int // servers that its process has not gone back to
	Hits        []Hit // what it got of what is limited; that of WritesBy follows from Wrote

	Servers []Server // that answered the reads, in order
}

// Allowance is what somebody does not get more often than a limit allows.
type Allowance string

const (
	LogInsFrom  Allowance = "attempts to log in from address"
	LogInsTo    Allowance = "passwords tried for account"
	SignUpsFrom Allowance = "sign-ups from address"
	WritesBy    Allowance = "writes by user"
	TokensOf    Allowance = "tokens of account"
)

// Hit is something limited that somebody got.
type Hit struct {
	Of Allowance
	By string // whose it is
}

// Session is who sends requests, one after the other.
type Session struct {
	ID   int
	Kind string
	User int64 // 0 if it is nobody's
	// Marked sessions send back what responses give them, cookies or Commit-Ids.
	Marked bool
}

// Result is what an answer says of a request.
type Result string

const (
	OK      Result = "ok"
	Refused Result = "refused" // it has done nothing
	Unknown Result = "unknown" // it may have done what it was to do, or may do so later
)

// Object is something that has one state at a time: "post/7", "name/3",
// "comment/12", "login/5.1", "token/9".
type Object string

// Version counts the states of an object, from 1.
type Version int64

const (
	// Absent is an object that is not there: not yet, or no longer.
	Absent Version = 0
	// Gone is the state of an object that was deleted, after all others.
	Gone Version = 1 << 40
)

// Wrote is the state that a write was to make.
type Wrote struct {
	Object  Object
	Version Version
	Value   string
	Parent  Object // that it is listed under
}

// Sight is an object as an answer showed it.
type Sight struct {
	Object  Object
	Version Version
	Value   string
}

// List says that an answer showed all objects of a kind that belong to a parent and
// whose number is at least From.
type List struct {
	Parent Object
	From   int64
}

// Server is a database server that answered reads of a page.
type Server struct {
	ID      int
	Replica bool
	Reason  dbroute.Reason
}

// Fault is one that was injected.
type Fault struct {
	Kind   FaultKind
	Target string // "primary", "replica 1", "process 2"
	At     time.Duration
	Until  time.Duration // when it was mended
}

// answered reports whether the site did what was asked, or refused it for a reason of
// the request's own.
func (o *Op) answered() bool { return o.Status > 0 && o.Status < 500 }

// String tells the operation on one line, for a report.
func (o *Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+9.3fs to %+9.3fs  %-28s %-4d %-8s", o.Start.Seconds(), o.End.Seconds(), o.Session, o.Status, o.Result)
	fmt.Fprintf(&b, " %s", o.Action)
	if o.Wrote.Object != "" {
		fmt.Fprintf(&b, "  writes %s", Sight{o.Wrote.Object, o.Wrote.Version, o.Wrote.Value})
	}
	if o.Credential != "" {
		fmt.Fprintf(&b, "  with %s", o.Credential)
	}
	if o.Given != nil {
		fmt.Fprintf(&b, "  with the Commit-Id of %s.%d", o.Given.Session, o.Given.N)
	}
	for _, s := range o.Servers {
		role := "primary"
		if s.Replica {
			role = "replica"
		}
		fmt.Fprintf(&b, "  [server %d, %s, %s]", s.ID, role, s.Reason)
	}
	if o.Process > 0 {
		fmt.Fprintf(&b, "  by process %d as %s", o.Process, o.Request)
	}
	if o.Problem != "" {
		fmt.Fprintf(&b, "  %s", o.Problem)
	}
	return b.String()
}

func (s Session) String() string {
	if s.User == 0 {
		return fmt.Sprintf("%d (%s)", s.ID, s.Kind)
	}
	return fmt.Sprintf("%d (%s of user %d)", s.ID, s.Kind, s.User)
}

func (s Sight) String() string {
	switch s.Version {
	case Absent:
		return string(s.Object) + " absent"
	case Gone:
		return string(s.Object) + " gone"
	}
	if s.Value == "" {
		return fmt.Sprintf("%s version %d", s.Object, s.Version)
	}
	return fmt.Sprintf("%s version %d %q", s.Object, s.Version, s.Value)
}

func (f Fault) String() string {
	return fmt.Sprintf("%+9.3fs to %+9.3fs  %s %s", f.At.Seconds(), f.Until.Seconds(), f.Target, f.Kind)
}
