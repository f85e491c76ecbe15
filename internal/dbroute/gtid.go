package dbroute

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// gtidSet is a set of MySQL's transaction identifiers: for each source, which is
// "uuid" or "uuid:tag", the numbers of its transactions.
type gtidSet map[string][]interval

// interval is the numbers from first to last, both of which it has.
type interval struct{ first, last int64 }

// parseGTIDSet reads a set as MySQL prints it: "uuid:1-5:7,uuid:1:tag:2-3". It
// also reads what people and older servers write: spaces and line breaks around
// commas and colons, letters of either case, intervals in any order.
func parseGTIDSet(text string) (gtidSet, error) {
	set := gtidSet{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.ToLower(strings.TrimSpace(part)); part == "" {
			continue
		}
		uuid, rest, _ := strings.Cut(part, ":")
		uuid = strings.TrimSpace(uuid)
		if !isUUID(uuid) || rest == "" {
			return nil, ErrMalformed
		}
		source, empty := uuid, false
		for piece := range strings.SplitSeq(rest, ":") {
			piece = strings.TrimSpace(piece)
			if isTag(piece) && !empty {
				source, empty = uuid+":"+piece, true
				continue
			}
			i, err := parseInterval(piece)
			if err != nil {
				return nil, err
			}
			set[source], empty = append(set[source], i), false
		}
		if empty {
			return nil, ErrMalformed
		}
	}
	for source, list := range set {
		set[source] = canonical(list)
	}
	return set, nil
}

func parseInterval(text string) (interval, error) {
	from, to, isRange := strings.Cut(text, "-")
	first, err := parseNumber(strings.TrimSpace(from))
	last := first
	if isRange && err == nil {
		last, err = parseNumber(strings.TrimSpace(to))
	}
	if err != nil || first < 1 || last < first || last == math.MaxInt64 {
		return interval{}, ErrMalformed
	}
	return interval{first, last}, nil
}

// parseNumber accepts digits only.
func parseNumber(text string) (int64, error) {
	if strings.HasPrefix(text, "+") {
		return 0, ErrMalformed
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, ErrMalformed
	}
	return n, nil
}

func isUUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i, c := range []byte(text) {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case !('0' <= c && c <= '9' || 'a' <= c && c <= 'f'):
			return false
		}
	}
	return true
}

// isTag accepts what MySQL 8.3 and later call a tag.
func isTag(text string) bool {
	if text == "" || len(text) > 32 || '0' <= text[0] && text[0] <= '9' {
		return false
	}
	for _, c := range []byte(text) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_') {
			return false
		}
	}
	return true
}

// canonical sorts intervals and joins those that touch.
func canonical(list []interval) []interval {
	slices.SortFunc(list, func(a, b interval) int { return cmp.Compare(a.first, b.first) })
	joined := list[:0]
	for _, i := range list {
		if n := len(joined); n > 0 && i.first <= joined[n-1].last+1 {
			joined[n-1].last = max(joined[n-1].last, i.last)
			continue
		}
		joined = append(joined, i)
	}
	return joined
}

// String is one text for one set, which MySQL accepts: sorted, without spaces,
// each source by itself.
func (s gtidSet) String() string {
	var b strings.Builder
	for _, source := range slices.Sorted(maps.Keys(s)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(source)
		for _, i := range s[source] {
			b.WriteByte(':')
			b.WriteString(strconv.FormatInt(i.first, 10))
			if i.last > i.first {
				b.WriteByte('-')
				b.WriteString(strconv.FormatInt(i.last, 10))
			}
		}
	}
	return b.String()
}

func (s gtidSet) isEmpty() bool { return len(s) == 0 }

// add makes s the union of both.
func (s gtidSet) add(other gtidSet) {
	for source, list := range other {
		s[source] = canonical(append(slices.Clone(s[source]), list...))
	}
}

// of returns what a server has written itself, tagged or not.
func (s gtidSet) of(uuid string) gtidSet {
	own := maps.Clone(s)
	maps.DeleteFunc(own, func(source string, _ []interval) bool {
		return source != uuid && !strings.HasPrefix(source, uuid+":")
	})
	return own
}

// covers reports whether all of b is in s.
func (s gtidSet) covers(b gtidSet) bool {
	for source, list := range b {
		have := s[source]
		for _, want := range list {
			i := slices.IndexFunc(have, func(h interval) bool { return h.last >= want.last })
			if i < 0 || have[i].first > want.first {
				return false
			}
		}
	}
	return true
}

// missing counts what is in s and not in b.
func (s gtidSet) missing(b gtidSet) int64 {
	var n int64
	for source, list := range s {
		for _, want := range list {
			n += want.last - want.first + 1
			for _, have := range b[source] {
				n -= max(0, min(want.last, have.last)-max(want.first, have.first)+1)
			}
		}
	}
	return n
}

// gtidPosition is a position of MariaDB: for each domain the last transaction.
type gtidPosition map[uint32]gtidOfDomain

type gtidOfDomain struct {
	server   uint32
	sequence uint64
}

// parseGTIDPosition reads "0-1-7,1-2-9", a domain at most once.
func parseGTIDPosition(text string) (gtidPosition, error) {
	position := gtidPosition{}
	if text == "" {
		return position, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		fields := strings.Split(strings.TrimSpace(part), "-")
		if len(fields) != 3 {
			return nil, ErrMalformed
		}
		domain, err1 := strconv.ParseUint(fields[0], 10, 32)
		server, err2 := strconv.ParseUint(fields[1], 10, 32)
		sequence, err3 := strconv.ParseUint(fields[2], 10, 64)
		if _, twice := position[uint32(domain)]; err1 != nil || err2 != nil || err3 != nil || twice {
			return nil, ErrMalformed
		}
		position[uint32(domain)] = gtidOfDomain{uint32(server), sequence}
	}
	return position, nil
}

func (p gtidPosition) isEmpty() bool { return len(p) == 0 }

func (p gtidPosition) String() string {
	var parts []string
	for _, domain := range slices.Sorted(maps.Keys(p)) {
		at := p[domain]
		parts = append(parts, strconv.FormatUint(uint64(domain), 10)+"-"+
			strconv.FormatUint(uint64(at.server), 10)+"-"+strconv.FormatUint(at.sequence, 10))
	}
	return strings.Join(parts, ",")
}

// add takes p on to the later of both in each domain: within one, the sequence
// alone orders the transactions of all servers.
func (p gtidPosition) add(other gtidPosition) {
	for domain, at := range other {
		if at.sequence > p[domain].sequence {
			p[domain] = at
		}
	}
}

func (p gtidPosition) covers(b gtidPosition) bool {
	for domain, want := range b {
		if have, ok := p[domain]; !ok || have.sequence < want.sequence {
			return false
		}
	}
	return true
}

// missing counts the transactions of s that b has not come to.
func (p gtidPosition) missing(b gtidPosition) int64 {
	var n int64
	for domain, at := range p {
		if behind := int64(at.sequence) - int64(b[domain].sequence); behind > 0 {
			n += behind
		}
	}
	return n
}
