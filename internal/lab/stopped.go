package lab

import "freshread/internal/site"

var stopped = Experiment{
	Name:     "stopped",
	Question: "Replication has stopped, and nobody has noticed yet. You save. What do you see, and what do others?",
	Subject:  title,
	Paused:   true,
	Broken: Side{
		Label: "a window, which ends",
		Setup: func(cfg *site.Config, t Times) { cfg.Strategy, cfg.Window = site.Window, t.ShortWindow },
	},
	Fixed: Side{
		Label: "your commit ID: you read the primary for as long as it takes, and nobody else does",
		Setup: byCommitID.Setup,
	},
	Cure: Cure{"internal/dbroute/strategy.go", "choose"},
	Steps: []Step{
		{Do: Save},
		{Do: Visit, Broken: withinWindow, Fixed: untilApplied},
		{Do: Visit, By: Other, Broken: oldAfterWindow, Fixed: oldNothingDue},
		{Do: AwaitShortWindow},
		{Do: Visit, Broken: oldAfterWindow, Fixed: untilApplied},
		{Do: Visit, By: Other, Broken: oldAfterWindow, Fixed: oldNothingDue},
		{Do: Visit, Broken: oldAfterWindow, Fixed: untilApplied},
		{Do: AwaitApplied},
		{Do: Visit, Broken: newAfterWindow, Fixed: onceApplied},
	},
}
