package dbroute

import (
	"errors"
	"slices"
	"strings"
)

// Sentinels that callers act on; match them with errors.Is.
var (
	// ErrUnsupported is a database that cannot be routed by commit ID.
	ErrUnsupported = errors.New("unsupported database")
	// ErrPrimaryUnavailable is a read or a write that needed the primary and
	// could not reach it. The call that returned it has written nothing.
	ErrPrimaryUnavailable = errors.New("primary unavailable")
	// ErrCommitUnknown is a write whose COMMIT was sent and not answered: it
	// may have happened. The scope's marker is then unknown.
	ErrCommitUnknown = errors.New("outcome of the commit unknown")
	// ErrContended is a read or a write that others were in the way of: it waited
	// for their lock for too long, or they for its. The call that returned it has
	// written nothing, and may succeed if it is tried again.
	ErrContended = errors.New("contended")
	// ErrInTransaction is a question that has no answer before the commit.
	ErrInTransaction = errors.New("inside a transaction")
	// ErrNoCommitID is a merge of nothing, or a commit ID of servers that issue none.
	ErrNoCommitID = errors.New("no commit ID")
	// ErrMalformed is a commit ID that no server of this engine has issued.
	ErrMalformed = errors.New("malformed commit ID")

	errNestedPanic   = errors.New("a nested write panicked")
	errOtherTimeline = errors.New("commit IDs of different timelines")
	errRowsOpen      = errors.New("dbroute: a query while the rows of the one before are open: read them to their end, or close them")
	errWrongRole     = errors.New("wrong role")
	errConnect       = errors.New("connect")
	errReplaced      = errors.New("server was restarted or replaced since it was asked")
)

// CapabilityError says what the configuration of servers lacks for commit IDs.
type CapabilityError struct{ Missing []string }

func (e *CapabilityError) Error() string { return strings.Join(e.Missing, "; ") }

// IsDuplicateKey reports whether a write failed since a unique index has such a
// row already.
func IsDuplicateKey(err error) bool {
	return err != nil && slices.ContainsFunc(engines(), func(e engine) bool { return e.duplicateKey(err) })
}
