package dbroute_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/stack"
	"freshread/internal/stack/stacktest"
)

// Servers that nobody has prepared issue no commit IDs. Check names each thing
// that they lack, and the window works without.
func TestServersWithoutCommitIDs(t *testing.T) {
	for engine, c := range map[string]struct {
		settings map[string]string
		want     []string
	}{
		"mysql": {
			map[string]string{"skip-log-bin": "", "gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"},
			[]string{
				"primary: log_bin is OFF: start the server with log_bin",
				"primary: gtid_mode is OFF: set gtid_mode=ON",
				"primary: enforce_gtid_consistency is OFF: set enforce_gtid_consistency=ON",
			},
		},
		"mariadb": {
			map[string]string{"skip-log-bin": ""},
			[]string{"primary: log_bin is OFF: start the server with log_bin"},
		},
	} {
		t.Run(engine, func(t *testing.T) {
			stacktest.Only(t, engine)
			ctx := stacktest.Context(t)
			servers, err := stack.Start(ctx, stack.Options{Engine: engine, Settings: c.settings})
			stacktest.Must(t, err)
			t.Cleanup(func() { stacktest.Must(t, servers.Close()) })
			e := newEnvOn(t, engine, servers)
			err = e.Check(ctx)
			var lacks *dbroute.CapabilityError
			if !errors.As(err, &lacks) || !slices.Equal(lacks.Missing, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestWithoutCommitIDsTheWindowWorks(t *testing.T) {
	stacktest.Each(t, func(t *testing.T, engine string) {
		e := newEnv(t, engine)
		e.watched(func(cfg *dbroute.Config) { cfg.NoCommitIDs = "nobody has prepared the servers" })
		stacktest.Must(t, e.Check(stacktest.Context(t)))
		e.wantEventually(dbroute.Marker{}, seen{"old", 2, dbroute.NoPendingCommit})
		e.pause()
		ctx, scope := e.NewScope(stacktest.Context(t))
		scope.RouteByWindow(dbroute.Marker{}, time.Hour)
		e.want(ctx, "old", 2, dbroute.NoRecentWrite)
		e.write(ctx, "new")
		e.want(ctx, "new", 1, dbroute.AfterWrite)
		marker := scope.Outcome().Marker
		if marker.Unknown || !marker.Commit.IsZero() || marker.Written.IsZero() {
			t.Fatalf("marker is %+v", marker)
		}
		ctx, scope = e.NewScope(stacktest.Context(t))
		scope.RouteByWindow(marker, time.Hour)
		e.want(ctx, "new", 1, dbroute.WithinWindow)

		// A strategy that needs commit IDs must not be stale for want of them.
		ctx, scope = e.request(marker)
		e.want(ctx, "new", 1, dbroute.UnknownMarker)
		if scope.Outcome().Settled {
			t.Error("the marker is not needed any longer")
		}
		ctx, _ = e.request(dbroute.Marker{})
		e.want(ctx, "old", 2, dbroute.NoPendingCommit)
		if _, err := e.LastCommitID(ctx); !errors.Is(err, dbroute.ErrNoCommitID) {
			t.Errorf("the last commit ID: %v", err)
		}

		// Nor by the time that there are some, since the servers have been prepared.
		prepared := e.on(openCluster(t, e.config))
		ctx, scope = prepared.request(marker)
		prepared.want(ctx, "new", 1, dbroute.UnknownMarker)
		if healed := scope.Outcome().Marker; healed.Unknown || healed.Commit.IsZero() {
			t.Errorf("the marker is healed to be %+v", healed)
		}
		ctx, _ = prepared.request(prepared.MergeMarkers(prepared.markerOf("new"), marker))
		prepared.want(ctx, "new", 1, dbroute.UnknownMarker)
	})
}
