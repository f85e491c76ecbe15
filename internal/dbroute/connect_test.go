package dbroute_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack/stacktest"
)

// A driver gives up connecting by a deadline of its own. That is no impatience of
// whoever reads or writes.
func TestServerThatCannotBeDialedIsGone(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)

		e.Cluster = openCluster(t, e.config)
		stacktest.Must(t, e.BlackHole(dbroute.Replica, e.config.Replicas[0]+e.dialing))
		ctx, _ := e.request(dbroute.Marker{})
		e.want(ctx, "old", 1, dbroute.ReplicaFailed)

		e.Cluster = openCluster(t, e.config)
		stacktest.Must(t, e.BlackHole(dbroute.Primary, e.config.Primary+e.dialing))
		nothing := func(context.Context, *dbroute.Tx) error { return nil }
		if err := e.Write(ctx, "w", nothing); !errors.Is(err, dbroute.ErrPrimaryUnavailable) {
			t.Errorf("write: %v", err)
		}
		err := e.Read(dbroute.UsePrimary(ctx), "r", func(dbroute.Querier) error { return nil })
		if !errors.Is(err, dbroute.ErrPrimaryUnavailable) {
			t.Errorf("read: %v", err)
		}

		impatient, leave := context.WithTimeout(ctx, 50*time.Millisecond)
		defer leave()
		if err := e.Write(impatient, "w", nothing); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, dbroute.ErrPrimaryUnavailable) {
			t.Errorf("write of who does not wait that long: %v", err)
		}
	})
}
