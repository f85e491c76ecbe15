/*
Package cache keeps values that take long to compute, and counts what must not
be done too often. Both live in tables of the primary, and are read there.

# A cache that cannot be poisoned

A cache that is filled from a late replica keeps the old value for as long as the
entry lives, which may be far longer than the replica is late. Filling it from the
primary is not enough. One request computes a value; another commits a change and
forgets the entry; then the first one stores what it has computed:

	reader                        writer
	finds no entry
	computes the value, old
	                              commits, and forgets the entry
	stores the old value

Nobody forgets the entry again. Here that cannot happen:

  - Each entry belongs to a slot, a row with a generation, which [Forget] advances.
    [Remember] takes the generation before it computes, and stores only if it is
    still the same.
  - Forget runs in the transaction that changes what the entry was made of. It holds
    the slot until the commit, and Remember waits for the slot to take its generation.
    So what Remember computes has either seen the change, or is not stored. The cache
    is in the same database as the data: that is what makes one transaction of the two.
  - Of those in one process who find the same entry missing, one computes it. Whoever
    came when it had begun already waits for it, and then looks again: the change may
    have been their own.

A change and the end of what was cached of it are one commit. A process that dies
leaves both or neither, and a change that is rolled back forgets nothing. How long
an entry lives bounds only what changes the data without saying so, such as SQL
typed by hand.

# What it costs

A look-up is one read of the primary by primary key. It pays for itself if the
value takes longer than that to compute: a count, a join over much, not a row.

Forget costs two statements, and holds the slot up to the commit, so that writes which
forget the same entry commit one after the other. Call it last in the transaction,
once and with all keys.

Nothing that security needs is kept here: an entry may be gone at any time.

# Limits

A [Limiter] counts and decides in one statement on the primary. To count on the
primary and look on a replica lets through, besides the limit, all that comes while
the replica is late. To read and then write lets through what comes in between.
*/
package cache
