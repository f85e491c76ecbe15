// Package lab shows each bug beside its cure, on the real site with real
// servers. An experiment is one definition that `app lab` and the tests run
// alike: a cure that stops working fails it, and so does a bug that stops
// showing.
package lab

import (
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/site"
)

// Experiment is a question, two ways to set the site up, and what a browser
// must see on each.
type Experiment struct {
	Name     string
	Question string
	Broken   Side
	Fixed    Side
	Steps    []Step
}

// Side is one way to set the site up.
type Side struct {
	Label string // what is different about it, in a few words
	Setup func(cfg *site.Config, t Times)
}

// Times are the durations of a run, in proportion to the lag.
type Times struct {
	Lag         time.Duration // 0 if the replica is paused instead, for as long as it takes
	ShortWindow time.Duration // ends before the replica has applied a write
	LongWindow  time.Duration // ends after
}

// Step is one thing that happens, and what it shows on each side.
type Step struct {
	Do            Action
	By            Visitor
	Broken, Fixed Want // of a Visit
}

// Action is what happens in a step.
type Action int

const (
	Visit            Action = iota // open the post's page
	Save                           // save the post under its new title
	AwaitShortWindow               // until Times.ShortWindow after the save has passed
	AwaitLongWindow                // until Times.LongWindow after the save has passed
	AwaitApplied                   // until the replica has applied the save
)

// Visitor is a browser with cookies of its own.
type Visitor string

const (
	Writer Visitor = "" // the one who saves
	Other  Visitor = "another visitor"
)

// Want is what the post's page must show: the title, the server that the post
// was read from, and why.
type Want struct {
	Title  Title
	Role   dbroute.Role
	Reason dbroute.Reason
	// CommentsRole is the role of the server that the comments were read from,
	// if it is another than the post's.
	CommentsRole dbroute.Role
}

// Title says which of a post's two titles a page shows.
type Title string

const (
	OldTitle Title = "Q3 pricing"
	NewTitle Title = "Q3 pricing update"
)
