package torture

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"freshread/internal/dbroute"
)

// Violation is a promise that was broken.
type Violation struct {
	Rule   Rule
	Text   string
	Ops    []*Op   // the piece of the history that shows it
	Faults []Fault // of that time
}

// Rule is what a history must keep.
type Rule string

const (
	ReadYourWrites Rule = "read your writes"   // a read covers what was acknowledged before the reader's last write, and that
	Strong         Rule = "strong consistency" // a strong read covers what was acknowledged before it began
	Credentials    Rule = "credentials"        // a log-in or a token counts at once, and never after its end
	NothingLost    Rule = "nothing lost"       // what was acknowledged is there in the end
	OneState       Rule = "one state"          // a page is one state, of one server
	Monotonic      Rule = "monotonic reads"    // what a session has seen it sees again
	NeverSaved     Rule = "never saved"        // what was refused is not seen, nor what nobody wrote
	OnceOnly       Rule = "once only"          // what was sent again with its key was done once
	Limited        Rule = "limits"             // nobody gets more than a limit allows
	Bounded        Rule = "bounded"            // no answer takes longer than its bound
	Answered       Rule = "answered"           // only what needs a faulty server fails
	BackOnReplicas Rule = "back on replicas"   // afterwards idle sessions read replicas
)

// Check returns what was broken, in order of time.
func Check(h *History) []Violation {
	c := newChecker(h)
	for i := range h.Ops {
		c.check(&h.Ops[i])
	}
	c.checkMonotonic()
	c.checkLimits()
	slices.SortStableFunc(c.found, func(a, b Violation) int { return cmp.Compare(a.Ops[0].End, b.Ops[0].End) })
	return c.found
}

// checker is a history with indexes.
type checker struct {
	*History
	found []Violation

	acks     map[Object]acks
	owned    map[owned]acks
	writers  map[writer][]anchor
	children map[Object][]*Op // acknowledged creations by parent
	ends     map[Object]time.Duration
	writes   map[Sight]*Op // by object, version and value
	values   map[state]string
	refused  map[string]*Op
	comments map[string]Sight // by value
}

// writer is a user or, for what is nobody's, a session.
type writer struct {
	user    int64
	session int
}

type owned struct {
	writer
	object Object
}

type state struct {
	object  Object
	version Version
}

// acks are acknowledged writes by the time of their acknowledgement, each with the
// one of the highest version up to it.
type acks []ack

type ack struct {
	end  time.Duration
	best *Op
}

// before returns the highest that was acknowledged before t.
func (a acks) before(t time.Duration) *Op {
	i, _ := slices.BinarySearchFunc(a, t, func(a ack, t time.Duration) int { return cmp.Compare(a.end, t) })
	if i == 0 {
		return nil
	}
	return a[i-1].best
}

func (a acks) add(o *Op) acks {
	best := o
	if n := len(a); n > 0 && a[n-1].best.Wrote.Version > o.Wrote.Version {
		best = a[n-1].best
	}
	return append(a, ack{o.End, best})
}

// anchor is the latest beginning of a writer's acknowledged writes up to an end.
type anchor struct{ end, start time.Duration }

func newChecker(h *History) *checker {
	c := &checker{
		History: h,
		acks:    map[Object]acks{}, owned: map[owned]acks{}, writers: map[writer][]anchor{},
		children: map[Object][]*Op{}, ends: map[Object]time.Duration{}, writes: map[Sight]*Op{},
		values: map[state]string{}, refused: map[string]*Op{}, comments: map[string]Sight{},
	}
	slices.SortFunc(h.Ops, func(a, b Op) int { return cmp.Compare(a.End, b.End) })
	for i := range h.Ops {
		if o := &h.Ops[i]; o.Wrote.Object != "" {
			c.index(o)
		}
	}
	return c
}

func (c *checker) index(o *Op) {
	w := o.Wrote
	if o.Result == Refused {
		if w.Value != "" {
			c.refused[w.Value] = o
		}
		return
	}
	if end, known := c.ends[w.Object]; w.Version == Gone && (!known || o.Start < end) {
		c.ends[w.Object] = o.Start
	}
	c.writes[Sight{w.Object, w.Version, w.Value}] = o
	if o.Result != OK {
		return
	}
	c.acks[w.Object] = c.acks[w.Object].add(o)
	if w.Value != "" {
		c.values[state{w.Object, w.Version}] = w.Value
	}
	if w.Parent != "" && w.Version == 1 {
		c.children[w.Parent] = append(c.children[w.Parent], o)
	}
	for _, by := range writersOf(o) {
		key := owned{by, w.Object}
		c.owned[key] = c.owned[key].add(o)
		a := anchor{o.End, o.Start}
		if list := c.writers[by]; len(list) > 0 {
			a.start = max(a.start, list[len(list)-1].start)
		}
		c.writers[by] = append(c.writers[by], a)
	}
}

// writersOf returns who must see what an operation has written: its user with every
// session and token, and the session itself.
func writersOf(o *Op) []writer {
	by := []writer{{session: o.Session.ID}}
	if o.As != 0 {
		by = append(by, writer{user: o.As})
	}
	return by
}

// readersOf returns whose writes a read has to cover.
func readersOf(o *Op) []writer {
	var by []writer
	if o.Session.Marked {
		by = append(by, writer{session: o.Session.ID})
	}
	if o.As != 0 {
		by = append(by, writer{user: o.As})
	}
	return by
}

func (c *checker) check(o *Op) {
	if o.Consistency != "eventual" {
		for _, s := range slices.Concat(o.Saw, c.missing(o)) {
			c.checkSight(o, s)
		}
	}
	c.checkValues(o)
	c.checkPage(o)
	c.checkAnswer(o)
	if o.Idle && !o.onReplica() {
		c.report(BackOnReplicas, "all replicas have applied everything, and the primary is read", o)
	}
	if len(o.Unread) > 0 {
		c.report(BackOnReplicas, fmt.Sprintf("all replicas have applied everything, and servers %v are not read", o.Unread), o)
	}
}

// covered returns up to when a read covers everything that was acknowledged.
func (c *checker) covered(o *Op) time.Duration {
	if o.Final || o.Consistency == "strong" {
		return o.Start
	}
	t := time.Duration(-1)
	for _, by := range readersOf(o) {
		list := c.writers[by]
		i, _ := slices.BinarySearchFunc(list, o.Start, func(a anchor, t time.Duration) int { return cmp.Compare(a.end, t) })
		if i > 0 {
			t = max(t, list[i-1].start)
		}
	}
	if o.Given != nil {
		t = max(t, o.Given.Start)
	}
	return t
}

// needed returns the write that a read of an object has to cover, or nil.
func (c *checker) needed(o *Op, object Object) *Op {
	t := c.covered(o)
	if isCredential(object) {
		t = o.Start
	}
	best := c.acks[object].before(t)
	consider := func(w *Op) {
		if w != nil && (best == nil || w.Wrote.Version > best.Wrote.Version) {
			best = w
		}
	}
	for _, by := range readersOf(o) {
		consider(c.owned[owned{by, object}].before(o.Start))
	}
	if o.Given != nil && o.Given.Wrote.Object == object {
		consider(o.Given)
	}
	return best
}

func isCredential(object Object) bool {
	kind := kindOf(object)
	return kind == "login" || kind == "token"
}

// checkSight holds what was seen against what had to be.
func (c *checker) checkSight(o *Op, s Sight) {
	if parent, ok := strings.CutPrefix(string(s.Object), "count/"); ok {
		c.checkCount(o, Object(parent), int(s.Version))
		return
	}
	if kindOf(s.Object) == "summary" {
		if s.Version == Absent {
			c.report(NothingLost, fmt.Sprintf("the job that was to make the %s has not run: there is %q", s.Object, s.Value), o)
		}
		return
	}
	need := c.needed(o, s.Object)
	if need == nil || !c.older(o, s, need.Wrote.Version) || c.mayComeLate(s) {
		return
	}
	c.report(c.ruleOf(o, s.Object), fmt.Sprintf("it shows %s, and had to show %s", s, Sight{s.Object, need.Wrote.Version, need.Wrote.Value}), o, need, c.writes[s])
}

func (c *checker) ruleOf(o *Op, object Object) Rule {
	switch {
	case o.Final:
		return NothingLost
	case isCredential(object):
		return Credentials
	case o.Consistency == "strong":
		return Strong
	}
	return ReadYourWrites
}

// older reports whether what was seen of an object is older than a version. That an
// object is absent is as new as can be if it may have been deleted by then.
func (c *checker) older(o *Op, s Sight, version Version) bool {
	if s.Version != Absent {
		return s.Version < version
	}
	end, ended := c.ends[s.Object]
	return version != Absent && !(ended && end < o.End)
}

// mayComeLate reports whether what was seen may have been written after what was sent
// later: nobody knows the outcome of that write, and nothing but its arrival orders it.
// A post has versions for that.
func (c *checker) mayComeLate(s Sight) bool {
	w := c.writes[s]
	return w != nil && w.Result == Unknown && kindOf(s.Object) == "name"
}

// missing returns as absent what an operation's list had room for and does not show.
func (c *checker) missing(o *Op) []Sight {
	if o.List == nil {
		return nil
	}
	seen := map[Object]bool{}
	for _, s := range o.Saw {
		seen[s.Object] = true
	}
	var absent []Sight
	for _, w := range c.children[o.List.Parent] {
		if object := w.Wrote.Object; !seen[object] && numberOf(object) >= o.List.From {
			absent = append(absent, Sight{Object: object, Version: Absent})
		}
	}
	return absent
}

func numberOf(object Object) int64 {
	_, digits, _ := strings.Cut(string(object), "/")
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

// checkCount holds a number of comments against how many there are at least: those
// that had to be seen, but for those that may have been deleted.
func (c *checker) checkCount(o *Op, parent Object, count int) {
	least := 0
	var last *Op
	for _, w := range c.children[parent] {
		if end, ended := c.ends[w.Wrote.Object]; ended && end < o.End {
			continue
		}
		if c.needed(o, w.Wrote.Object) != nil {
			least++
			last = w
		}
	}
	if count < least {
		c.report(c.ruleOf(o, parent), fmt.Sprintf("it counts %d comments on %s, and there are at least %d", count, parent, least), o, last)
	}
}

// checkValues looks for values that nobody has saved.
func (c *checker) checkValues(o *Op) {
	for _, s := range o.Saw {
		if s.Value == "" {
			continue
		}
		if w := c.refused[s.Value]; w != nil {
			c.report(NeverSaved, fmt.Sprintf("it shows %s, which was refused", s), o, w)
		}
		if value, known := c.values[state{s.Object, s.Version}]; known && value != s.Value {
			c.report(NeverSaved, fmt.Sprintf("it shows %s, which was saved as %q", s, value), o, c.acks[s.Object].before(o.End))
		}
		if kindOf(s.Object) != "comment" {
			continue
		}
		if other, known := c.comments[s.Value]; known && other.Object != s.Object {
			c.report(OnceOnly, fmt.Sprintf("%s and %s are the same comment", s.Object, other), o)
		}
		c.comments[s.Value] = s
	}
}

// mayLeave are the reasons for which a page may leave its replica for the primary.
var mayLeave = []dbroute.Reason{
	dbroute.ReplicaFailed, dbroute.AfterWrite, dbroute.Written, dbroute.InTransaction, dbroute.PrimaryAskedFor,
}

// checkPage holds a page to one server. What the page reads later must not be older.
func (c *checker) checkPage(o *Op) {
	for i := 1; i < len(o.Servers); i++ {
		from, to := o.Servers[i-1], o.Servers[i]
		if from.ID != to.ID && (!from.Replica || to.Replica || !slices.Contains(mayLeave, to.Reason)) {
			c.report(OneState, fmt.Sprintf("it was read from server %d and then from server %d", from.ID, to.ID), o)
			return
		}
	}
	seen := map[Object]Sight{}
	for _, s := range o.Saw {
		before := seen[s.Object]
		if c.older(o, s, before.Version) && !c.mayComeLate(s) {
			c.report(OneState, fmt.Sprintf("it shows %s and then %s", before, s), o)
		}
		seen[s.Object] = s
	}
}

// aftermath is how long after a fault was mended a request may still fail: the
// processes have to notice, and a queue of requests has to be worked off.
const aftermath = 5 * time.Second

// checkAnswer looks for answers that came too late, and failures without a cause.
func (c *checker) checkAnswer(o *Op) {
	if took, bound := o.End-o.Start, c.bound(o); took > bound {
		c.report(Bounded, fmt.Sprintf("it took %.1fs, more than %v", took.Seconds(), bound), o)
	}
	failed := o.Status >= 500 || o.Status == 0
	switch {
	case o.Cut || !failed:
	case o.Status == 500:
		c.report(Answered, "no request may end in a 500", o)
	case !c.excused(o):
		c.report(Answered, "it failed, and nothing that it needs was faulty", o)
	}
}

// excused reports whether a request may have failed for a fault: one that was not
// answered for that of a process, and one that needs the primary for that of the
// primary. Without a replica every page can be served, and without the queue every
// write.
func (c *checker) excused(o *Op) bool {
	if o.Status == 0 && c.faulty(o, "process") {
		return true
	}
	// A process that has just started, and a replica that has just come back, need the
	// primary to know that the replica may be read.
	replicaServes := o.Session.Kind == visitor && !c.Monotonic && !c.faulty(o, "replica") && !c.faulty(o, "process")
	return c.faulty(o, "primary") && !replicaServes
}

// faulty reports whether a target of that kind was faulty while a request was under
// way, or shortly before.
func (h *History) faulty(o *Op, target string) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool {
		return strings.HasPrefix(f.Target, target) && f.At <= o.End && o.Start <= f.Until+aftermath
	})
}

// checkMonotonic holds each marked session to what it has seen already.
func (c *checker) checkMonotonic() {
	if !c.Monotonic {
		return
	}
	type past struct {
		newest map[Object]*Op
		sights map[Object]Sight
	}
	sessions := map[int]*past{}
	for i := range c.Ops {
		o := &c.Ops[i]
		if !o.Session.Marked || o.Consistency == "eventual" {
			continue
		}
		p := sessions[o.Session.ID]
		if p == nil {
			p = &past{map[Object]*Op{}, map[Object]Sight{}}
			sessions[o.Session.ID] = p
		}
		for _, s := range slices.Concat(o.Saw, c.missing(o)) {
			if kindOf(s.Object) == "count" {
				continue
			}
			before, known := p.sights[s.Object]
			switch {
			case known && c.older(o, s, before.Version):
				if !c.mayComeLate(s) {
					c.report(Monotonic, fmt.Sprintf("it shows %s after %s", s, before), o, p.newest[s.Object])
				}
			case s.Version != Absent:
				p.sights[s.Object], p.newest[s.Object] = s, o
			}
		}
	}
}

// checkLimits counts what each has got of each allowance in every stretch of time.
func (c *checker) checkLimits() {
	got := map[Hit][]*Op{}
	for i := range c.Ops {
		o := &c.Ops[i]
		for _, hit := range o.Hits {
			got[hit] = append(got[hit], o)
		}
		if o.Result == OK && o.As != 0 && isLimited(o.Wrote.Object) {
			hit := Hit{WritesBy, strconv.FormatInt(o.As, 10)}
			got[hit] = append(got[hit], o)
		}
	}
	for hit, ops := range got {
		slices.SortFunc(ops, func(a, b *Op) int { return cmp.Compare(a.Start, b.Start) })
		c.checkLimit(hit, ops)
	}
}

func isLimited(object Object) bool {
	kind := kindOf(object)
	return kind == "post" || kind == "comment" || kind == "name"
}

func kindOf(object Object) string {
	kind, _, _ := strings.Cut(string(object), "/")
	return kind
}

func (c *checker) checkLimit(hit Hit, ops []*Op) {
	limit := c.Limits[hit.Of]
	if limit.Hits == 0 {
		return
	}
	interval := limit.Per / time.Duration(limit.Hits)
	for i, first := range ops {
		var end time.Duration
		for j, last := range ops[i:] {
			end = max(end, last.End)
			// One more may have come back at the very beginning.
			if allowed := limit.Hits + 1 + int((end-first.Start)/interval); j+1 > allowed {
				c.report(Limited, fmt.Sprintf("%s %s: %d in %v, and %d are allowed", hit.Of, hit.By, j+1, end-first.Start, allowed), last, first)
				return
			}
		}
	}
}

func (c *checker) report(rule Rule, text string, o *Op, before ...*Op) {
	v := Violation{Rule: rule, Text: text, Ops: []*Op{o}}
	from := o.Start
	for _, b := range before {
		if b != nil {
			v.Ops = append(v.Ops, b)
			from = min(from, b.Start)
		}
	}
	for _, f := range c.Faults {
		if f.At <= o.End && from <= f.Until+aftermath {
			v.Faults = append(v.Faults, f)
		}
	}
	c.found = append(c.found, v)
}
