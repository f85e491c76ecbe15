package lab

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/auth"
	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/web"
)

var lastSeen = Experiment{
	Name:     "last-seen",
	Question: "Each page that you open notes when you were last seen. You only read, for longer than the replica is behind. Who serves you?",
	Subject:  title,
	Broken: Side{
		Label: "noted by a write like any other, which the next page has to see",
		Setup: func(cfg *site.Config, _ Times) { cfg.AfterLoad = []web.Middleware{noteSeen(cfg.Cluster.Write)} },
	},
	Fixed: Side{
		Label: "noted by a touch, a write that leaves no marker",
		Setup: func(cfg *site.Config, _ Times) { cfg.AfterLoad = []web.Middleware{noteSeen(cfg.Cluster.Touch)} },
	},
	Cure:  Cure{"internal/dbroute/write.go", "Touch"},
	Steps: seenSteps(),
}

// seenSteps are visits for longer than the lag, and one after a rest.
func seenSteps() (steps []Step) {
	first := Step{Do: Visit, Broken: seenOnReplica, Fixed: beforeTheSave}
	steps = append(steps, first)
	for range 7 {
		steps = append(steps, Step{Do: AwaitPace}, Step{Do: Visit, Broken: seenOnPrimary, Fixed: beforeTheSave})
	}
	return append(steps, Step{Do: AwaitApplied}, first)
}

var (
	// The post is loaded before it is noted, the comments are afterwards.
	seenOnReplica = Want{Shows: Old, Role: dbroute.Replica, Reason: dbroute.CommitReached, CommentsRole: dbroute.Primary}
	seenOnPrimary = Want{Shows: Old, Role: dbroute.Primary, Reason: dbroute.CommitNotReached}
)

type writeFunc func(ctx context.Context, name string, fn func(context.Context, *dbroute.Tx) error) error

// noteSeen notes on each page that its user was seen, by moving the end of the user's
// log-ins on.
func noteSeen(write writeFunc) web.Middleware {
	return web.Middleware{Name: "lab.noteSeen", Func: func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			ctx := c.Request().Context()
			err := write(ctx, "sessions.Seen", func(ctx context.Context, tx *dbroute.Tx) error {
				_, err := tx.ExecContext(ctx, `UPDATE sessions SET expires_at = ? WHERE user_id = ?`,
					time.Now().Add(24*time.Hour), auth.Current(ctx).ID)
				return err
			})
			if err != nil {
				return err
			}
			return next(c)
		}
	}}
}
