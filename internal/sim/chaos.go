package sim

import (
	"fmt"
	"time"

	"karpenter/internal/cloud/simaws"
)

// chaosLag is how late watches are at most while things go wrong.
const chaosLag = 90 * time.Second

// faults are what goes wrong with AWS, each with some share of the calls.
var faults = []simaws.Fault{
	{Kind: simaws.FaultDrop, Action: "ec2:CreateFleet", Percent: 20},
	{Kind: simaws.FaultDrop, Action: "ec2:TerminateInstances", Percent: 20},
	{Kind: simaws.FaultBare, Action: "ec2:CreateFleet", Percent: 30},
	{Kind: simaws.FaultError, Action: "ec2:*", Code: "RequestLimitExceeded", Status: 503, Percent: 15},
	{Kind: simaws.FaultError, Action: "ec2:CreateFleet", Code: "InternalError", Status: 500, Percent: 15},
	{Kind: simaws.FaultStale, Action: "ec2:DescribeInstances", Delay: simaws.Duration(time.Minute), Percent: 30},
	{Kind: simaws.FaultUntagged, Action: "ec2:DescribeInstances", Delay: simaws.Duration(30 * time.Second), Percent: 30},
	{Kind: simaws.FaultEmpty, Action: "ec2:DescribeInstances", Percent: 5},
}

// Chaos lets things go wrong for so long: some of the faults that there are, watches that are late, workloads that change, and crashes.
// Afterwards nothing goes wrong any more.
func (w *World) Chaos(d time.Duration) error {
	for _, f := range faults {
		if w.draw.IntN(2) == 0 {
			continue
		}
		if err := w.aws.AddFault(f); err != nil {
			return fmt.Errorf("faults: %w", err)
		}
	}
	if w.draw.IntN(2) == 0 {
		w.lag = chaosLag
	}
	for end := w.loop.now.Add(d); w.loop.now.Before(end); {
		if err := w.Run(time.Duration(w.draw.Int64N(int64(d / 5)))); err != nil {
			return err
		}
		switch w.draw.IntN(3) {
		case 0:
			w.Crash()
		case 1:
			w.crashAt, w.crashAfter = w.effects+1+w.draw.IntN(20), w.draw.IntN(2) == 0
		default:
			a := w.apps[w.draw.IntN(len(w.apps))]
			w.Scale(a.name, w.draw.IntN(2*a.replicas+2))
		}
	}
	w.aws.ClearFaults()
	w.lag = lagMost
	return nil
}
