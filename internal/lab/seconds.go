package lab

import (
	"time"

	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/web"
)

var wholeSeconds = Experiment{
	Name:     "whole-seconds",
	Question: "Reads stay on the primary for two seconds after a write. How long is that, if times are kept in whole seconds?",
	Subject:  title,
	Paused:   true, // a lag might be shorter than the window
	Broken: Side{
		Label: "times in whole seconds: the window of a save at half past a second ends half a second early",
		Setup: func(cfg *site.Config, _ Times) {
			n := &naive{cluster: cfg.Cluster, window: secondsWindow, wholeSeconds: true}
			cfg.Strategy = site.None
			cfg.Router = n
			cfg.BeforeLoad = []web.Middleware{n.remember(), n.applyMarker()}
		},
	},
	Fixed: Side{
		Label: "times in milliseconds",
		Setup: func(cfg *site.Config, _ Times) { cfg.Strategy, cfg.Window = site.Window, secondsWindow },
	},
	Cure: Cure{"internal/dbroute/marker.go", "writtenAt"},
	Steps: []Step{
		{Do: AwaitClock},
		{Do: Comment, Until: 900 * time.Millisecond},
		{Do: AwaitClock, At: 1200 * time.Millisecond},
		{Do: Visit, Until: 1450 * time.Millisecond, Broken: oldOnPrimary, Fixed: oldWithinWindow},
		{Do: AwaitClock, At: 1500 * time.Millisecond},
		{Do: Save, Until: 1950 * time.Millisecond},
		{Do: AwaitClock, At: 2700 * time.Millisecond},
		{Do: Visit, Until: 2950 * time.Millisecond, Broken: sharedOnPrimary, Fixed: withinWindow},
		{Do: AwaitClock, At: 3020 * time.Millisecond},
		{Do: Visit, Until: 3450 * time.Millisecond, Broken: oldFromReplica, Fixed: withinWindow},
	},
}

const secondsWindow = 2 * time.Second

var (
	oldOnPrimary    = Want{Shows: Old, Role: dbroute.Primary, Reason: dbroute.PrimaryAskedFor}
	oldWithinWindow = Want{Shows: Old, Role: dbroute.Primary, Reason: dbroute.WithinWindow}
)
