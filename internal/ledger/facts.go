package ledger

import (
	"slices"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/life"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// Facts is what decisions depend on and objects do not say. Whoever decides makes its input from the view and its facts by the
// methods here, so that a replay cannot differ.
type Facts struct {
	// Expected says on which claim's node pods are expected that are not bound yet, by UID.
	Expected map[string]string `json:"expected,omitempty"`
	// Held says of pools that make no nodes for now why not.
	Held map[string]string `json:"held,omitempty"`
	// Nominated says until when pods are expected on nodes, by their name.
	Nominated map[string]time.Time `json:"nominated,omitempty"`
	// Busy says of claims that are part of a move what happens to them, Fixed of others why they are to be left alone.
	Busy  map[string]string `json:"busy,omitempty"`
	Fixed map[string]string `json:"fixed,omitempty"`
	// Past are nodes that moves have removed of late.
	Past []Past `json:"past,omitempty"`
	// Hold says of pools why they are left alone for now, Blind that pods come of which it is not known what they need, Turn which pools
	// get their turn all the same, and Horizon for which share of the usual time savings of a pool count.
	Hold    map[string]string  `json:"hold,omitempty"`
	Blind   bool               `json:"blind,omitempty"`
	Turn    map[string]bool    `json:"turn,omitempty"`
	Horizon map[string]float64 `json:"horizon,omitempty"`
	// Moved are pods that were moved for their cost, by UID.
	Moved map[string]state.Moved `json:"moved,omitempty"`
	// Coming says how many more pods like this one are known to come, by its UID.
	Coming map[string]int `json:"coming,omitempty"`
	// Repair says which node conditions condemn an instance; without any nothing is repaired.
	Repair []life.RepairPolicy `json:"repair,omitempty"`
	// Going names claims of static pools that the API server no longer has, or that are being deleted, and that the view does not show so.
	Going []string `json:"going,omitempty"`
	// Leaving names claims that are about to be deleted and do not show it; Shared the pods, by UID, that the scheduler has not tried and that
	// need a node because those like them do; Resources is how resources were numbered. All are part of the view.
	Leaving   []string `json:"leaving,omitempty"`
	Shared    []string `json:"shared,omitempty"`
	Resources []string `json:"resources,omitempty"`
}

// Past is a node that a move has removed.
type Past struct {
	Pool         string    `json:"pool,omitempty"`
	Type         string    `json:"instanceType,omitempty"`
	Zone         string    `json:"zone,omitempty"`
	CapacityType string    `json:"capacityType,omitempty"`
	At           time.Time `json:"at"`
}

// NewPast writes removals down.
func NewPast(list []disrupt.Past) []Past {
	out := make([]Past, len(list))
	for i, p := range list {
		out[i] = Past(p)
	}
	return out
}

// horizon is the share of the usual time for which savings of a pool count.
func (f *Facts) horizon(pool string) float64 {
	if share, ok := f.Horizon[pool]; ok {
		return share
	}
	return 1
}

// World is the view's world with pods where they are expected, and with pools that are held back.
func (f *Facts) World(view *state.View) *world.Snapshot {
	snap := view.Expect(f.Expected)
	if more := view.More(f.Coming); len(more) > 0 {
		c := *snap
		c.Pending = slices.Concat(snap.Pending, more)
		snap = &c
	}
	var pools []*world.Pool
	for i, p := range snap.Pools {
		why := f.Held[p.Name]
		if why == "" || p.Refused != "" {
			continue
		}
		if pools == nil {
			pools = slices.Clone(snap.Pools)
		}
		pools[i] = &world.Pool{Name: p.Name, Weight: p.Weight, MaxNodes: p.MaxNodes, Static: p.Static, Replicas: p.Replicas, Refused: why}
	}
	if pools == nil {
		return snap
	}
	c := *snap
	c.Pools = pools
	return &c
}

// Static is what a decision about the size of static pools is made from.
func (f *Facts) Static(view *state.View, now time.Time) *disrupt.Input {
	in := view.Static(now)
	in.World = f.World(view)
	going := make(map[string]bool, len(f.Going))
	for _, name := range f.Going {
		going[name] = true
	}
	for i, n := range view.Nodes {
		in.Nodes[i].Going = in.Nodes[i].Going || n.Claim != nil && going[n.Claim.Name]
	}
	return in
}

// Input is what a decision about nodes is made from. Nodes of a pool that is held back do not go elsewhere because they have
// drifted; what is empty may still go.
func (f *Facts) Input(view *state.View, now time.Time) *disrupt.Input {
	past := make([]disrupt.Past, len(f.Past))
	for i, p := range f.Past {
		past[i] = disrupt.Past(p)
	}
	in := view.Disruption(state.DisruptionOptions{
		Past: past, Nominated: func(node string) time.Time { return f.Nominated[node] }, Busy: func(claim string) string { return f.Busy[claim] },
		Moved: func(pod string) (state.Moved, bool) { m, ok := f.Moved[pod]; return m, ok },
		Hold:  func(pool string) string { return f.Hold[pool] }, Blind: f.Blind, Turn: func(pool string) bool { return f.Turn[pool] }, Horizon: f.horizon,
		Repair: f.Repair,
	}, now)
	in.World = f.World(view)
	expects := make(map[string]bool, len(f.Expected))
	for _, claim := range f.Expected {
		expects[claim] = true
	}
	for i, n := range view.Nodes {
		if f.Held[n.World.Pool] != "" && in.Nodes[i].Cost > 1 {
			in.Nodes[i].Drift = ""
		}
		if n.Claim != nil && in.Nodes[i].Fixed == "" {
			in.Nodes[i].Fixed = f.Fixed[n.Claim.Name]
			if in.Nodes[i].Fixed == "" && expects[n.Claim.Name] {
				in.Nodes[i].Fixed = "pending pods are expected on it"
			}
		}
		if ill := in.Nodes[i].Illness; ill != nil && ill.Fixed == "" {
			ill.Fixed = f.Fixed[n.Claim.Name]
		}
	}
	return in
}
