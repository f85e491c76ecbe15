package lab

// Progress is how far a run is.
type Progress struct {
	Doing       string  // in words
	Done, Steps int     // of the experiment
	Result      *Result // what was observed so far; the run goes on to add to it
}

func (r *run) tell(doing string) {
	if r.Watch != nil {
		r.progress.Doing = doing
		r.Watch(r.progress)
	}
}

// doing says what an action does, in few different words, since they are read aloud.
func (a Action) doing() string {
	switch a {
	case AwaitApplied:
		return "Waiting until the replica has applied all of it"
	case AwaitSaveApplied:
		return "Waiting until the replica has applied the save, and nothing later"
	case AwaitHalfLag:
		return "Waiting for half of the lag"
	case AwaitShortWindow:
		return "Waiting until the short window is over"
	case AwaitLongWindow:
		return "Waiting until the long window is over"
	case VisitUntilNew:
		return "Reloading until it is there"
	case Job:
		return "Waiting for the job"
	}
	return "Saving and looking, on both sides"
}

// observes reports whether an action is seen, and does not only let time pass or change
// what the servers do.
func (a Action) observes() bool {
	switch a {
	case AwaitPace, AwaitHalfLag, AwaitSaveApplied, AwaitShortWindow, AwaitLongWindow, AwaitApplied, AwaitClock,
		Hold, ApplySoon, ApplyOnFirst, Outage:
		return false
	}
	return true
}
