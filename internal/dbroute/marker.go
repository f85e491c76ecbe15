package dbroute

import "time"

// Marker is what a client carries from one request to its next: how far its
// own writes have got. The zero Marker is a client that wrote nothing.
type Marker struct {
	Commit  CommitID  // covers the client's writes, unless Unknown
	Written time.Time // when its last write was acknowledged; to the millisecond
	Unknown bool      // it wrote, but Commit does not cover it all
}

// IsZero reports whether the client wrote nothing.
func (m Marker) IsZero() bool {
	return m.Commit.IsZero() && m.Written.IsZero() && !m.Unknown
}

// isUnknown reports whether m covers a write of which there is no commit ID, though
// there are such: it may be from before there were.
func (c *Cluster) isUnknown(m Marker) bool {
	return m.Unknown || c.cfg.NoCommitIDs == "" && m.Commit.IsZero() && !m.Written.IsZero()
}

// MergeMarkers returns one marker that covers all of ms. Commits that cannot be
// merged, since a failover came between, make it unknown.
func (c *Cluster) MergeMarkers(ms ...Marker) Marker {
	var merged Marker
	timeless := false // one of them does not tell when it was written
	for _, m := range ms {
		commit, err := c.mergeTwo(merged.Commit, m.Commit)
		merged.Commit = commit
		merged.Unknown = merged.Unknown || c.isUnknown(m) || err != nil
		if m.Written.After(merged.Written) {
			merged.Written = m.Written
		}
		timeless = timeless || m.Unknown && m.Written.IsZero()
	}
	if merged.Unknown {
		merged.Commit = CommitID{}
	}
	if timeless {
		merged.Written = time.Time{}
	}
	return merged
}

// writtenAt rounds up to the marker's resolution, so that a window is never
// shorter than it says.
func writtenAt(t time.Time) time.Time {
	return t.Add(time.Millisecond - 1).Truncate(time.Millisecond)
}
