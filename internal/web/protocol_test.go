package web

import (
	"fmt"
	"maps"
	"testing"

	"freshread/internal/dbroute"
)

// The marker protocol, in every order that a browser can see: three writes and
// a read, each of which starts with the cookies of that moment and ends when
// its response arrives. After each step, whatever has been acknowledged must be
// covered by the cookies, or be on every replica.

// jar is a browser's marker cookies: by name, the set of commits that each
// covers, as bits.
type jar map[string]uint

func (j jar) covered() (commits uint) {
	for _, c := range j {
		commits |= c
	}
	return commits
}

// protocol is what a response does to the cookies.
type protocol func(j jar, carried jar, own uint, read readKind, fresh string)

// readKind is what a read finds out about what it carries.
type readKind int

const (
	pending readKind = iota
	settled          // every replica has reached it
	healing          // it was unknown, and the primary's position replaces it
)

// byPlan is the real one.
func byPlan(j, carried jar, own uint, read readKind, fresh string) {
	var names []string
	for name := range carried {
		names = append(names, name)
	}
	todo := plan(names, dbroute.Outcome{
		Changed: own != 0 || read == healing,
		Settled: own == 0 && read == settled && len(carried) > 0,
	})
	if todo.set {
		j[fresh] = carried.covered() | own
	}
	for _, name := range todo.remove {
		delete(j, name)
	}
}

// byFixedName is what it is there to replace: one cookie, overwritten.
func byFixedName(j, carried jar, own uint, read readKind, _ string) {
	switch {
	case own != 0:
		j["marker"] = carried.covered() | own
	case read == settled:
		delete(j, "marker")
	}
}

// history is one order of events, replayed.
type history struct {
	act      protocol
	requests int
	read     readKind

	jar      jar
	started  []jar // by request; nil until it starts
	ended    []bool
	acked    uint // commits whose response has arrived
	everyone uint // commits that every replica has
	order    string
}

const writes = 3 // the requests 0 to 2; those after them read

func (h *history) isWrite(i int) bool { return i < writes }

// explore replays every order from here on, and returns how many end in a lost
// commit, and how many there are.
func (h *history) explore(t *testing.T, report bool) (lost, all int) {
	finished := true
	for i := range h.requests {
		if h.ended[i] {
			continue
		}
		finished = false
		next := h.clone()
		if h.started[i] == nil {
			next.start(i)
		} else {
			next.end(i)
			if missing := next.acked &^ (next.jar.covered() | next.everyone); missing != 0 {
				if report {
					t.Fatalf("commits %03b are lost after%s", missing, next.order)
				}
				// Count the orders that begin like this as lost.
				_, n := next.explore(t, false)
				lost, all = lost+n, all+n
				continue
			}
			if len(next.jar) > h.requests {
				t.Fatalf("%d cookies after%s", len(next.jar), next.order)
			}
		}
		l, n := next.explore(t, report)
		lost, all = lost+l, all+n
	}
	if finished {
		return 0, 1
	}
	return lost, all
}

func (h *history) start(i int) {
	h.started[i] = maps.Clone(h.jar)
	h.order += fmt.Sprintf(" start%d", i)
}

func (h *history) end(i int) {
	carried, own := h.started[i], uint(0)
	if h.isWrite(i) {
		own = 1 << i
		h.acked |= own
	} else if h.read == settled {
		h.everyone |= carried.covered()
	}
	h.act(h.jar, carried, own, h.read, fmt.Sprintf("marker.%d", i))
	h.ended[i] = true
	h.order += fmt.Sprintf(" end%d", i)
}

func (h *history) clone() *history {
	c := *h
	c.jar = maps.Clone(h.jar)
	c.started = append([]jar(nil), h.started...)
	c.ended = append([]bool(nil), h.ended...)
	return &c
}

func newHistory(act protocol, reads int, read readKind) *history {
	n := writes + reads
	return &history{act: act, requests: n, read: read, jar: jar{}, started: make([]jar, n), ended: make([]bool, n)}
}

func TestNoOrderLosesACommit(t *testing.T) {
	for _, read := range []readKind{pending, settled, healing} {
		for reads := 1; reads <= 2; reads++ {
			lost, all := newHistory(byPlan, reads, read).explore(t, true)
			want := map[int]int{1: 2520, 2: 113400}[reads] // (2n)!/2^n
			if lost != 0 || all != want {
				t.Errorf("%d reads: %d of %d orders lose a commit, want 0 of %d", reads, lost, all, want)
			}
		}
	}
}

// The model can tell: a single cookie loses commits in it.
func TestOneCookieOfAFixedNameLosesCommits(t *testing.T) {
	lost, all := newHistory(byFixedName, 1, pending).explore(t, false)
	if lost == 0 {
		t.Errorf("none of %d orders loses a commit", all)
	}
	t.Logf("%d of %d orders lose a commit (%d %%)", lost, all, 100*lost/all)
}
