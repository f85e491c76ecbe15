package dbroute

import "strings"

// gtidValue is a set or a position of GTIDs.
type gtidValue[P any] interface {
	add(P)           // makes it cover the other too
	covers(P) bool   // whether who has reached it has reached the other
	missing(P) int64 // how many transactions it has and the other has not
	isEmpty() bool   // as on a fresh server: there is nothing to wait for
	String() string  // one text for one value, as the server reads it
}

// gtidIDs makes commit IDs of GTIDs: the engine's name, a colon, and the text of
// the server with a plus sign for each comma.
type gtidIDs[P gtidValue[P]] struct {
	engine Engine
	read   func(text string) (P, error)
}

func (g gtidIDs[P]) name() Engine { return g.engine }

func (gtidIDs[P]) unit() string { return "transactions" }

func (g gtidIDs[P]) commitID(value P) CommitID {
	if value.isEmpty() {
		return CommitID{}
	}
	return CommitID{string(g.engine) + ":" + strings.ReplaceAll(value.String(), ",", "+")}
}

// serverText is a commit ID as the server reads it.
func (g gtidIDs[P]) serverText(id CommitID) string {
	return strings.ReplaceAll(strings.TrimPrefix(id.text, string(g.engine)+":"), "+", ",")
}

// value takes apart what commitID put together.
func (g gtidIDs[P]) value(id CommitID) (P, error) {
	if id.IsZero() {
		return g.read("")
	}
	if rest, ok := strings.CutPrefix(id.text, string(g.engine)+":"); !ok || strings.Contains(rest, ",") {
		var none P
		return none, ErrMalformed
	}
	return g.read(g.serverText(id))
}

func (g gtidIDs[P]) both(a, b CommitID) (va, vb P, err error) {
	if va, err = g.value(a); err == nil {
		vb, err = g.value(b)
	}
	return va, vb, err
}

func (g gtidIDs[P]) parse(text string) (CommitID, error) {
	value, err := g.value(CommitID{text})
	if err != nil || value.isEmpty() {
		return CommitID{}, ErrMalformed
	}
	// One value has one text, so that equal commit IDs compare as equal.
	if id := g.commitID(value); id.text == text {
		return id, nil
	}
	return CommitID{}, ErrMalformed
}

func (g gtidIDs[P]) merge(a, b CommitID) (CommitID, error) {
	va, vb, err := g.both(a, b)
	if err != nil {
		return CommitID{}, ErrMalformed
	}
	va.add(vb)
	return g.commitID(va), nil
}

func (g gtidIDs[P]) covers(a, b CommitID) bool { return g.parsed(a).covers(b) }

func (g gtidIDs[P]) parsed(id CommitID) parsedID {
	value, err := g.value(id)
	return parsedGTIDs[P]{g, value, err == nil}
}

// parsedGTIDs is a commit ID of GTIDs, taken apart.
type parsedGTIDs[P gtidValue[P]] struct {
	gtidIDs[P]
	value P
	ok    bool
}

func (p parsedGTIDs[P]) covers(id CommitID) bool {
	other, err := p.gtidIDs.value(id)
	return err == nil && p.ok && p.value.covers(other)
}

func (p parsedGTIDs[P]) isPast(other parsedID) bool {
	o, ok := other.(parsedGTIDs[P])
	return ok && p.ok && o.ok && p.value.covers(o.value)
}

func (g gtidIDs[P]) distance(a, b CommitID) int64 {
	va, vb, err := g.both(a, b)
	if err != nil {
		return 0
	}
	return va.missing(vb)
}
