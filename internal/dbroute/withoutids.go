package dbroute

import (
	"context"
	"database/sql"
)

// withoutIDs is an engine whose servers issue no commit IDs. Markers then tell
// only when a client wrote, which is enough for the window.
type withoutIDs struct{ engine }

// position asks all the same, to find out whether the primary answers and still is one.
// It does not matter that the server knows no position.
func (e withoutIDs) position(ctx context.Context, conn *sql.Conn) (CommitID, error) {
	_, err := e.engine.position(ctx, conn)
	if e.fault(err) == faultStatement {
		err = nil
	}
	return CommitID{}, err
}

func (withoutIDs) lastCommit(context.Context, *sql.Conn, identity) (CommitID, error) {
	return CommitID{}, nil
}

func (withoutIDs) visible(context.Context, *sql.Conn) (CommitID, error) {
	return CommitID{}, nil
}

func (withoutIDs) parse(string) (CommitID, error) { return CommitID{}, ErrMalformed }

func (e withoutIDs) applied(ctx context.Context, conn *sql.Conn) (CommitID, error) {
	_, err := e.engine.applied(ctx, conn)
	return CommitID{}, err
}

func (withoutIDs) missing(context.Context, *sql.Conn, Role) ([]string, error) { return nil, nil }
