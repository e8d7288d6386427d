package life

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var born = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return born.Add(d) }

// fresh is a claim that has just been made; edit changes it.
func fresh(edit func(*Claim)) Claim {
	at := Condition{Since: born}
	c := Claim{UID: "u1", Created: born, Finalizer: true, Launched: at, Registered: at, Initialized: at}
	if edit != nil {
		edit(&c)
	}
	return c
}

func launched(c *Claim) {
	c.ProviderID, c.Launched = "aws:///a/i-1", Condition{Status: True, Since: after(time.Second)}
}

func registered(c *Claim) {
	launched(c)
	c.NodeName, c.Registered = "n1", Condition{Status: True, Since: after(time.Minute)}
}

func ready(name string) Node {
	return Node{Name: name, Created: after(30 * time.Second), Ready: true, Allocatable: []string{"cpu", "memory"}}
}

var cni = Taint{Key: "example.com/cni", Effect: "NoSchedule"}

var steps = []struct {
	name  string
	claim Claim
	nodes []Node
	at    time.Duration
	want  Step
}{
	{"L21 a claim that is being deleted is drain's", fresh(func(c *Claim) { c.Deleting = true }), nil, 0, Step{Do: Hold}},
	{"L2 the finalizer comes before the launch", fresh(func(c *Claim) { c.Finalizer = false }), nil, 0, Step{Do: AddFinalizer}},
	{"L2 also when it is late", fresh(func(c *Claim) { c.Finalizer = false }), nil, time.Hour, Step{Do: AddFinalizer}},
	{"L3 a claim without instance is launched", fresh(nil), nil, time.Second, Step{Do: Launch, Of: Launched, After: 5*time.Minute - time.Second}},
	{"L13 not for longer than five minutes", fresh(nil), nil, 5 * time.Minute, Step{Do: GiveUp, Of: Launched, Cause: LaunchTimeout}},
	{
		"L6 no node yet", fresh(launched), nil, time.Minute,
		Step{Do: Hold, Of: Registered, Reason: NodeNotFound, Message: "no node carries the instance's provider ID yet", After: 14 * time.Minute},
	},
	{"L6 one node", fresh(launched), []Node{ready("n1")}, time.Minute, Step{Do: Register, Of: Registered, Node: "n1"}},
	{
		"L6 several nodes", fresh(launched),
		[]Node{ready("n2"), ready("n1")},
		time.Minute,
		Step{Do: Hold, Of: Registered, Status: False, Reason: MultipleNodesFound, Message: "more than one node carries the instance's provider ID: n1, n2", After: 14 * time.Minute},
	},
	{
		"L12 several nodes once are several nodes for good", fresh(func(c *Claim) {
			launched(c)
			c.Registered = Condition{Status: False, Since: after(time.Minute)}
		}),
		[]Node{ready("n1")},
		15 * time.Minute,
		Step{Do: Hold, Of: Registered, After: time.Minute},
	},
	{
		"L12 and end with the deadline", fresh(func(c *Claim) {
			launched(c)
			c.Registered = Condition{Status: False, Since: after(time.Minute)}
		}),
		[]Node{ready("n1")},
		16 * time.Minute,
		Step{Do: GiveUp, Of: Registered, Cause: RegistrationTimeout},
	},
	{
		"L13 not for longer than fifteen minutes", fresh(launched), nil, 15 * time.Minute,
		Step{Do: GiveUp, Of: Registered, Reason: NodeNotFound, Message: "no node carries the instance's provider ID yet", Cause: RegistrationTimeout},
	},
	{"L13 a node that came late is better than none", fresh(launched), []Node{ready("n1")}, time.Hour, Step{Do: Register, Of: Registered, Node: "n1"}},
	{
		"R7 a node older than the claim is not its node", fresh(launched),
		[]Node{{Name: "liar", Created: after(-time.Second), Ready: true}},
		time.Minute,
		Step{Do: Hold, Of: Registered, Reason: NodeNotFound, Message: "no node carries the instance's provider ID yet", Strangers: []string{"liar"}, After: 14 * time.Minute},
	},
	{
		"R7 nor is one that belongs to another claim", fresh(launched),
		[]Node{{Name: "other", Created: after(time.Second), Owner: "u2"}, ready("n1")},
		time.Minute,
		Step{Do: Register, Of: Registered, Node: "n1", Strangers: []string{"other"}},
	},
	{
		"R7 a second node does not take over", fresh(registered),
		[]Node{ready("a"), ready("n1")},
		2 * time.Minute,
		Step{Do: Initialize, Of: Initialized, Node: "n1", Strangers: []string{"a"}},
	},
	{"L11 a node that is all right", fresh(registered), []Node{ready("n1")}, 2 * time.Minute, Step{Do: Initialize, Of: Initialized, Node: "n1"}},
	{"L11 no node", fresh(registered), nil, 2 * time.Minute, waiting(NodeNotFound, "node n1 does not exist")},
	{"L11 not ready", fresh(registered), []Node{{Name: "n1"}}, 2 * time.Minute, waiting(NodeNotReady, "node n1 is not Ready")},
	{
		"L11 startup taints", fresh(func(c *Claim) { registered(c); c.StartupTaints = []Taint{cni} }),
		[]Node{with(func(n *Node) { n.Taints = []Taint{cni} })},
		2 * time.Minute,
		waiting(StartupTaintsExist, "startup taints have not been removed: example.com/cni:NoSchedule"),
	},
	{
		"L11 ephemeral taints", fresh(registered),
		[]Node{with(func(n *Node) { n.Ephemeral = []string{"node.kubernetes.io/not-ready:NoExecute"} })},
		2 * time.Minute,
		waiting(KnownEphemeralTaintsExist, "taints of a starting node are still there: node.kubernetes.io/not-ready:NoExecute"),
	},
	{
		"L11 resources", fresh(func(c *Claim) { registered(c); c.Requests = []string{"cpu", "nvidia.com/gpu"} }),
		[]Node{ready("n1")},
		2 * time.Minute,
		waiting(ResourceNotRegistered, "the node does not offer yet what was asked for: nvidia.com/gpu"),
	},
	{
		"L25 devices", fresh(func(c *Claim) { registered(c); c.Drivers = []string{"gpu.example.com"} }),
		[]Node{ready("n1")},
		2 * time.Minute,
		waiting(DRADriverPoolsNotPublished, "device drivers have not published the node's devices: gpu.example.com"),
	},
	{
		"W13 not for longer than half an hour", fresh(registered),
		[]Node{{Name: "n1"}},
		31 * time.Minute,
		Step{Do: GiveUp, Of: Initialized, Reason: NodeNotReady, Message: "node n1 is not Ready", Cause: InitializationTimeout},
	},
	{"W13 unless it is usable now", fresh(registered), []Node{ready("n1")}, time.Hour, Step{Do: Initialize, Of: Initialized, Node: "n1"}},
	{"L12 what is initialized stays so", fresh(func(c *Claim) { registered(c); c.Initialized.Status = True }), []Node{{Name: "n1"}}, time.Hour, Step{Do: Hold}},
}

func TestL1_NextStep(t *testing.T) {
	for _, tt := range steps {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Next(tt.claim, tt.nodes, DefaultLimits, after(tt.at))); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

func with(edit func(*Node)) Node {
	n := ready("n1")
	edit(&n)
	return n
}

// waiting is the step two minutes after birth of a claim that was registered after one.
func waiting(reason, message string) Step {
	return Step{Do: Hold, Of: Initialized, Reason: reason, Message: message, After: 29 * time.Minute}
}

func TestL13_DeadlinesThatPassedUnseenGetAMoment(t *testing.T) {
	limits := DefaultLimits
	limits.Watching = after(time.Hour)
	if s := Next(fresh(launched), nil, limits, after(time.Hour)); s.Do != Hold || s.After != grace {
		t.Errorf("after an outage of an hour: %+v", s)
	}
	if s := Next(fresh(launched), nil, limits, after(time.Hour+grace)); s.Do != GiveUp {
		t.Errorf("a minute later: %+v", s)
	}
	limits = Limits{}
	if s := Next(fresh(registered), nil, limits, after(1000*time.Hour)); s.Do != Hold || s.After != 0 {
		t.Errorf("without limits: %+v", s)
	}
}

// TestL1_EveryStepLeadsOn says that whatever is known of a claim, the step is possible, and that waiting always ends: by a
// deadline, or because nothing is left to wait for.
func TestL1_EveryStepLeadsOn(t *testing.T) { rapid.Check(t, leadsOn) }

func FuzzNext(f *testing.F) { f.Fuzz(rapid.MakeFuzz(leadsOn)) }

func leadsOn(t *rapid.T) {
	statuses := rapid.SampledFrom([]Status{Unknown, True, False})
	names := rapid.SampledFrom([]string{"n1", "n2", "n3"})
	at := rapid.Custom(func(t *rapid.T) Condition {
		return Condition{Status: statuses.Draw(t, "status"), Since: after(time.Duration(rapid.IntRange(0, 3600).Draw(t, "since")) * time.Second)}
	})
	c := Claim{
		UID: "u1", Created: born, Finalizer: rapid.Bool().Draw(t, "finalizer"), Deleting: rapid.Bool().Draw(t, "deleting"),
		Launched: at.Draw(t, "launched"), Registered: at.Draw(t, "registered"), Initialized: at.Draw(t, "initialized"),
		Requests: rapid.SampledFrom([][]string{nil, {"cpu"}, {"cpu", "gpu"}}).Draw(t, "requests"),
	}
	if rapid.Bool().Draw(t, "instance") {
		c.ProviderID, c.NodeName = "p", names.Draw(t, "node")
	}
	nodes := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Node {
		return Node{
			Name: names.Draw(t, "name"), Created: after(time.Duration(rapid.IntRange(-10, 10).Draw(t, "created")) * time.Second),
			Owner: rapid.SampledFrom([]string{"", "u1", "u2"}).Draw(t, "owner"), Ready: rapid.Bool().Draw(t, "ready"), Allocatable: []string{"cpu"},
		}
	}), 0, 3, func(n Node) string { return n.Name }).Draw(t, "nodes")
	now := after(time.Duration(rapid.IntRange(0, 10000).Draw(t, "now")) * time.Second)
	s := Next(c, nodes, DefaultLimits, now)
	if s.Do == Launch && (!c.Finalizer || c.Deleting || c.ProviderID != "") {
		t.Fatalf("launch of %+v", c)
	}
	if c.Deleting && s.Do != Hold {
		t.Fatalf("a claim that is being deleted is left alone, got %s", s.Do)
	}
	if s.Do == Register || s.Do == Initialize {
		for _, n := range nodes {
			if n.Name == s.Node && n.Owner == "u2" {
				t.Fatalf("node %s belongs to somebody else", n.Name)
			}
		}
	}
	done := c.Deleting || c.ProviderID != "" && c.Registered.Status == True && c.Initialized.Status == True
	if s.Do == Hold && !done && s.After <= 0 {
		t.Fatalf("nothing ends this wait: %+v", s)
	}
	if (s.Do == GiveUp) != (s.Cause != "") {
		t.Fatalf("%+v", s)
	}
}

func TestL25_PublishedDevices(t *testing.T) {
	got := Published([]Slice{
		{"complete", "a", 2, 2},
		{"complete", "a", 2, 2},
		{"complete", "a", 1, 1},
		{"half", "a", 1, 2},
		{"renewing", "a", 2, 2},
		{"renewing", "a", 1, 1},
		{"one-of-two", "a", 1, 1},
		{"one-of-two", "b", 1, 2},
	})
	if diff := cmp.Diff([]string{"complete", "one-of-two"}, got); diff != "" {
		t.Error(diff)
	}
}
