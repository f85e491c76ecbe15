package dbroute

// progress is how far a server has got, taken apart once for all that is compared to
// it: to read a set of many GTIDs takes longer than the read that it is compared for.
// The zero progress has reached nothing.
type progress struct {
	id     CommitID
	parsed parsedID // nil if id is zero
}

// parsedID is a commit ID of some engine, taken apart.
type parsedID interface {
	// covers reports whether a server that has got here has reached id.
	covers(id CommitID) bool
	// isPast is covers for another of the same engine, which need not be taken apart.
	isPast(other parsedID) bool
}

func progressTo(e engine, id CommitID) progress {
	if id.IsZero() {
		return progress{}
	}
	return progress{id, e.parsed(id)}
}

func (p progress) isZero() bool { return p.id.IsZero() }

func (p progress) covers(id CommitID) bool {
	return !p.isZero() && (p.id == id || p.parsed.covers(id))
}

func (p progress) isPast(other progress) bool {
	return !p.isZero() && (other.isZero() || p.parsed.isPast(other.parsed))
}
