// Package lab shows each bug beside its cure, on the real site with real
// servers. An experiment is one definition that `app lab` and the tests run
// alike: a cure that stops working fails it, and so does a bug that stops
// showing.
package lab

import (
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/jobs"
	"freshread/internal/site"
)

// Experiment is a question, two ways to set the site up, and what a browser
// must see on each.
type Experiment struct {
	Name     string
	Question string
	Subject  Subject // what is saved and looked at
	Broken   Side
	Fixed    Side
	Steps    []Step
	Cure     Cure
	// NeedsLag is set if a replica that is paused cannot show it: the replica has
	// to apply one commit and not yet the next.
	NeedsLag bool
	// Paused is set if a lag cannot show it, and the replicas are to be paused
	// whatever Runner.Lag says.
	Paused bool
	// Needs is what the servers must be like.
	Needs Needs
	// Only is set if it can be run on one engine alone.
	Only *Only
}

// Cure is the code that makes the difference.
type Cure struct {
	File string // from the top of the module
	Func string // a function or a method, by its name alone
}

// Side is one way to set the site up.
type Side struct {
	Label string // what is different about it, in a few words
	Setup func(cfg *site.Config, t Times)
	// Cluster changes how the side's cluster is opened; nil for the usual one.
	Cluster func(cfg *dbroute.Config, t Times)
	// Consistency is what the agent asks for with Read-Consistency.
	Consistency string
	// Jobs configures the side's queue; nil if it has none.
	Jobs func(cfg *jobs.Config, t Times)
	// OwnQueue gives the queue a database of its own also where it need not have one.
	OwnQueue bool
}

// Times are the durations of a run, in proportion to the lag.
type Times struct {
	Lag         time.Duration // 0 if the replica is paused instead, for as long as it takes
	ShortWindow time.Duration // ends before the replica has applied a write
	LongWindow  time.Duration // ends after
	Behind      time.Duration // how long one waits for the replica: Lag or, if that is 0, until ApplySoon lets it go on
}

// Step is one thing that happens, and what it shows on each side.
type Step struct {
	Do            Action
	By            Visitor
	Broken, Fixed Want // of a Visit or a Job
	// AtOnce is set if both sides do it at the same moment: what one side waits for must
	// not be over by the other's turn.
	AtOnce bool
	// Meanwhile is what somebody else does while it goes on. It needs AtOnce.
	Meanwhile *Step
	// At is when an AwaitClock ends. Until is when a step has to be done, by the same
	// clock: a machine that is too slow for that has shown nothing.
	At, Until time.Duration
}

// Action is what happens in a step.
type Action int

const (
	Visit            Action = iota // open the post's page, or get from the API what the subject says
	Save                           // replace the title, or the name, by the new one
	Comment                        // comment on the post
	Uncomment                      // delete that comment
	Job                            // the job that the last write has queued runs
	Guess                          // try a wrong password, without cookies, at the one process and the other in turn
	AwaitPace                      // for a sixth of Times.Lag, or a moment if that is 0
	MakeToken                      // make a token, to be used from here on
	SignUp                         // make an account with a token, to be used from here on
	Act                            // publish another post
	ActIfInDoubt                   // publish it again, if it was not there on the last visit
	Count                          // count these posts: there has to be one
	AwaitHalfLag                   // until half of Times.Lag after the save has passed
	AwaitSaveApplied               // until the replica has applied the save, and not what is half a lag later
	AwaitShortWindow               // until Times.ShortWindow after the save has passed
	AwaitLongWindow                // until Times.LongWindow after the save has passed
	AwaitApplied                   // until the replica has applied the save

	VisitUntilNew // open the post's page again and again, until it shows the new value
	CommentSlowly // comment on the post; the answer is on its way
	AnswerArrives // the answer to that comes in
	TrySave       // replace the title again, and see whether that is saved
	Hold          // from here on the replicas apply nothing, as at the beginning
	ApplySoon     // the replicas go on once Times.Behind has passed, while the next steps are under way
	ApplyOnFirst  // until the first replica has applied the save, and the others have not
	Outage        // the replicas crash
	AwaitClock    // until Step.At after a whole second: that of the first AwaitClock
)

// Visitor is a browser with cookies of its own, or a program that has none.
type Visitor string

const (
	Writer    Visitor = "" // a signed-in user, who saves
	Other     Visitor = "another visitor"
	Commenter Visitor = "another user"
	Guesser   Visitor = "somebody who guesses"

	Client  Visitor = "the user's program"
	Service Visitor = "a service that was told"
	Agent   Visitor = "the user's agent"
)

// Subject is a value that the post's page shows or the API answers, old before
// something is saved and new after it.
type Subject struct {
	Label    string // "title"
	Old, New string
	Selector string // where the page shows it
	Read     string // the read that it comes from
	// Cached is set if it is the list of the author's posts that shows it, by way of
	// the cache.
	Cached bool
}

var (
	title    = Subject{Label: "title", Old: "Q3 pricing", New: "Q3 pricing update", Selector: "[data-title]", Read: "posts.ByID"}
	comments = Subject{Label: "comments", Old: "Comments", New: "1 comment", Selector: "#comments-title", Read: "posts.Comments"}
	counted  = Subject{Label: "comments", Old: "0", New: "1"}
	recount  = Subject{Label: "comments", Old: "1", New: "0"}
	name     = Subject{Label: "name", Old: "Mara", New: "Mara Lindqvist", Selector: "[data-viewer]", Read: "users.ByID"}
	tally    = Subject{Label: "comments", Old: "0", New: "1", Selector: "[data-post]", Read: "cache.posts.Tally", Cached: true}
	answer   = Subject{Label: "answer", Old: "wrong password", New: "too often", Read: "limits.log-in-account"}

	newToken   = Subject{Label: "answer", Old: "401 Unauthorized", New: "200 OK"}
	agentsPost = Subject{Label: "answer", Old: "404 Not Found", New: "200 OK", Read: "posts.ByID"}
)

// Want is what the post's page must show, or a job must see: the subject's old value
// or the new one, the server that it was read from, and why. The zero Want is anything.
type Want struct {
	Shows  Value
	Role   dbroute.Role
	Reason dbroute.Reason
	// CommentsRole is the role of the server that the comments were read from,
	// if it is another than the subject's.
	CommentsRole dbroute.Role
	// Server is its id, if it may not be any of the role.
	Server int
	// Takes is how long it must take. Of a write, only that is looked at.
	Takes Takes
	// Fails is set if a write must not be saved.
	Fails bool
}

// Takes says how long something takes.
type Takes string

const (
	Short Takes = "short" // at most two thirds of Times.Behind
	Long  Takes = "long"  // at least a third of it
)

// Value is one of a subject's two values.
type Value string

const (
	Old Value = "old"
	New Value = "new"
)
