package sim

import (
	"math/rand/v2"
	"time"
)

// illnessesDrawn are what nodes come down with: some is rebooted, some replaced, some heals before it is due.
var illnessesDrawn = []string{
	"sick AcceleratedHardwareReady NvidiaXID48Error", "sick AcceleratedHardwareReady NvidiaXID48Error", "sick AcceleratedHardwareReady NvidiaXID158Error",
	"sick AcceleratedHardwareReady NvidiaXID63Error 9", "sick AcceleratedHardwareReady NvidiaXID63Error 13", "sick AcceleratedHardwareReady NvidiaXID79Error",
	"sick StorageReady DiskBroken", "sick Ready NodeStatusUnknown", "sick Ready NodeStatusUnknown 12", "sick Ready KubeletNotReady",
}

// sickFaults are what goes wrong with repairs, besides chaosFaults.
var sickFaults = []string{
	"fault drop ec2:RebootInstances 50%", "fault error ec2:RebootInstances 60% code=RequestLimitExceeded status=503", "fault error ec2:RebootInstances 30% code=InternalError status=500",
}

// sickDeeds are what happens at the worst moments of a repair.
var sickDeeds = []string{
	"crash", "crash-at %d before", "crash-at %d after", "kill", "delete nodeclaim", "delete node", "protect", "taint", "drift", "watch hold Node 4m", "watch hold NodeClaim 4m", "watch hold Pod 4m",
	"when before aws/RebootInstances crash", "when after aws/RebootInstances crash", "when after aws/RebootInstances crash", "when after patch/NodeClaim/status crash",
	"when before aws/RebootInstances protect", "when before aws/RebootInstances delete nodeclaim", "when after aws/RebootInstances delete nodeclaim",
	"when after aws/RebootInstances delete node", "when after aws/RebootInstances kill", "when after patch/Node crash", "when after create/Pod/eviction crash", "pause 25s",
}

// Lengths of a drawn plan of repairs: nodes come down with something and much goes wrong, and then it can be seen whether all comes right.
const (
	sickLength = 50 * time.Minute
	wellLength = 130 * time.Minute
)

// Sick is the plan of a seed in which nodes come down with what is to be repaired, in some while AWS, watches and the controller itself
// fail.
func Sick(seed uint64) *Plan {
	r := rand.New(rand.NewPCG(seed, 8))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	p := &Plan{Seed: seed}
	p.add(0, "repair")
	if r.IntN(4) == 0 {
		p.add(0, "replicas 2")
	}
	for _, pool := range []string{pick("pool first cpu=64", "pool first cpu=160", "pool first nodes=5", ""), "pool last"} {
		if pool != "" {
			p.add(0, "%s", pool+pick("", " budget=1", " budget=2", " budget=5")+pick("", " after=30s", " after=10m")+pick("", "", " grace=2m", " grace=20m"))
		}
	}
	p.add(0, "app large %d 12 24Gi%s%s", 6+r.IntN(20), pick("", " pdb=1", " pdb=3"), pick("", "", " protected=2")) // one on each node
	p.add(0, "app small %d 500m 1Gi%s%s", 6+r.IntN(20), pick("", " pdb=1", " pdb=0"), pick("", " protected=1"))
	if r.IntN(3) == 0 {
		p.add(0, "foreign")
	}
	start := time.Duration(4+r.IntN(4)) * time.Minute
	moment := func() time.Duration { return start + time.Duration(r.Int64N(int64(sickLength))) }
	for range 2 + r.IntN(4) {
		p.add(moment()/2+start, "%s", pick(illnessesDrawn...))
	}
	if r.IntN(4) == 0 { // more than a fifth at once
		at := moment() / 2
		for range 4 + r.IntN(3) {
			p.add(start+at, "%s", pick("sick StorageReady DiskBroken", "sick Ready NodeStatusUnknown", "sick AcceleratedHardwareReady NvidiaXID48Error 35"))
		}
	}
	if r.IntN(4) > 0 {
		for _, faults := range [][]string{chaosFaults, sickFaults} {
			for _, f := range faults {
				if r.IntN(6) == 0 {
					p.add(start, "%s", f)
				}
			}
		}
		if r.IntN(3) == 0 {
			p.add(start, "lag %s", time.Duration(1+r.IntN(int(chaosLag/time.Second)))*time.Second)
		}
		for range 2 + r.IntN(8) {
			switch what := pick(sickDeeds...); what {
			case "crash-at %d before", "crash-at %d after":
				p.add(moment(), what, 1+r.IntN(20))
			default:
				p.add(moment(), "%s", what)
			}
		}
	}
	p.order()
	p.add(start+sickLength, "calm")
	p.add(start+sickLength+wellLength, "end")
	return p
}

// repairsDue is when the repairs of OneReboot begin; what the controller does before that has nothing to do with them.
const repairsDue = 33*time.Minute + 30*time.Second

// OneReboot is a plan in which one node is rebooted and another replaced, and the controller crashes at effects from then on, such as
// "17 before" or "3 after".
func OneReboot(seed uint64, crashes ...string) *Plan {
	p := &Plan{Seed: seed}
	p.add(0, "repair")
	p.add(0, "pool default budget=2 after=30s")
	p.add(0, "app large 6 12 24Gi pdb=2")
	p.add(0, "app small 6 500m 1Gi pdb=1")
	p.add(4*time.Minute, "sick StorageReady DiskBroken")
	p.add(24*time.Minute, "sick AcceleratedHardwareReady NvidiaXID48Error")
	p.add(repairsDue, "lag 1s")
	for _, c := range crashes {
		p.add(repairsDue, "crash-at %s", c)
	}
	p.add(50*time.Minute, "calm")
	p.add(86*time.Minute, "end")
	return p
}
