package stale

// Tally counts what sessions read of their own.
type Tally struct {
	Reads   int
	Primary int // read on the primary
	Stale   int // older than what the session had written
	Needed  int // could only be had from the primary: the replica did not have it yet
}

// seen is what a read showed, and where.
type seen struct {
	value   int64
	primary bool
}

// note counts a read by a session whose last write was of want. had is whether the
// replica had that write before the read began. If it had not and the read was fresh
// nevertheless, on the replica, it came in between, and the primary was not needed.
func (t *Tally) note(want int64, had bool, got seen) {
	fresh := got.value >= want
	t.Reads++
	if got.primary {
		t.Primary++
	}
	if !fresh {
		t.Stale++
	}
	if !had && (got.primary || !fresh) {
		t.Needed++
	}
}

func (t *Tally) add(other Tally) {
	t.Reads += other.Reads
	t.Primary += other.Primary
	t.Stale += other.Stale
	t.Needed += other.Needed
}

// beyond is by how much more than needed the primary was read, as a part of that. It is
// negative if reads were stale instead.
func (t *Tally) beyond() float64 {
	if t.Needed == 0 {
		return float64(t.Primary)
	}
	return float64(t.Primary-t.Needed) / float64(t.Needed)
}

func (t *Tally) part(n int) float64 {
	if t.Reads == 0 {
		return 0
	}
	return float64(n) / float64(t.Reads)
}
