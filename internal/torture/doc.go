/*
Package torture proves the site's promises while servers fail.

[Run] starts real database servers, several processes of the site and a round robin
in front of them. Sessions (browsers with cookies, programs with tokens that send
Commit-Id or do not) write and read posts, names, comments and tokens, while faults
are injected. All that they send and get is recorded in a [History], and [Check]
looks in it, afterwards, for what must not be there.

# What is random

Two things, and both come from the seed: what each session does, one step after the
other, and which faults hit which server, when and for how long. So a run can be
repeated. How the two meet in time is up to the machine, and so a fault that was seen
once may take several runs to be seen again.

# What the checker knows

Each value carries its place in a sequence: the title of a post its version, a name
the number of the rename. So of two values it is known which is the older one, and no
model of the database has to be searched for an order that explains what was seen.

A write that was not answered, or answered with "it may have been saved", may have
happened or not, and may even happen later. It is held against nobody: it need not be
seen, and may be. A write that was refused must never be seen.

What a read has to cover follows from the order of real time: what was acknowledged
before the last write began that the reader must see, since that write's commit ID
covers it.

How long an answer may take follows from the time limits of package dbroute: see bound.go.

# What the checker is proven by

A checker that finds nothing may be one that looks at nothing. So the tests switch off
one fix after the other, and the checker must find that, by the rule that the fix is
for. Some are switched off around the site, where it takes a router, a limiter or a
handler. Others are in the middle of package dbroute, or of those that use it: for them
the site is built from a copy of its files in which a few lines are patched. A patch
that fits its file no longer fails the test.

Where it would take the sessions too long to come to what a fix is for, a script leads
them there: an edit that waits for a lock, a replica that comes back as an older copy, a
queue that is down while a process is killed, a failover to a standby that has missed
the last commits. The whole site goes through all of it too, and nothing may be found.
*/
package torture
