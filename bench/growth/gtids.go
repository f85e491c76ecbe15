package growth

import (
	"context"
	"fmt"
	"strings"

	"freshread/bench/measure"
	"freshread/bench/report"
	"freshread/internal/dbroute"
)

// gtids measures sets that have grown with the years: each server that was once a primary,
// and each that was restored, has left its UUID in the set of all.
func gtids(ctx context.Context, o measure.Options, s *report.Section) error {
	steps := []int{1, 10, 50}
	with := func(name string, inMarker func(all int) int) (curve, error) {
		return compare(ctx, o, name, steps, func(n int) (repeat, error) {
			cluster, err := open(ctx, dbroute.MySQL, 1, set(n, 1_000_000, ","))
			if err != nil {
				return nil, err
			}
			m, err := markerOf(cluster, "mysql:"+set(inMarker(n), 999_000, "+"))
			return requests(cluster.Cluster, []dbroute.Marker{m}), err
		})
	}
	own, err := with("marker of the primary's own", func(int) int { return 1 })
	if err != nil {
		return err
	}
	all, err := with("marker of all, as in a group", func(n int) int { return n })
	if err != nil {
		return err
	}
	draw(s, "growth-gtids.svg", "UUIDs in the servers' GTID set", steps, own, all)
	wantFlat(s, "a request costs the same with 50 UUIDs in the servers' sets as with 1", own)
	s.Notes = append(s.Notes, "**What grows with GTID sets:** the marker, where the servers are a group that several have written to. Elsewhere it has the primary's own UUID and no other.")
	return nil
}

// set is a set of GTIDs of so many servers.
func set(uuids int, last int64, separator string) string {
	parts := make([]string, uuids)
	for i := range parts {
		parts[i] = fmt.Sprintf("3e11fa47-71ca-11e1-9e33-c80aa94295%02x:1-%d", i, last)
	}
	return strings.Join(parts, separator)
}
