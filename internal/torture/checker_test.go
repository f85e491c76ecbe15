package torture

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"freshread/internal/cache"
)

var (
	ada     = Session{ID: 1, Kind: browser, User: 1, Marked: true}
	adasBot = Session{ID: 2, Kind: unmarked, User: 1}
	ben     = Session{ID: 3, Kind: marked, User: 2, Marked: true}
	guest   = Session{ID: 4, Kind: visitor, Marked: true}

	primary  = Server{ID: 1, Reason: "commit not reached"}
	replica2 = Server{ID: 2, Replica: true, Reason: "commit reached"}
	replica3 = Server{ID: 3, Replica: true, Reason: "commit reached"}
)

// story makes a history of operations that each take a second: one begins at 0 s and
// ends at 1 s, the next begins at 2 s, and so on.
func story(ops ...Op) *History {
	h := &History{}
	for i, o := range ops {
		if o.End == 0 {
			o.Start, o.End = time.Duration(2*i)*time.Second, time.Duration(2*i+1)*time.Second
		}
		o.N = i + 1
		if o.Status == 0 {
			o.Status = 200
		}
		if o.Status < 0 {
			o.Status = 0
		}
		if o.Result == "" {
			o.Result = OK
		}
		if o.Session.User != 0 && o.As == 0 {
			o.As = o.Session.User
		}
		h.Ops = append(h.Ops, o)
	}
	return h
}

func wrote(s Session, object Object, version Version, value string) Op {
	return Op{Session: s, Wrote: Wrote{Object: object, Version: version, Value: value}}
}

func commented(s Session, id int64, value string) Op {
	return Op{Session: s, Wrote: Wrote{Object: object("comment", id), Version: 1, Value: value, Parent: "post/1"}}
}

func saw(s Session, object Object, version Version, value string) Op {
	return Op{Session: s, Saw: []Sight{{object, version, value}}}
}

func listed(s Session, from int64, comments ...int64) Op {
	o := Op{Session: s, List: &List{Parent: "post/1", From: from}}
	for _, id := range comments {
		o.Saw = append(o.Saw, Sight{object("comment", id), 1, ""})
	}
	return o
}

func (o Op) with(change func(*Op)) Op {
	change(&o)
	return o
}

func result(r Result) func(*Op) { return func(o *Op) { o.Result = r } }

func at(start, end time.Duration) func(*Op) {
	return func(o *Op) { o.Start, o.End = start*time.Second, end*time.Second }
}

func asked(consistency string) func(*Op) { return func(o *Op) { o.Consistency = consistency } }

func by(servers ...Server) func(*Op) { return func(o *Op) { o.Servers = servers } }

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		history *History
		want    []Rule
	}{
		"what was written is read": {story(
			wrote(ada, "post/1", 2, "b"), saw(ada, "post/1", 2, "b")), nil},
		"one's own write is not seen": {story(
			wrote(ada, "post/1", 2, "b"), saw(ada, "post/1", 1, "a")), []Rule{ReadYourWrites}},
		"nor by the user's program": {story(
			wrote(ada, "post/1", 2, "b"), saw(adasBot, "post/1", 1, "a")), []Rule{ReadYourWrites}},
		"somebody else's need not be seen": {story(
			wrote(ada, "post/1", 2, "b"), saw(ben, "post/1", 1, "a"), saw(guest, "post/1", 1, "a")), nil},
		"a newer one is as good": {story(
			wrote(ada, "post/1", 2, "b"), saw(ada, "post/1", 3, "c")), nil},
		"a read that began before the answer": {story(
			wrote(ada, "post/1", 2, "b").with(at(0, 3)), saw(adasBot, "post/1", 1, "a").with(at(2, 4))), nil},
		"what came before one's own write is not seen": {story(
			wrote(ben, "post/1", 2, "b"), wrote(ada, "post/9", 2, "x"), saw(ada, "post/1", 1, "a")), []Rule{ReadYourWrites}},
		"what came at the same time need not be": {story(
			wrote(ben, "post/1", 2, "b").with(at(0, 3)), wrote(ada, "post/9", 2, "x").with(at(2, 4)), saw(ada, "post/1", 1, "a").with(at(5, 6))), nil},
		"a write that may not have happened": {story(
			wrote(ada, "post/1", 2, "b").with(result(Unknown)), saw(ada, "post/1", 1, "a"), saw(ada, "post/1", 2, "b")), nil},
		"eventual consistency": {story(
			wrote(ada, "post/1", 2, "b"), saw(ada, "post/1", 1, "a").with(asked("eventual"))), nil},
		"a new post is not there": {story(
			wrote(ada, "post/1", 1, "a"), saw(ada, "post/1", Absent, "")), []Rule{ReadYourWrites}},
		"a deleted comment is there": {story(
			commented(ada, 5, "c"), wrote(ada, "comment/5", Gone, ""), saw(ada, "comment/5", 1, "c")), []Rule{ReadYourWrites}},
		"a deleted comment is gone": {story(
			commented(ada, 5, "c"), wrote(ada, "comment/5", Gone, ""), saw(ada, "comment/5", Absent, ""), listed(ada, 0)), nil},
		"a deletion that may have happened": {story(
			commented(ada, 5, "c"), wrote(ada, "comment/5", Gone, "").with(result(Unknown)), listed(ada, 0), listed(ada, 0, 5)), nil},
		"a comment is not listed": {story(
			commented(ada, 5, "c"), listed(ada, 0, 4)), []Rule{ReadYourWrites}},
		"a comment is before the list": {story(
			commented(ada, 5, "c"), listed(ada, 6, 6)), nil},
		"a comment is not counted": {story(
			commented(ada, 5, "c"), saw(ada, "count/post/1", 0, "")), []Rule{ReadYourWrites}},
		"a comment that may be deleted is not counted": {story(
			commented(ada, 5, "c"), wrote(ada, "comment/5", Gone, "").with(result(Unknown)), saw(ada, "count/post/1", 0, "")), nil},

		"a name goes back": {story(
			wrote(ada, "name/1", 2, "n2"), wrote(ada, "name/1", 3, "n3"), saw(ada, "name/1", 2, "n2")), []Rule{ReadYourWrites}},
		"a rename in doubt comes late": {story(
			wrote(ada, "name/1", 2, "n2").with(result(Unknown)), wrote(ada, "name/1", 3, "n3"), saw(ada, "name/1", 2, "n2")), nil},
		"an edit in doubt cannot": {story(
			wrote(ada, "post/1", 2, "b").with(result(Unknown)), wrote(ada, "post/1", 3, "c"), saw(ada, "post/1", 2, "b")), []Rule{ReadYourWrites}},

		"a strong read misses somebody's": {story(
			wrote(ada, "post/1", 2, "b"), saw(guest, "post/1", 1, "a").with(asked("strong"))), []Rule{Strong}},
		"a write is lost": {story(
			wrote(ada, "post/1", 2, "b"), saw(guest, "post/1", 1, "a").with(func(o *Op) { o.Final = true })), []Rule{NothingLost}},
		"a comment is lost": {story(
			commented(ada, 5, "c"), listed(guest, 0).with(func(o *Op) { o.Final = true })), []Rule{NothingLost}},

		"a job is lost": {story(
			saw(guest, "summary/1", Absent, "").with(func(o *Op) { o.Final = true })), []Rule{NothingLost}},

		"a revoked token counts": {story(
			wrote(ada, "token/1", 1, ""), wrote(ada, "token/1", Gone, ""), saw(ben, "token/1", 1, "")), []Rule{Credentials}},
		"a new token does not count": {story(
			wrote(ada, "token/1", 1, ""), saw(adasBot, "token/1", Absent, "")), []Rule{Credentials}},
		"a token whose end is in doubt": {story(
			wrote(ada, "token/1", 1, ""), wrote(ada, "token/1", Gone, "").with(result(Unknown)), saw(ben, "token/1", 1, ""), saw(ben, "token/1", Absent, "")), nil},
		"a log-in that has ended counts": {story(
			wrote(ada, "login/1.1", 1, ""), wrote(ada, "login/1.1", Gone, ""), saw(ada, "login/1.1", 1, "")), []Rule{Credentials}},

		"a refused edit is seen": {story(
			wrote(ada, "post/1", 2, "b").with(result(Refused)), saw(guest, "post/1", 2, "b")), []Rule{NeverSaved}},
		"another title than was saved": {story(
			wrote(ada, "post/1", 2, "b"), saw(guest, "post/1", 2, "x")), []Rule{NeverSaved}},
		"one comment is there twice": {story(
			saw(guest, "comment/1", 1, "c"), saw(guest, "comment/2", 1, "c")), []Rule{OnceOnly}},

		"a page of two replicas": {story(
			saw(guest, "post/1", 1, "a").with(by(replica2, replica3))), []Rule{OneState}},
		"a page goes back to a replica": {story(
			saw(guest, "post/1", 1, "a").with(by(primary, replica2))), []Rule{OneState}},
		"a page leaves its replica for nothing": {story(
			saw(guest, "post/1", 1, "a").with(by(replica2, primary))), []Rule{OneState}},
		"a page leaves a replica that has failed": {story(
			saw(guest, "post/1", 1, "a").with(by(replica2, Server{ID: 1, Reason: "replica failed"}))), nil},
		"a page goes back in time": {story(
			Op{Session: guest, Saw: []Sight{{"name/1", 3, "n3"}, {"name/1", 2, "n2"}}}), []Rule{OneState}},

		"a failure without a cause": {story(Op{Session: guest, Status: 503, Result: Unknown}), []Rule{Answered}},
		"no answer":                 {story(Op{Session: guest, Status: -1, Result: Unknown}), []Rule{Answered}},
		"the client went away":      {story(Op{Session: guest, Status: -1, Result: Unknown, Cut: true}), nil},
		"an idle session is on the primary": {story(
			saw(ada, "post/1", 1, "a").with(by(primary)).with(func(o *Op) { o.Idle = true })), []Rule{BackOnReplicas}},
		"an idle session is on a replica": {story(
			saw(ada, "post/1", 1, "a").with(by(replica2)).with(func(o *Op) { o.Idle = true })), nil},
		"a replica is not read any more": {story(
			saw(guest, "post/1", 1, "a").with(by(replica2)).with(func(o *Op) { o.Unread = []int{3} })), []Rule{BackOnReplicas}},
	} {
		t.Run(name, func(t *testing.T) { wantRules(t, test.history, test.want...) })
	}
}

func wantRules(t *testing.T, h *History, want ...Rule) {
	t.Helper()
	var got []Rule
	for _, v := range Check(h) {
		got = append(got, v.Rule)
	}
	if !slices.Equal(got, want) {
		t.Errorf("violations of %q, want %q", got, want)
	}
}

func TestCheckHandedCommitID(t *testing.T) {
	news := wrote(ada, "post/1", 2, "b")
	news.Start, news.End = 0, time.Second
	stale := saw(guest, "post/1", 1, "a").with(func(o *Op) { o.Given = &news })
	wantRules(t, story(news, stale), ReadYourWrites)

	h := story(wrote(ben, "post/2", 2, "y"), wrote(ada, "post/1", 2, "b"), saw(guest, "post/2", 1, "x"))
	given := h.Ops[1]
	h.Ops[2].Given = &given
	wantRules(t, h, ReadYourWrites)
}

func TestCheckMonotonic(t *testing.T) {
	for name, test := range map[string]struct {
		ops  []Op
		want []Rule
	}{
		"back in time":               {[]Op{saw(guest, "post/1", 3, "c"), saw(guest, "post/1", 2, "b")}, []Rule{Monotonic}},
		"forward":                    {[]Op{saw(guest, "post/1", 2, "b"), saw(guest, "post/1", 3, "c")}, nil},
		"another session":            {[]Op{saw(guest, "post/1", 3, "c"), saw(ben, "post/1", 2, "b")}, nil},
		"a session without a marker": {[]Op{saw(adasBot, "post/1", 3, "c"), saw(adasBot, "post/1", 2, "b")}, nil},
		"eventual":                   {[]Op{saw(ben, "post/1", 3, "c"), saw(ben, "post/1", 2, "b").with(asked("eventual"))}, nil},
		"a comment is there no more": {[]Op{commented(ben, 5, "c"), listed(guest, 0, 5), listed(guest, 0)}, []Rule{Monotonic}},
		"a comment was deleted":      {[]Op{commented(ben, 5, "c"), listed(guest, 0, 5), wrote(ben, "comment/5", Gone, ""), listed(guest, 0)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := story(test.ops...)
			wantRules(t, h) // nobody has promised it
			h.Monotonic = true
			wantRules(t, h, test.want...)
		})
	}
}

func TestCheckAnsweredDespiteFaults(t *testing.T) {
	const refused, unanswered = 503, -1
	for _, test := range []struct {
		by        Session
		status    int
		monotonic bool
		faulty    []string
		want      []Rule
	}{
		{ada, refused, false, []string{"primary"}, nil},
		{ada, refused, false, []string{"replica 1", "queue"}, []Rule{Answered}},
		{ada, refused, false, []string{"process 1"}, []Rule{Answered}},
		{ada, unanswered, false, []string{"process 1"}, nil},
		{ada, unanswered, false, []string{"replica 1", "queue"}, []Rule{Answered}},
		{guest, refused, false, []string{"primary"}, []Rule{Answered}},
		{guest, refused, true, []string{"primary"}, nil},
		{guest, refused, false, []string{"primary", "replica 1"}, nil},
		{guest, refused, false, []string{"primary", "process 1"}, nil},
		{guest, refused, false, []string{"replica 1"}, []Rule{Answered}},
	} {
		h := story(Op{Session: test.by, Status: test.status, Result: Unknown})
		h.Monotonic = test.monotonic
		for _, target := range test.faulty {
			h.Faults = append(h.Faults, Fault{Kind: Killed, Target: target, At: 0, Until: time.Second})
		}
		wantRules(t, h, test.want...)
	}
	h := story(Op{Session: guest, Status: 500, Result: Unknown})
	h.Faults = []Fault{{Kind: Killed, Target: "primary", At: 0, Until: time.Second}}
	wantRules(t, h, Answered)
	h = story(Op{Session: ada, Status: 503, Result: Unknown}.with(at(7, 8)))
	h.Faults = []Fault{{Kind: Killed, Target: "primary", At: 0, Until: time.Second}}
	wantRules(t, h, Answered)
}

func TestCheckLimits(t *testing.T) {
	write := func(n int, start, end time.Duration) Op {
		return wrote(ada, object("post", int64(n)), 1, fmt.Sprint(n)).with(func(o *Op) { o.Start, o.End = start, end })
	}
	var atOnce, evenly []Op
	for n := range 5 {
		atOnce = append(atOnce, write(n+1, time.Second, time.Second+10*time.Millisecond))
	}
	for n := range 20 {
		start := time.Duration(n+1) * time.Second
		evenly = append(evenly, write(n+1, start, start+10*time.Millisecond))
	}
	for name, test := range map[string]struct {
		ops  []Op
		hits int
		want []Rule
	}{
		"as many as are allowed":     {atOnce, 5, nil},
		"more than are allowed":      {atOnce, 3, []Rule{Limited}},
		"evenly":                     {evenly, 3, nil},
		"evenly, and many at an end": {append(slices.Clone(evenly), write(30, 20*time.Second, 20500*time.Millisecond), write(31, 20*time.Second, 20500*time.Millisecond), write(32, 20*time.Second, 20500*time.Millisecond), write(33, 20*time.Second, 20500*time.Millisecond), write(34, 20*time.Second, 20500*time.Millisecond)), 3, []Rule{Limited}},
	} {
		t.Run(name, func(t *testing.T) {
			h := story(test.ops...)
			h.Limits = map[Allowance]cache.Limit{WritesBy: {Hits: test.hits, Per: time.Duration(test.hits) * time.Second}}
			wantRules(t, h, test.want...)
		})
	}
}

func TestCheckLimitsOfAttempts(t *testing.T) {
	from := func(address string) Op { return Op{Session: guest, Hits: []Hit{{LogInsFrom, address}}} }
	for name, test := range map[string]struct {
		ops  []Op
		want []Rule
	}{
		"as many as are allowed": {[]Op{from("a"), from("a"), from("a")}, nil},
		"more than are allowed":  {[]Op{from("a"), from("a"), from("a"), from("a")}, []Rule{Limited}},
		"each by another":        {[]Op{from("a"), from("a"), from("b"), from("b")}, nil},
		"of another kind":        {[]Op{from("a"), from("a"), from("a"), {Session: guest, Hits: []Hit{{LogInsTo, "a"}}}}, nil},
		"of what has no limit":   {[]Op{{Session: guest, Hits: []Hit{{SignUpsFrom, "a"}, {SignUpsFrom, "a"}, {SignUpsFrom, "a"}, {SignUpsFrom, "a"}}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := story(test.ops...)
			h.Limits = map[Allowance]cache.Limit{LogInsFrom: {Hits: 2, Per: time.Hour}, LogInsTo: {Hits: 2, Per: time.Hour}}
			wantRules(t, h, test.want...)
		})
	}
}

func TestCheckBounds(t *testing.T) {
	for name, test := range map[string]struct {
		action string
		faulty string
		bound  time.Duration
	}{
		"a page":                              {"GET /posts/1", "replica 1", readBound},
		"a page while the primary is faulty":  {"GET /posts/1", "primary", readBoundWithoutPrimary},
		"a write":                             {"POST /posts", "queue", writeBound},
		"a write while the primary is faulty": {"PUT /api/posts/1", "primary", longestBound},
	} {
		t.Run(name, func(t *testing.T) {
			for over, want := range map[time.Duration][]Rule{0: nil, time.Millisecond: {Bounded}} {
				h := story(Op{Session: guest, Action: test.action, Start: time.Second, End: time.Second + test.bound + over})
				h.Faults = []Fault{{Kind: Hung, Target: test.faulty, At: 0, Until: time.Second}}
				wantRules(t, h, want...)
			}
		})
	}
}
