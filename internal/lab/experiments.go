package lab

import (
	"sync"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/jobs"
	"freshread/internal/site"
	"freshread/internal/web"
)

// Experiments returns all experiments, in the order to read them.
func Experiments() []Experiment {
	return []Experiment{
		noRouting, markerOrder, rename, windowLength, wholeSeconds, stopped, otherVisitor, lastSeen,
		twoTabs, twoReplicas, monotonic,
		tokenAtOnce, userAtOnce, ownWriteByAPI, agentInDoubt,
		job, jobOwnQueue, jobOnPrimary, jobDelayed,
		poisonedCache, outrunLimit,
		syncReplication, spinner, pollReplica,
	}
}

// What pages show.
var (
	oldFromReplica  = Want{Shows: Old, Role: dbroute.Replica, Reason: dbroute.StrategyNone}
	newFromReplica  = Want{Shows: New, Role: dbroute.Replica, Reason: dbroute.StrategyNone}
	beforeTheSave   = Want{Shows: Old, Role: dbroute.Replica, Reason: dbroute.CommitReached}
	untilApplied    = Want{Shows: New, Role: dbroute.Primary, Reason: dbroute.CommitNotReached}
	onceApplied     = Want{Shows: New, Role: dbroute.Replica, Reason: dbroute.CommitReached}
	withinWindow    = Want{Shows: New, Role: dbroute.Primary, Reason: dbroute.WithinWindow}
	oldAfterWindow  = Want{Shows: Old, Role: dbroute.Replica, Reason: dbroute.NoRecentWrite}
	newAfterWindow  = Want{Shows: New, Role: dbroute.Replica, Reason: dbroute.NoRecentWrite}
	oldNothingDue   = Want{Shows: Old, Role: dbroute.Replica, Reason: dbroute.NoPendingCommit}
	newNothingDue   = Want{Shows: New, Role: dbroute.Replica, Reason: dbroute.NoPendingCommit}
	oldThenPrimary  = Want{Shows: Old, Role: dbroute.Replica, Reason: dbroute.StrategyNone, CommentsRole: dbroute.Primary}
	newThenPrimary  = Want{Shows: New, Role: dbroute.Replica, Reason: dbroute.StrategyNone, CommentsRole: dbroute.Primary}
	jobWaitedInVain = Want{Shows: New, Role: dbroute.Primary, Reason: dbroute.CommitWaitTimedOut}
	sharedOnPrimary = Want{Shows: New, Role: dbroute.Primary, Reason: dbroute.PrimaryAskedFor}
)

var byCommitID = Side{
	Label: "routed by commit ID",
	Setup: func(cfg *site.Config, _ Times) { cfg.Strategy = site.Commit },
}

var noRouting = Experiment{
	Name:     "no-routing",
	Subject:  title,
	Question: "You save a new title and reload, while the replica is late. Which title do you see?",
	Broken: Side{
		Label: "reads go to the replica",
		Setup: func(cfg *site.Config, _ Times) { cfg.Strategy = site.None },
	},
	Fixed: byCommitID,
	Cure:  Cure{"internal/dbroute/strategy.go", "RouteByCommit"},
	Steps: []Step{
		{Do: Visit, Broken: oldFromReplica, Fixed: beforeTheSave},
		{Do: Save},
		{Do: Visit, Broken: oldFromReplica, Fixed: untilApplied},
		{Do: Visit, Broken: oldFromReplica, Fixed: untilApplied},
		{Do: AwaitApplied},
		{Do: Visit, Broken: newFromReplica, Fixed: onceApplied},
	},
}

var markerOrder = Experiment{
	Name:     "marker-order",
	Subject:  title,
	Question: "The middleware that loads the post runs before the one that knows you have just written. What does the page show?",
	Broken:   markerAfterLoad,
	Fixed:    markerBeforeLoad,
	Cure:     Cure{"internal/site/site.go", "New"},
	Steps:    markerSteps,
}

var rename = Experiment{
	Name:     "rename",
	Question: "The middleware that loads the signed-in user runs before the one that knows you have just written. Whose name is in the navigation?",
	Subject:  name,
	Broken:   markerAfterLoad,
	Fixed:    markerBeforeLoad,
	Cure:     Cure{"internal/auth/current.go", "Load"},
	Steps:    markerSteps,
}

var markerAfterLoad = Side{
	Label: "marker applied after loading",
	Setup: func(cfg *site.Config, t Times) {
		n := &naive{cluster: cfg.Cluster, window: t.LongWindow}
		cfg.Strategy = site.None
		cfg.Router = n
		cfg.BeforeLoad = []web.Middleware{n.remember()}
		cfg.AfterLoad = []web.Middleware{n.applyMarker()}
	},
}

var markerBeforeLoad = Side{
	Label: "commit ID, decided before anything is loaded",
	Setup: byCommitID.Setup,
}

var markerSteps = []Step{
	{Do: Visit, Broken: oldFromReplica, Fixed: beforeTheSave},
	{Do: Save},
	{Do: Visit, Broken: oldThenPrimary, Fixed: untilApplied},
	{Do: AwaitApplied},
	{Do: Visit, Broken: newThenPrimary, Fixed: onceApplied},
}

var windowLength = Experiment{
	Name:     "window",
	Subject:  title,
	Question: "Reads stay on the primary for a fixed time after a write. What if the replica is further behind?",
	Broken: Side{
		Label: "window shorter than the lag",
		Setup: func(cfg *site.Config, t Times) { cfg.Strategy, cfg.Window = site.Window, t.ShortWindow },
	},
	Fixed: Side{
		Label: "window longer than the lag",
		Setup: func(cfg *site.Config, t Times) { cfg.Strategy, cfg.Window = site.Window, t.LongWindow },
	},
	Cure: Cure{"internal/dbroute/strategy.go", "RouteByWindow"},
	Steps: []Step{
		{Do: Save},
		{Do: Visit, Broken: withinWindow, Fixed: withinWindow},
		{Do: AwaitShortWindow},
		{Do: Visit, Broken: oldAfterWindow, Fixed: withinWindow},
		{Do: AwaitApplied},
		{Do: Visit, Broken: newAfterWindow, Fixed: withinWindow},
		{Do: AwaitLongWindow},
		{Do: Visit, Broken: newAfterWindow, Fixed: newAfterWindow},
	},
}

var otherVisitor = Experiment{
	Name:     "other-visitor",
	Subject:  title,
	Question: "One person saves. Who has to read the primary?",
	Broken: Side{
		Label: "one time of the last write for everybody",
		Setup: func(cfg *site.Config, t Times) {
			n := &naive{cluster: cfg.Cluster, window: t.LongWindow, shared: &lastWrite{}}
			cfg.Strategy = site.None
			cfg.Router = n
			cfg.BeforeLoad = []web.Middleware{n.remember(), n.applyMarker()}
		},
	},
	Fixed: byCommitID,
	Cure:  Cure{"internal/web/strategy.go", "strategy"},
	Steps: []Step{
		{Do: Visit, By: Other, Broken: oldFromReplica, Fixed: oldNothingDue},
		{Do: Save},
		{Do: Visit, Broken: sharedOnPrimary, Fixed: untilApplied},
		{Do: Visit, By: Other, Broken: sharedOnPrimary, Fixed: oldNothingDue},
		{Do: AwaitApplied},
		{Do: Visit, By: Other, Broken: sharedOnPrimary, Fixed: newNothingDue},
	},
}

var monotonic = Experiment{
	Name:     "monotonic",
	Question: "While your save keeps you on the primary, you see what another user has just written. Does your next page take it back, and what does it cost to prevent that?",
	Subject:  comments,
	NeedsLag: true,
	Broken: Side{
		Label: "READ_MONOTONIC=off: back on the replica as soon as it has your own save",
		Setup: byCommitID.Setup,
	},
	Fixed: Side{
		Label:   "READ_MONOTONIC=on: on the primary until the replica has all that you have seen",
		Setup:   byCommitID.Setup,
		Cluster: func(cfg *dbroute.Config, _ Times) { cfg.Monotonic = true },
	},
	Cure: Cure{"internal/dbroute/scope.go", "saw"},
	Steps: []Step{
		{Do: Save},
		{Do: AwaitHalfLag},
		{Do: Comment, By: Commenter},
		{Do: Visit, Broken: untilApplied, Fixed: untilApplied},
		{Do: AwaitSaveApplied},
		{Do: Visit, Broken: beforeTheSave, Fixed: untilApplied},
		{Do: AwaitApplied},
		{Do: Visit, Broken: onceApplied, Fixed: onceApplied},
	},
}

var job = Experiment{
	Name:     "job",
	Question: "You comment, and a job that your comment has queued counts the comments. How many does it find?",
	Subject:  counted,
	Broken:   jobSide("the job reads the replica", jobs.Replica),
	Fixed:    jobSide("the job waits for your commit, and in the end reads the primary", jobs.Commit),
	Cure:     Cure{"internal/jobs/wait.go", "route"},
	Steps:    jobSteps,
}

var jobOwnQueue = Experiment{
	Name:     "job-own-queue",
	Question: "The queue is off the replicated database, so that no job can be ahead of what it is about. Or can it?",
	Subject:  counted,
	Broken:   job.Broken.withOwnQueue(),
	Fixed:    job.Fixed.withOwnQueue(),
	Cure:     Cure{"internal/jobs/outbox.go", "add"},
	Steps:    jobSteps,
}

var jobSteps = []Step{
	{Do: Comment},
	{Do: Job, Broken: oldFromReplica, Fixed: jobWaitedInVain},
}

var jobOnPrimary = Experiment{
	Name:     "job-primary",
	Question: "A job that reads the primary sees your comment. Does it have to read it there?",
	Subject:  counted,
	Broken:   jobSide("every job reads the primary", jobs.Primary),
	Fixed: Side{
		Label: "the job waits for a replica that has your commit",
		Setup: byCommitID.Setup,
		Jobs:  func(cfg *jobs.Config, t Times) { cfg.CommitWait = t.LongWindow },
	},
	Cure: Cure{"internal/dbroute/strategy.go", "RouteByCommitWait"},
	Steps: []Step{
		{Do: Comment},
		{Do: AwaitApplied},
		{Do: Job, Broken: sharedOnPrimary, Fixed: onceApplied},
	},
}

var jobDelayed = Experiment{
	Name:     "job-delay",
	Question: "You delete a comment. Nobody needs the new count at once. What does a delay do?",
	Subject:  recount,
	NeedsLag: true,
	Broken: Side{
		Label: "the job runs at once, on the replica",
		Setup: byCommitID.Setup,
		Jobs: func(cfg *jobs.Config, _ Times) {
			cfg.Delay, cfg.Reads = time.Millisecond, readsOf(jobs.Replica)
		},
	},
	Fixed: Side{
		Label: "the job is queued with a delay, and finds your commit on the replica without waiting for it",
		Setup: byCommitID.Setup,
		Jobs:  func(cfg *jobs.Config, t Times) { cfg.Delay, cfg.CommitWait = t.Lag*3/2, t.ShortWindow },
	},
	Cure: Cure{"internal/jobs/summarise.go", "PostChanged"},
	Steps: []Step{
		{Do: Uncomment},
		{Do: Job, Broken: oldFromReplica, Fixed: onceApplied},
	},
}

// jobSide is a side whose jobs read in a mode, and wait for less than the lag.
func jobSide(label string, mode jobs.Mode) Side {
	return Side{
		Label: label,
		Setup: byCommitID.Setup,
		Jobs:  func(cfg *jobs.Config, t Times) { cfg.CommitWait, cfg.Reads = t.ShortWindow, readsOf(mode) },
	}
}

func readsOf(mode jobs.Mode) map[string]jobs.Mode {
	return map[string]jobs.Mode{jobs.SummarisePost{}.Kind(): mode}
}

func (s Side) withOwnQueue() Side {
	s.Label += "; its queue has a database of its own"
	s.OwnQueue = true
	return s
}

// lastWrite is a time that all requests share.
type lastWrite struct {
	mu sync.Mutex
	at time.Time
}

func (l *lastWrite) set(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = at
}

func (l *lastWrite) get() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}
