package dbroute

import (
	"context"
	"fmt"
	"time"
)

// CommitID is an opaque position in the primary's history. A server that has
// reached it has applied that commit and all before it. CommitIDs are
// comparable; the zero value is no commit at all, which every server has
// reached. They come from LastCommitID, MergeCommitIDs and ParseCommitID.
type CommitID struct{ text string }

// String returns the form that ParseCommitID accepts: printable ASCII without
// spaces, commas or quotes.
func (id CommitID) String() string { return id.text }

// IsZero reports whether id is no commit at all.
func (id CommitID) IsZero() bool { return id.text == "" }

// ParseCommitID reads a commit ID that came from outside. It checks the form
// strictly, so that what a client sent never reaches the database as anything
// but a position; it does not check that the position exists.
func (c *Cluster) ParseCommitID(text string) (CommitID, error) {
	id, err := c.engine.parse(text)
	if err != nil {
		return CommitID{}, fmt.Errorf("dbroute: parse commit ID: %w", err)
	}
	return id, nil
}

// MergeCommitIDs returns a commit ID that is reached only where all of ids
// are. It is an error to merge nothing, or IDs of histories that a failover
// has separated.
func (c *Cluster) MergeCommitIDs(ids ...CommitID) (CommitID, error) {
	if len(ids) == 0 {
		return CommitID{}, fmt.Errorf("dbroute: merge commit IDs: %w", ErrNoCommitID)
	}
	merged := CommitID{}
	for _, id := range ids {
		var err error
		if merged, err = c.mergeTwo(merged, id); err != nil {
			return CommitID{}, fmt.Errorf("dbroute: merge commit IDs: %w", err)
		}
	}
	return merged, nil
}

func (c *Cluster) mergeTwo(a, b CommitID) (CommitID, error) {
	switch {
	case a.IsZero():
		return b, nil
	case b.IsZero(), a == b:
		return a, nil
	}
	return c.engine.merge(a, b)
}

// LastCommitID returns a commit ID that covers the last write of the scope in
// ctx. If the scope has not written, or there is none, it asks the primary for
// its present position, which covers everything committed so far. Inside a
// transaction it is ErrInTransaction: the commit does not exist yet. Where servers issue
// no commit IDs it is ErrNoCommitID.
func (c *Cluster) LastCommitID(ctx context.Context) (CommitID, error) {
	if c.openTx(ctx) != nil {
		return CommitID{}, fmt.Errorf("dbroute: last commit ID: %w", ErrInTransaction)
	}
	if c.cfg.NoCommitIDs != "" {
		return CommitID{}, fmt.Errorf("dbroute: last commit ID: %w", ErrNoCommitID)
	}
	if s := c.scope(ctx); s != nil {
		if m, wrote := s.writes(); wrote && !m.Unknown {
			return m.Commit, nil
		}
	}
	id, err := c.primaryPosition(ctx)
	if err != nil {
		return CommitID{}, fmt.Errorf("dbroute: last commit ID: %w", err)
	}
	return id, nil
}

// HasCommitID reports whether the server that the scope in ctx reads from has
// reached id, waiting at most wait for it. On the primary it is true at once.
// Each asks the replica once; those who then wait for it, however many, cost it one
// connection.
func (c *Cluster) HasCommitID(ctx context.Context, id CommitID, wait time.Duration) (bool, error) {
	if c.openTx(ctx) != nil || id.IsZero() {
		return true, nil
	}
	to := c.target(ctx)
	if to.server.role == Primary {
		return true, nil
	}
	reached, err := c.waitReached(ctx, to.server, id, wait)
	if err != nil {
		return false, fmt.Errorf("dbroute: has commit ID: %w", err)
	}
	return reached, nil
}
