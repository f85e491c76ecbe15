package cache

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limit is how often something may be done: Hits at once, and then one more for
// each Hits-th part of Per.
type Limit struct {
	Hits int
	Per  time.Duration
}

// UnmarshalText reads "10/1m", for configuration.
func (l *Limit) UnmarshalText(text []byte) error {
	hits, per, _ := strings.Cut(string(text), "/")
	var err1, err2 error
	l.Hits, err1 = strconv.Atoi(hits)
	l.Per, err2 = time.ParseDuration(per)
	if err1 != nil || err2 != nil || l.check() != nil {
		return fmt.Errorf("%q: want hits and a time, as in 10/1m", text)
	}
	return nil
}

// String is what UnmarshalText reads.
func (l Limit) String() string {
	per := strings.Replace(l.Per.String(), "m0s", "m", 1)
	return fmt.Sprintf("%d/%s", l.Hits, strings.Replace(per, "h0m", "h", 1))
}

func (l Limit) check() error {
	if l.Hits < 1 || l.Hits > 1e6 || l.interval() < time.Microsecond {
		return fmt.Errorf("limit of %d hits per %v: want 1 hit to a million, at most one per microsecond", l.Hits, l.Per)
	}
	return nil
}

// interval is how long a hit takes to come back, and spare how much of others may
// be to come for one more to be allowed.
func (l Limit) interval() time.Duration {
	return (l.Per / time.Duration(l.Hits)).Truncate(time.Microsecond)
}

func (l Limit) spare() time.Duration { return l.interval() * time.Duration(l.Hits-1) }
