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
