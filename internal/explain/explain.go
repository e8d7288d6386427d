package explain

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/life"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// Answer is what can be said about an object.
type Answer struct {
	Subject ledger.Ref `json:"subject"`
	// Verdict says in one sentence what is the matter.
	Verdict string `json:"verdict"`
	// Why is what the verdict rests on, and Tried what was tried besides and came to nothing.
	Why   []why.Reason `json:"why,omitempty"`
	Tried []why.Reason `json:"tried,omitempty"`
	// Nearest is what comes next, with its price.
	Nearest *Alternative `json:"nearest,omitempty"`
	// Change lists changes of which each alone would flip the verdict, the smallest first.
	Change []Change `json:"change,omitempty"`
	Facts  []Fact   `json:"facts,omitempty"`
	// Node is what the objects behind a node or a claim say.
	Node *model.NodeDetail `json:"node,omitempty"`
	// History is the decisions about the object, the newest first.
	History []*ledger.Entry `json:"history,omitempty"`
}

// Document is an answer for programs.
type Document struct {
	model.Type
	*Answer
	// Estimate says what prices are if nobody in the cluster has said it.
	Estimate string `json:"estimate,omitempty"`
}

// Document makes a document of the answer.
func (a *Answer) Document(estimate string) *Document {
	return &Document{model.TypeOf(model.KindExplanation), a, estimate}
}

// Alternative is an instance that would do instead.
type Alternative struct {
	Text string `json:"text"`
	model.Node
}

// Change is something that would flip the verdict.
type Change struct {
	// Text is a sentence with what to change and what would come of it.
	Text string `json:"text"`
	// Frees is the type of the node that could go, and Saves what the fleet would cost less an hour.
	Frees string  `json:"frees,omitempty"`
	Saves float64 `json:"savesPerHour,omitempty"`
	// Costs is what a node that is made for it costs an hour.
	Costs float64 `json:"costsPerHour,omitempty"`
}

// Fact is something to know about the object.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Options say how decisions are made, and what is known besides the view.
type Options struct {
	// Pack is how pending pods are planned, Disrupt how nodes are decided about.
	Pack    pack.Options
	Disrupt disrupt.Options
	Now     time.Time
	// Limits is how long a claim may take to become a node; the zero value stands for the usual limits.
	Limits life.Limits
	// Ledger finds decisions; nil knows none.
	Ledger func(ledger.Query) []*ledger.Entry
	// Moved are pods that were moved for their cost, by UID; see ledger.Facts.
	Moved map[string]state.Moved
	// Plan and Decision are what was decided about this view, if that is known already.
	Plan     *pack.Plan
	Decision *disrupt.Decision
}

// Cluster answers questions about one view. It is safe for concurrent use.
type Cluster struct {
	view  *state.View
	in    *disrupt.Input
	world *world.Snapshot
	opt   Options

	planning, deciding, settling, naming, sizing sync.Once
	scalings                                     []*disrupt.Scaling

	plan     *pack.Plan
	decision *disrupt.Decision
	settled  *world.Snapshot
	pods     map[string]place
}

// New makes ready to answer questions about a view. in is what decisions about its nodes are made from; nil stands for what the
// view alone says. Plan and decision are made once, when they are first needed, if they are not given.
func New(view *state.View, in *disrupt.Input, opt Options) *Cluster {
	if in == nil {
		in = view.Disruption(state.DisruptionOptions{}, opt.Now)
	}
	if opt.Limits == (life.Limits{}) {
		opt.Limits = life.DefaultLimits
	}
	return &Cluster{view: view, in: in, world: in.World, opt: opt, plan: opt.Plan, decision: opt.Decision}
}

// Plan is what is planned for the pods that wait.
func (c *Cluster) Plan() *pack.Plan {
	c.planning.Do(func() {
		if c.plan == nil {
			c.plan = pack.Solve(c.world, c.opt.Pack)
		}
	})
	return c.plan
}

// Decision is what is decided about the nodes.
func (c *Cluster) Decision() *disrupt.Decision {
	c.deciding.Do(func() {
		if c.decision == nil {
			c.decision = disrupt.Decide(c.in, c.opt.Disrupt, c.opt.Now)
		}
	})
	return c.decision
}

// scaling is what a static pool needs; nil for other pools.
func (c *Cluster) scaling(pool string) *disrupt.Scaling {
	c.sizing.Do(func() { c.scalings = disrupt.Scale(c.in, c.opt.Disrupt) })
	if i := slices.IndexFunc(c.scalings, func(s *disrupt.Scaling) bool { return s.Pool == pool }); i >= 0 {
		return c.scalings[i]
	}
	return nil
}

// Fleet is the fleet of the cluster's view, as of now. plan is the latest plan, and when it was made.
func (c *Cluster) Fleet(plan *pack.Plan, planAt, now time.Time) *model.Fleet {
	return model.NewFleet(model.Outlook{View: c.view, World: c.world, Plan: plan, PlanAt: planAt}, now)
}

// after is the world once the plan has been carried out.
func (c *Cluster) after() *world.Snapshot {
	c.settling.Do(func() { c.settled = disrupt.Settled(c.world, c.Plan()) })
	return c.settled
}

// maxHistory bounds how many decisions an answer lists.
const maxHistory = 10

// history is the decisions about an object, the newest first.
func (c *Cluster) history(ref ledger.Ref) []*ledger.Entry {
	if c.opt.Ledger == nil {
		return nil
	}
	return c.opt.Ledger(ledger.Query{About: &ref, Limit: maxHistory})
}

// remember notes the history of the object, and the decision by which it is what or where it is.
func (a *Answer) remember(history []*ledger.Entry) {
	a.History = history
	for _, e := range history {
		added := ledger.Entry{Add: e.Add}
		if e.Kind != ledger.Failure && added.Concerns(a.Subject) {
			a.Why = append(a.Why, why.Reason{Code: why.Chosen, Text: fmt.Sprintf("decision #%d: %s", e.ID, e.Summary), Because: e.Why})
			return
		}
	}
}

// place is where a pod is: on a node, by its index, or nowhere yet.
type place struct {
	pod  *world.Pod
	node int // -1 for a pod that waits
}

// find is where a pod is, by namespace and name.
func (c *Cluster) find(name string) (place, bool) {
	c.naming.Do(func() {
		c.pods = make(map[string]place, len(c.world.Pending)+8*len(c.world.Nodes))
		for _, p := range c.world.Pending {
			c.pods[c.world.PodName(p)] = place{p, -1}
		}
		for i, n := range c.world.Nodes {
			for _, p := range n.Pods {
				c.pods[c.world.PodName(p)] = place{p, i}
			}
		}
	})
	at, ok := c.pods[name]
	return at, ok
}
