package world

import "slices"

// What kube-scheduler counts, for scoring only, for a pod that requests nothing.
const (
	scoreCPU    = 100               // millicores
	scoreMemory = 200 * 1024 * 1024 // bytes
)

// Load is what the pods of a node add up to.
type Load struct {
	// Requests is what all of them take, attachments of shared volumes included; Daemons what those of DaemonSets take of it.
	Requests Resources
	Daemons  Resources
	// ScoreCPU and ScoreMemory are what the scheduler counts when it rates the node.
	ScoreCPU    int64
	ScoreMemory int64
	Ports       []Port
	// Active counts pods by class; Going those that are terminating. Movable pods of a node that is deleting are in neither:
	// they are about to be counted elsewhere.
	Active []ClassCount
	Going  []ClassCount
}

// ClassCount is a number of pods of a class.
type ClassCount struct{ Class, N int32 }

// Load adds up the node's pods, once: a node does not change. The classes must be those of every snapshot that the node is
// in, or begin like them.
func (n *Node) Load(classes []*Class) *Load {
	n.once.Do(func() {
		var shared []SharedVolume
		for _, p := range n.Pods {
			c := classes[p.Class]
			n.load.add(c, p)
			for _, s := range c.Shared {
				if !slices.Contains(shared, s) {
					shared = append(shared, s)
					n.load.Requests = n.load.Requests.Set(s.Resource, n.load.Requests.Get(s.Resource)+1)
				}
			}
			switch {
			case n.Deleting && p.Movable:
			case p.Terminating:
				n.load.Going = countClass(n.load.Going, p.Class)
			default:
				n.load.Active = countClass(n.load.Active, p.Class)
			}
		}
	})
	return &n.load
}

func (l *Load) add(c *Class, p *Pod) {
	for r, v := range c.Requests {
		if v != 0 {
			l.Requests = l.Requests.Set(r, AddSat(l.Requests.Get(r), v))
		}
	}
	if p.Daemon {
		l.Daemons = l.Daemons.Plus(c.Requests)
	}
	cpu, mem := c.ScoreRequests()
	l.ScoreCPU, l.ScoreMemory = l.ScoreCPU+cpu, l.ScoreMemory+mem
	l.Ports = append(l.Ports, c.Ports...)
}

// ScoreRequests is what the scheduler counts for one pod when it rates nodes.
func (c *Class) ScoreRequests() (cpu, memory int64) {
	cpu, memory = c.Requests.Get(CPU), c.Requests.Get(Memory)
	if cpu == 0 {
		cpu = scoreCPU
	}
	if memory == 0 {
		memory = scoreMemory
	}
	return cpu, memory
}

func countClass(list []ClassCount, class int32) []ClassCount {
	for i := range list {
		if list[i].Class == class {
			list[i].N++
			return list
		}
	}
	return append(list, ClassCount{class, 1})
}

// Offer is a type in one of its offerings.
type Offer struct {
	Type     *InstanceType
	Offering *Offering
}

// Offers lists what a pool could launch, in the order of type names, and the label keys that its requirements leave open; it is
// found once, as a pool does not change. Requirements on open keys are not looked at: a node may still get any value. Offerings
// out of stock are in the list, those with a price that is no number are not.
func (p *Pool) Offers() (offers []Offer, open []string) {
	p.once.Do(func() {
		p.open = p.openKeys()
		types := slices.Clone(p.Types)
		slices.SortFunc(types, func(a, b *InstanceType) int {
			if a.Name < b.Name {
				return -1
			}
			return 1
		})
		for _, t := range types {
			p.offersOf(t)
		}
	})
	return p.offers, p.open
}

// providerKeys are labels that come with a type or offering, or that only the node itself can have: never open.
var providerKeys = map[string]bool{
	LabelZone: true, LabelCapacityType: true, LabelInstanceType: true, LabelPool: true, LabelHostname: true, LabelRegion: true,
	LabelRegistered: true, LabelInitialized: true, "kubernetes.io/arch": true, "kubernetes.io/os": true, "node.kubernetes.io/windows-build": true,
}

func (p *Pool) openKeys() []string {
	known := map[string]bool{}
	for _, t := range p.Types {
		for _, l := range t.Labels {
			known[l.Key] = true
		}
		for i := range t.Offerings {
			for _, l := range t.Offerings[i].Labels {
				known[l.Key] = true
			}
		}
	}
	var out []string
	for _, r := range p.Need {
		if _, fixed := p.Labels.Get(r.Key); !fixed && !known[r.Key] && !providerKeys[r.Key] && !slices.Contains(p.Provided, r.Key) {
			out = append(out, r.Key)
		}
	}
	return out
}

// offersOf adds the offerings of a type. What the type's own labels decide is looked at once per type.
func (p *Pool) offersOf(t *InstanceType) {
	perOffering := p.Need[:0:0]
	for _, r := range p.Need {
		if slices.Contains(p.open, r.Key) {
			continue
		}
		if r.Key == LabelZone || r.Key == LabelCapacityType || p.offeringLabel(t, r.Key) {
			perOffering = append(perOffering, r)
			continue
		}
		if v, ok := p.NodeLabel(t, nil, r.Key); !r.Admits(v, ok) {
			return
		}
	}
	for k := range t.Offerings {
		o := &t.Offerings[k]
		if !(o.Price >= 0 && o.Price < maxPrice) {
			continue
		}
		if perOffering.Admits(func(key string) (string, bool) { return p.NodeLabel(t, o, key) }) {
			p.offers = append(p.offers, Offer{t, o})
		}
	}
}

// maxPrice is far beyond any price; it keeps infinities out.
const maxPrice = 1e12

func (p *Pool) offeringLabel(t *InstanceType, key string) bool {
	for i := range t.Offerings {
		if _, ok := t.Offerings[i].Labels.Get(key); ok {
			return true
		}
	}
	return false
}

// NodeLabel is the label that a node of the pool will carry if it is launched as this type from this offering; a nil offering
// leaves out what depends on it.
func (p *Pool) NodeLabel(t *InstanceType, o *Offering, key string) (string, bool) {
	switch key {
	case LabelInstanceType:
		return t.Name, true
	case LabelPool:
		return p.Name, true
	case LabelRegistered, LabelInitialized:
		return "true", true
	}
	if o != nil {
		switch key {
		case LabelZone:
			return o.Zone, o.Zone != ""
		case LabelCapacityType:
			return o.CapacityType, o.CapacityType != ""
		}
		if v, ok := o.Labels.Get(key); ok {
			return v, true
		}
	}
	if v, ok := p.Labels.Get(key); ok {
		return v, true
	}
	return t.Labels.Get(key)
}
