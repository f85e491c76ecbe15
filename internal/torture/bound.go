package torture

import (
	"strings"
	"time"
)

// How long an answer may take follows from how long package dbroute, and the settings
// of the site that is tortured, let anything take.
const (
	// otherWork is for a machine that has other work, all its servers and clients of it.
	otherWork = 5 * time.Second
	// noticed is how long it takes to notice that a server hangs, and to end what waits
	// for it: two looks at the servers, each half a second apart and of a second.
	noticed = 3 * time.Second
	// hangLimit is how long a primary may give no answer before it counts as hung.
	hangLimit = 5 * time.Second
	// lockTimeout is how long a statement waits for a lock.
	lockTimeout = 10 * time.Second
	// commitTimeout is how long a COMMIT may take, and the capture of a commit ID.
	commitTimeout = 5 * time.Second

	// A page leaves a replica that hangs for the primary.
	readBound = otherWork + noticed
	// A primary that hangs is given up, the next connection to it gets no answer, and
	// the position that replaces an unknown marker neither.
	readBoundWithoutPrimary = readBound + hangLimit + connectPatience + commitTimeout
	// A write waits for one that holds its lock.
	writeBound = readBound + lockTimeout
	// longestBound is that of a write that meets a primary which hangs: the connection
	// and the next one as above, and then a lock, a COMMIT and the capture of its ID.
	longestBound = otherWork + hangLimit + connectPatience + lockTimeout + 2*commitTimeout
)

// bound returns how long an operation may take.
func (h *History) bound(o *Op) time.Duration {
	reads, without := strings.HasPrefix(o.Action, "GET"), h.faulty(o, "primary")
	switch {
	case reads && !without:
		return readBound
	case reads:
		return readBoundWithoutPrimary
	case !without:
		return writeBound
	}
	return longestBound
}
