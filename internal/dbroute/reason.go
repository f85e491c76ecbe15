package dbroute

// Role says what a server is to its cluster.
type Role string

const (
	Primary Role = "primary"
	Replica Role = "replica"
)

// Reason says why a read or a write used the server it used. Pages, headers,
// logs and metrics all show this same text.
type Reason string

// Reasons for a replica.
const (
	NoPendingCommit Reason = "no pending commit" // the client carries no commit ID
	CommitReached   Reason = "commit reached"    // the replica has applied the client's commit
	NoRecentWrite   Reason = "no recent write"   // the client's window is over, or it never wrote
	StrategyNone    Reason = "strategy none"     // reads go to a replica whatever was written
)

// Reasons for the primary.
const (
	CommitNotReached   Reason = "commit not reached"    // the replica has yet to apply the client's commit
	CommitWaitTimedOut Reason = "commit wait timed out" // no replica had applied the commit by the end of the wait for one
	CheckFailed        Reason = "check failed"          // the replica did not say in time whether it has
	UnknownMarker      Reason = "unknown marker"        // the client wrote something, but not known what
	WithinWindow       Reason = "within window"         // the client wrote less than the window ago
	AfterWrite         Reason = "after write"           // this scope has written, or tried to
	InTransaction      Reason = "in transaction"        // the read is part of an open transaction
	PrimaryAskedFor    Reason = "primary asked for"     // UsePrimary, or a scope that was pinned
	Undecided          Reason = "undecided"             // no strategy has run in this scope yet
	OutsideScope       Reason = "outside scope"         // the context carries no scope of this cluster
	PrimaryOnly        Reason = "primary-only"          // the cluster has no replicas
	NoReplica          Reason = "no replica"            // none is up, or none may be read yet
	ReplicaFailed      Reason = "replica failed"        // the scope's replica failed, or was taken out since its last read
	Written            Reason = "write"                 // writes go to the primary
	Touched            Reason = "touch"                 // a write that leaves no marker
)
