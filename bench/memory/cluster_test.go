package memory

import (
	"context"
	"testing"

	"freshread/internal/dbroute"
)

// The servers in memory know each query that dbroute asks.
func TestClustersSettleAndWrite(t *testing.T) {
	for _, engine := range []dbroute.Engine{dbroute.PostgreSQL, dbroute.MySQL} {
		t.Run(string(engine), func(t *testing.T) {
			c, err := Open(engine, 2, "")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, scope := c.NewScope(t.Context())
			if err := c.Write(ctx, "nothing", func(context.Context, *dbroute.Tx) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if o := scope.Outcome(); o.Marker.Unknown || o.Marker.Commit.IsZero() {
				t.Errorf("the outcome is %+v", o)
			}
		})
	}
}

// What is measured on the pool beside a cluster's reads is measured on theirs.
func TestReplicaPoolIsTheOneThatReadsUse(t *testing.T) {
	c, err := Open(dbroute.PostgreSQL, 1, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, scope := c.NewScope(t.Context())
	scope.RouteByCommit(ctx, dbroute.Marker{})
	err = c.Read(ctx, "pool", func(dbroute.Querier) error {
		if used := c.ReplicaPool().Stats().InUse; used != 1 {
			t.Errorf("%d connections of the pool are in use during a read", used)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
