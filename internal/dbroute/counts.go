package dbroute

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// Counts is what a cluster has done since it was opened.
type Counts struct {
	Accesses  []AccessCount
	Checks    map[string]uint64 // questions whether a replica has reached a commit, by outcome
	Decisions map[Reason]uint64 // of scopes, at their first read
}

// AccessCount is how many reads or writes one server ran for one reason.
type AccessCount struct {
	ServerID int
	Role     Role
	Reason   Reason
	Write    bool
	N        uint64
}

// Outcomes of checks.
const (
	checkReached    = "reached"
	checkNotReached = "not reached"
	checkTimeline   = "other timeline"
	checkFailed     = "failed"
)

// counts are counted on every read, so that a count costs no allocation and, but
// for the first of its kind, no exclusive lock.
type counts struct {
	mu        sync.RWMutex
	accesses  map[AccessCount]*atomic.Uint64 // N is 0 in the keys
	checks    map[string]*atomic.Uint64
	decisions map[Reason]*atomic.Uint64
}

func newCounts() *counts {
	return &counts{
		accesses:  map[AccessCount]*atomic.Uint64{},
		checks:    map[string]*atomic.Uint64{},
		decisions: map[Reason]*atomic.Uint64{},
	}
}

func (c *counts) access(a *Access) {
	increment(&c.mu, c.accesses, AccessCount{ServerID: a.ServerID, Role: a.Role, Reason: a.Reason, Write: a.Write})
}

func (c *counts) decision(why Reason) { increment(&c.mu, c.decisions, why) }

func (c *counts) check(a answer) {
	outcome := checkNotReached
	switch {
	case a.err != nil:
		outcome = checkFailed
	case a.reach == hasReached:
		outcome = checkReached
	case a.reach == onOtherTimeline:
		outcome = checkTimeline
	}
	increment(&c.mu, c.checks, outcome)
}

func increment[K comparable](mu *sync.RWMutex, m map[K]*atomic.Uint64, key K) {
	mu.RLock()
	n, ok := m[key]
	mu.RUnlock()
	if !ok {
		mu.Lock()
		if n, ok = m[key]; !ok {
			n = new(atomic.Uint64)
			m[key] = n
		}
		mu.Unlock()
	}
	n.Add(1)
}

// Counts returns the counts so far, the accesses by server and then by number.
func (c *Cluster) Counts() Counts {
	n := c.counts
	n.mu.RLock()
	defer n.mu.RUnlock()
	all := Counts{Checks: loadAll(n.checks), Decisions: loadAll(n.decisions)}
	for key, count := range n.accesses {
		key.N = count.Load()
		all.Accesses = append(all.Accesses, key)
	}
	slices.SortFunc(all.Accesses, func(a, b AccessCount) int {
		return cmp.Or(cmp.Compare(a.ServerID, b.ServerID), cmp.Compare(b.N, a.N), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

func loadAll[K comparable](m map[K]*atomic.Uint64) map[K]uint64 {
	loaded := make(map[K]uint64, len(m))
	for key, n := range m {
		loaded[key] = n.Load()
	}
	return loaded
}
