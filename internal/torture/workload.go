package torture

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// action is what a session does in one step. It may take several requests.
type action string

const (
	readPost      action = "read a post"
	readComments  action = "read comments"
	readList      action = "read the list of posts"
	readPerson    action = "read a person"
	readSelf      action = "read oneself"
	editPost      action = "edit a post"
	createPost    action = "create a post"
	addComment    action = "add a comment"
	deleteComment action = "delete a comment"
	rename        action = "rename oneself"
	logInAnew     action = "log out and in"
	makeToken     action = "make a token"
	revokeToken   action = "revoke a token"
	twoTabs       action = "save in two tabs and log out"
	burst         action = "many comments at once"
	guess         action = "many passwords for an account at once"
	spray         action = "a password for many accounts at once"
	signUpOften   action = "many sign-ups at once"
	makeTokens    action = "many tokens at once"
)

// step is one step of a session. All of it comes from the seed.
type step struct {
	action      action
	user        int    // whose post or profile, by their order
	pick        uint32 // which of the posts, or comments, or tokens
	pause       time.Duration
	cutAfter    time.Duration // the client goes away so soon; 0 if it stays
	consistency string        // of a program's read; empty for the default
	withKey     bool          // the program sends an Idempotency-Key
}

// kinds of sessions, and how often each does what.
const (
	browser       = "browser"
	marked        = "program with Commit-Id"
	unmarked      = "program"
	visitor       = "visitor"
	receiver      = "receiver of Commit-Ids"
	stranger      = "program of nobody" // that reads, and knows of no commit
	attacker      = "program in a hurry"
	postsAtStart  = 4 // of each user
	longestPause  = 12 * time.Millisecond
	longestCut    = 30 * time.Millisecond
	cutOneOf      = 60
	strongOneOf   = 12
	eventualOneOf = 12
	idleOneOf     = 40 // steps after which a session rests for so long that replicas catch up
	idleFor       = 300 * time.Millisecond
)

var weights = map[string]map[action]int{
	browser: {readPost: 40, editPost: 12, addComment: 12, readList: 6, readPerson: 6, readSelf: 6,
		rename: 5, deleteComment: 4, createPost: 3, logInAnew: 1, twoTabs: 1},
	marked:   program,
	unmarked: program,
	visitor:  {readPost: 60, readPerson: 20, readList: 20},
	receiver: {readPost: 70, readComments: 30},
	stranger: {readPost: 70, readComments: 30},
	attacker: {burst: 3, guess: 1, spray: 1, signUpOften: 1, makeTokens: 1},
}

var program = map[action]int{readPost: 25, readComments: 15, readList: 8, readSelf: 6, editPost: 12, addComment: 12,
	deleteComment: 4, createPost: 3, makeToken: 1, revokeToken: 1}

// plan draws the steps of one session.
type plan struct {
	random *rand.Rand
	kind   string
	users  int
	order  []action // of the map, which has none
	total  int
}

// newPlan makes the plan of a session of a round of a seed: the same for the same three.
func newPlan(seed uint64, round, session int, kind string, users int) *plan {
	p := &plan{
		random: rand.New(rand.NewPCG(seed, uint64(round)<<32|uint64(session)<<1)),
		kind:   kind, users: users, order: slices.Sorted(maps.Keys(weights[kind])),
	}
	for _, weight := range weights[kind] {
		p.total += weight
	}
	return p
}

func (p *plan) next() step {
	r := p.random
	s := step{action: p.draw(), user: r.IntN(p.users), pick: r.Uint32()}
	s.pause = time.Duration(r.Int64N(int64(longestPause)))
	cut, cutAfter := r.IntN(cutOneOf) == 0, time.Duration(1+r.Int64N(int64(longestCut)))
	if cut {
		s.cutAfter = cutAfter
	}
	switch {
	case r.IntN(strongOneOf) == 0:
		s.consistency = "strong"
	case r.IntN(eventualOneOf) == 0:
		s.consistency = "eventual"
	}
	s.withKey = r.IntN(2) == 0
	if r.IntN(idleOneOf) == 0 {
		s.pause += idleFor
	}
	if p.kind == attacker {
		s.pause += time.Duration(r.Int64N(int64(2 * time.Second)))
	}
	return s
}

func (p *plan) draw() action {
	at := p.random.IntN(p.total)
	for _, a := range p.order {
		if at -= weights[p.kind][a]; at < 0 {
			return a
		}
	}
	panic("the weights do not add up to their total")
}
