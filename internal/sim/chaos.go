package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// chaosLag is how late watches are at most while things go wrong.
const chaosLag = 90 * time.Second

// chaosFaults are what can go wrong with AWS and the API server.
var chaosFaults = []string{
	"fault drop ec2:CreateFleet 20%",
	"fault drop ec2:TerminateInstances 20%",
	"fault bare ec2:CreateFleet 30%",
	"fault error ec2:* 15% code=RequestLimitExceeded status=503",
	"fault error ec2:CreateFleet 15% code=InternalError status=500",
	"fault stale ec2:DescribeInstances 30% delay=1m",
	"fault untagged ec2:DescribeInstances 30% delay=30s",
	"fault empty ec2:DescribeInstances 5%",
	"fault never-join * 20%",
	"fault slow-join * 30% delay=2m",
	"stock *.large * * 1",
	"stock * us-west-2a * 0",
	"stock * * spot 2",
	"api refuse 5%",
	"api lose 5%",
	"api conflict 10%",
}

// deeds are what can happen at any moment while things go wrong, each as often as it stands there.
var deeds = []string{
	"crash", "crash", "crash-at %d before", "crash-at %d after", "crash-at %d before", "crash-at %d after", "scale", "scale", "scale", "scale",
	"kill", "notice", "delete nodeclaim", "delete node", "protect", "taint", "drift", "watch relist NodeClaim", "watch relist Pod", "watch repeat Node",
}

// worst are deeds at the worst moment, and of and to several processes.
var worst = []string{
	"watch hold Pod 4m", "watch hold NodeClaim 4m", "watch hold Node 4m", "watch hold NodeClaim 8m standby", "pause 25s", "bind",
	"when after patch/Node protect", "when after patch/Node bind", "when before patch/Node taint", "when before patch/NodeClaim taint", "when after patch/Node crash",
	"when before aws/CreateFleet delete nodeclaim", "when after aws/CreateFleet delete nodeclaim", "when after aws/CreateFleet crash",
	"when after aws/CreateFleet when after patch/NodeClaim/status crash", "when before aws/TerminateInstances crash", "when after delete/NodeClaim crash", "when after create/NodeClaim crash",
	"when after create/NodeClaim delete nodeclaim", "when before create/Pod/eviction taint",
}

// placements are the rules that a workload can have for where its pods run.
var placements = []string{
	"", "", "", "", " spread=zone", " spread=host", " anti-affinity=host", " spread=zone anti-affinity=host", " soft-spread=zone", " soft-spread=host", " prefer=us-west-2b",
}

// Lengths of a drawn plan: how long things go wrong, and how long they do not, so that it can be seen whether all comes right.
const (
	chaosLength = 12 * time.Minute
	calmLength  = 75 * time.Minute
	// settleLength is how long it takes until nothing is left of a crash.
	settleLength = 12 * time.Minute
)

// Draw makes the plan of a seed: a small cluster whose workloads change while AWS, watches and the controller itself fail, and then do
// not any more.
func Draw(seed uint64) *Plan {
	r := rand.New(rand.NewPCG(seed, 3))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	p := &Plan{Seed: seed}
	q := rand.New(rand.NewPCG(seed, 9))
	rule := func() string { return placements[q.IntN(len(placements))] }
	small, large := rule(), rule()
	limits := pick("", " cpu=48", " cpu=64 nodes=12", " nodes=10")
	if limits != "" && (strings.Contains(small, "=host") || strings.Contains(large, "=host")) {
		limits = " cpu=100 nodes=20" // of 13 and 4 pods, each may need a node of its own
	}
	if q.IntN(4) == 0 {
		limits += " min-values=2"
	}
	pool := "pool default" + limits + pick("", " budget=1", " budget=2") + pick("", " after=30s", " after=2m") + pick("", "", " grace=5m") + pick("", " capacity=spot", " capacity=on-demand")
	p.add(0, "%s", pool)
	sizes := map[string]int{"small": 4 + r.IntN(10), "large": 1 + r.IntN(4)}
	p.add(0, "app small %d 500m 1Gi%s%s%s", sizes["small"], pick("", " pdb=1", " pdb=3"), pick("", "", " protected=1"), small)
	p.add(0, "app large %d 3 8Gi%s%s", sizes["large"], pick("", " pdb=1"), large)
	for _, extra := range []string{"foreign", "poison"} {
		if r.IntN(3) == 0 {
			p.add(0, "%s", extra)
		}
	}
	start := time.Duration(30+r.IntN(120)) * time.Second
	end := start + chaosLength
	for _, f := range chaosFaults {
		if r.IntN(4) == 0 {
			p.add(start, "%s", f)
		}
	}
	if r.IntN(2) == 0 {
		p.add(start, "lag %s", time.Duration(1+r.IntN(int(chaosLag/time.Second)))*time.Second)
	}
	for range 4 + r.IntN(10) {
		at := start + time.Duration(r.Int64N(int64(chaosLength)))
		switch what := deeds[r.IntN(len(deeds))]; what {
		case "scale":
			name := pick("small", "large")
			p.add(at, "scale %s %d", name, r.IntN(2*sizes[name]+2))
		case "crash-at %d before", "crash-at %d after":
			p.add(at, what, 1+r.IntN(20))
		default:
			p.add(at, "%s", what)
		}
	}
	p.order()
	p.add(end, "calm")
	for _, name := range []string{"small", "large"} {
		p.add(end, "scale %s %d", name, sizes[name])
	}
	p.add(end+calmLength, "end")
	return p
}

// Worst is the plan of a seed with deeds at the worst moments, in some with several processes of the controller.
func Worst(seed uint64) *Plan {
	r := rand.New(rand.NewPCG(seed, 7))
	p := Draw(seed)
	last := p.End() - calmLength
	if r.IntN(3) == 0 {
		p.add(0, "replicas %d", 2+r.IntN(2))
	}
	for range 2 + r.IntN(6) {
		p.add(last-time.Duration(r.Int64N(int64(chaosLength)))-1, "%s", worst[r.IntN(len(worst))])
	}
	p.order()
	return p
}

// Crashing is a plan in which the controller crashes at effects of a quiet day, such as "17 before" or "3 after".
func Crashing(seed uint64, crashes ...string) *Plan {
	p := quietDay(seed)
	for _, c := range crashes {
		p.add(0, "crash-at %s", c)
	}
	p.order()
	return p
}

// quietDay is a plan in which workloads come and shrink, images change and a node is deleted, and nothing goes wrong.
func quietDay(seed uint64) *Plan {
	r := rand.New(rand.NewPCG(seed, 4))
	p := &Plan{Seed: seed}
	p.add(0, "pool default cpu=64 budget=2 after=30s")
	for i, cpu := range []string{"500m", "1", "2"} {
		p.add(0, "app web%d %d %s 1Gi pdb=2", i, 2+r.IntN(5), cpu)
	}
	p.add(4*time.Minute, "scale web0 1")
	p.add(4*time.Minute, "scale web2 %d", r.IntN(3))
	p.add(10*time.Minute, "drift")
	p.add(16*time.Minute, "delete nodeclaim")
	p.add(18*time.Minute, "calm")
	p.add(18*time.Minute+settleLength, "end")
	return p
}

// Launches is a plan in which a workload of one pod per node comes and goes, while calls that launch and end instances are carried out and
// not answered.
func Launches(seed uint64, nodes, times int) *Plan {
	p := &Plan{Seed: seed}
	p.add(0, "pool default after=10s")
	p.add(0, "app web %d 12 24Gi", nodes)
	p.add(0, "fault drop ec2:CreateFleet 5%%")
	p.add(0, "fault drop ec2:TerminateInstances 5%%")
	at := time.Duration(0)
	for range times - 1 {
		p.add(at+2*time.Minute, "scale web 0")
		at += 5 * time.Minute
		p.add(at, "scale web %d", nodes)
	}
	p.add(at+2*time.Minute, "calm")
	p.add(at+2*time.Minute+settleLength, "end")
	return p
}

// Churn is a plan of a larger cluster, of about so many nodes, whose workloads change all the time and where nothing goes wrong.
func Churn(seed uint64, nodes int, length time.Duration) *Plan {
	r := rand.New(rand.NewPCG(seed, 5))
	p := &Plan{Seed: seed}
	p.add(0, "pool default after=30s")
	const apps = 20
	pods := 4 * nodes / apps // of 3 vCPUs each, so that nodes of 16 take four
	for i := range apps {
		p.add(0, "app web%d %d 3 6Gi pdb=2", i, pods)
	}
	for at := 5 * time.Minute; at < length; at += 30 * time.Second {
		p.add(at, "scale %s %d", fmt.Sprint("web", r.IntN(apps)), pods/2+r.IntN(pods+1))
	}
	p.add(length, "calm")
	return p
}
