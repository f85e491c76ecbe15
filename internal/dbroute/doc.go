/*
Package dbroute decides which database server a read uses, so that whoever wrote
something reads it at once while as many reads as possible go to replicas.

# The problem

A replica applies what the primary commits a little later. Between the two, a
page that reads the replica shows what was there before: the old title after a
save, the login form after a log-in.

# A cluster

A [Cluster] is one primary and its replicas, each given by the URL of exactly one
server:

	cluster, err := dbroute.Open(dbroute.Config{
		Name:     "main",
		Primary:  "postgres://app@db1/blog",
		Replicas: []string{"postgres://app@db2/blog"},
	})

Open connects to nothing. [Cluster.Check] does, and names what the servers'
configuration lacks.

# A scope

Each request, and each run of a job, has a [Scope]: the state that decides where
its reads go. It travels in the context.

	ctx, scope := cluster.NewScope(ctx)
	scope.RouteByCommit(ctx, marker)

[Scope.RouteByCommit] is the strategy to use: a replica is read if it has reached
the client's last commit. [Scope.RouteByWindow] is the simpler one: the primary
is read for a fixed time after a write. It needs no commit IDs, and is stale when
a replica is further behind than the window is long. A job, which has the time that
a page has not, uses [Scope.RouteByCommitWait].

A strategy must run before anything is read: before the middleware that loads the
current user, before the one that loads the post named by the route. A read that
comes earlier goes to the primary with the reason [Undecided], and a warning is
logged.

# Reads and writes

	err := cluster.Read(ctx, "posts.ByID", func(q dbroute.Querier) error {
		return q.QueryRowContext(ctx, `SELECT title FROM posts WHERE id = ?`, id).Scan(&title)
	})

	err := cluster.Write(ctx, "posts.Update", func(ctx context.Context, tx *dbroute.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE posts SET title = ? WHERE id = ?`, title, id)
		return err
	})

Which server reads is decided once, at the scope's first read, so that a page is
one state. A write moves the rest of the scope to the primary. With the context
that Write gives to its function, reads run in the transaction.

A read's handle cannot write, and neither could one that tried: the connections
are read-only in the database too.

# Commit IDs and markers

Right after COMMIT, on the same connection, Write asks the primary for its
position. That is the [CommitID]: a server that has reached it has applied the
commit. With the time of the write it is the client's [Marker], which the program
gives to the client, in a cookie or a header, and gets back with the next request:

	outcome := scope.Outcome()
	if outcome.Changed {
		setCookie(outcome.Marker)
	}

Package web of this module keeps markers in cookies. A program that does so on
its own must merge the markers of a request with [Cluster.MergeMarkers] and must
not overwrite one: two responses may arrive in either order.

Whatever is in doubt goes to the primary, with a [Reason]: a marker that cannot be
read, a replica that does not answer in time, a commit whose outcome is unknown.
A [Marker] that is Unknown heals within one request.

[Cluster.LastCommitID] gives the commit ID of a write to hand on, to a second
service for instance, which asks its replica with [Cluster.HasCommitID].
[Tx.AfterCommit] hands on the commit ID of a transaction as soon as there is one;
with [Scope.OnWrite] a program keeps those of a user's writes in a row of the
database, for the user's other clients.

# Servers that fail

	go cluster.Watch(ctx)

[Cluster.Watch] polls the servers. A replica that is down, hangs, or is no replica any
longer is taken out, and its reads in flight run again on the primary. It is read again
once it has reached where the primary was when it was found. One that is further behind
than MaxReplicaLag is not read until it is nearer. Without the primary, what does not
need it goes on; what does is [ErrPrimaryUnavailable].

Without Watch a program reads its own writes only while no server crashes or changes its
role. A standby of PostgreSQL that crashed comes back a little earlier than it was, after
the markers of what it had applied may be gone; and a primary of MySQL or MariaDB that was
demoted keeps its connections. It is Watch that finds out.

[Cluster.Status] and [Cluster.Counts] are for pages and metrics.

# More than one cluster

Every cluster has scopes of its own, told apart by the cluster and not by a name
in the context. Writes on one do not move reads of another:

	ctx, scope := main.NewScope(ctx)
	ctx, reporting := reports.NewScope(ctx)

A cluster without replicas is primary-only: what must never be stale, such as
whether a session is still valid, reads through one, and its writes leave no
marker in the others.

# Limits

A pool is one server. Behind a load balancer the question whether a replica has
reached a commit is answered by one server and the read by another.

The pools for reads set default_transaction_read_only (PostgreSQL),
transaction_read_only (MySQL) or tx_read_only (MariaDB) when they connect, which a
pooler has to pass on, as what follows. On MySQL and MariaDB a server with read_only=ON is a replica,
and one without is a primary.

Sessions of MySQL and MariaDB run in UTC and, unless the URL says otherwise, under
READ COMMITTED, as those of PostgreSQL do.

Unless the URL says otherwise, a statement waits for a lock for 10 s at most
(lock_timeout on PostgreSQL, innodb_lock_wait_timeout and lock_wait_timeout on MySQL
and MariaDB), and ends in [ErrContended] then.

RouteByWindow compares times of the processes' clocks.
*/
package dbroute
