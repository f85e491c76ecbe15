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
		{Do: Comment, AtOnce: true, Until: 900 * time.Millisecond},
		{Do: AwaitClock, At: 1000 * time.Millisecond},
		{Do: Visit, AtOnce: true, Until: 1480 * time.Millisecond, Broken: oldOnPrimary, Fixed: oldWithinWindow},
		{Do: AwaitClock, At: 1500 * time.Millisecond},
		{Do: Save, AtOnce: true, Until: 1980 * time.Millisecond},
		{Do: AwaitClock, At: 2300 * time.Millisecond},
		{Do: Visit, AtOnce: true, Until: 2980 * time.Millisecond, Broken: sharedOnPrimary, Fixed: withinWindow},
		{Do: AwaitClock, At: 3010 * time.Millisecond},
		{Do: Visit, AtOnce: true, Until: 3480 * time.Millisecond, Broken: oldFromReplica, Fixed: withinWindow},
	},
}

const secondsWindow = 2 * time.Second

var (
	oldOnPrimary    = Want{Shows: Old, Role: dbroute.Primary, Reason: dbroute.PrimaryAskedFor}
	oldWithinWindow = Want{Shows: Old, Role: dbroute.Primary, Reason: dbroute.WithinWindow}
)
