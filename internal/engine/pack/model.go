// Package pack decides which new nodes pending pods need and which pods go where.
//
// Prepare compiles a snapshot into a Model: every node that could be made becomes an option with concrete labels, what
// pods may use becomes a bitset, and quantities become vectors. Solve answers one question about the snapshot (its
// pending pods, or a what-if in which nodes are gone) with a Plan. A Model may be asked many questions at once; each costs
// what it touches. The same snapshot and options give the same Plan, whatever the number of workers.
//
// The work goes in four steps. assign fixes everything that is not a matter of price: which pods fit on nodes that exist, and
// which topology domain each of the others goes to. The rest are items of a vector packing problem over cells, where a
// cell is a set of options that no pod tells apart. Its linear relaxation gives prices for resources and a
// certified lower bound; patterns filled by those prices, and first-fit-decreasing as a second opinion, give nodes; a bounded
// local search improves them. finish then lists, for each node, everything the cloud may launch for it.
//
// The caller must not change a snapshot after handing it over. The package does no I/O, reads no clock and draws no
// random numbers.
package pack

import (
	"slices"
	"strings"
	"sync"

	"karpenter/internal/engine/world"
)

// Model is a snapshot compiled for questions. It is safe for concurrent use.
type Model struct {
	snap *world.Snapshot
	opt  Options
	dims int // number of resources

	variants []variant
	later    []cutValues // what is left for a later round
	options  []option
	typeIDs  map[*world.InstanceType]int32
	stock    bitset // options that can be launched now
	optCols  columns
	nodeCost float64 // the highest of any pool

	nodes     []nodeInfo
	nodeCols  columns
	deleting  []int32
	nodeRank  []int32 // order of nodes that are otherwise equal
	keysOnce  sync.Once
	keys      []string
	where     sync.Once
	zonesOnce sync.Once
	zones     map[poolZone]int // nodes that exist
	byClass   [][]classOnNode  // per class, where its active pods are
	byGoing   [][]classOnNode  // likewise for terminating pods, which affinity still counts

	mu      sync.Mutex
	clauses map[string]*clauseMask
	tols    map[string]*tolerationMask
	classes []*classInfo
	cells   map[string]*cellSet
	maskIDs map[string]int
	masks   []bitset
	groups  map[string]*group

	topologies map[string]*topology
	tuples     map[string][]nodeTuple
	byLabel    map[world.Label][]int32
	allClasses []int32

	// guardians are classes with required anti-affinity: on nodes, they keep others away.
	guardians []int32
}

// variant is a pool with a value for every label that its requirements leave open.
type variant struct {
	pool   *world.Pool
	labels world.Labels
	extra  world.Labels // chosen for open keys
}

// option is one way to make a node: a variant, a type and an offering. All its labels are known.
type option struct {
	variant int32
	typ     *world.InstanceType
	typeID  int32
	off     *world.Offering
	price   float64
	cost    float64 // price and the pool's node cost: what is minimised
	net     []int64 // allocatable less daemons
	daemons []int64 // what daemons take
	ports   []world.Port
}

type nodeInfo struct {
	node *world.Node
	free []int64  // allocatable less pods and daemons still to come
	used [2]int64 // what the scheduler counts when it rates the node: CPU, memory
	// target is false for nodes that are going away.
	target bool
	load   *world.Load
	ports  []world.Port // of its pods and of daemons still to come
}

type classOnNode struct{ node, n int32 }

// Prepare compiles a snapshot.
func Prepare(s *world.Snapshot, opt Options) *Model {
	if opt.MaxTypes <= 0 {
		opt.MaxTypes = DefaultMaxTypes
	}
	m := &Model{
		snap: s, opt: opt, dims: len(s.Resources),
		clauses: map[string]*clauseMask{}, tols: map[string]*tolerationMask{}, cells: map[string]*cellSet{},
		maskIDs: map[string]int{}, groups: map[string]*group{}, topologies: map[string]*topology{}, tuples: map[string][]nodeTuple{},
		classes: make([]*classInfo, len(s.Classes)), typeIDs: map[*world.InstanceType]int32{},
	}
	for i := range m.classes {
		m.classes[i] = &classInfo{}
	}
	m.buildOptions()
	m.buildNodes()
	for _, c := range m.guardians { // a group must know who carries it before it counts them
		m.class(c)
	}
	return m
}

// Snapshot is what the model was prepared from.
func (m *Model) Snapshot() *world.Snapshot { return m.snap }

// usablePools lists pools that may make nodes, heaviest first, then by name.
func usablePools(s *world.Snapshot) []*world.Pool {
	var out []*world.Pool
	for _, p := range s.Pools {
		if !p.Static && p.Refused == "" {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b *world.Pool) int {
		if a.Weight != b.Weight {
			return int(b.Weight) - int(a.Weight)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

func (m *Model) buildOptions() {
	if m.opt.NoNewNodes {
		m.optCols = newColumns(0, nil)
		return
	}
	for _, p := range usablePools(m.snap) {
		offers, open := p.Offers()
		for _, v := range m.variantsOf(p, open, len(offers)) {
			m.variants = append(m.variants, v)
			m.addOptions(int32(len(m.variants)-1), offers)
		}
	}
	m.stock = newBitset(len(m.options))
	m.optCols = newColumns(len(m.options), func(i int, key string) (string, bool) { return m.optionLabel(i, key) })
	m.subtractDaemons()
	for i := range m.options {
		o := &m.options[i]
		if o.off.Launchable() && slices.Min(o.net) >= 0 {
			m.stock.add(i)
		}
	}
}

// addOptions lists what a variant can launch. Offerings out of stock are listed too, so that reasons can count them.
func (m *Model) addOptions(v int32, offers []world.Offer) {
	m.options = slices.Grow(m.options, len(offers))
	var last *world.InstanceType
	var alloc []int64
	var id int32
	pool := m.variants[v].pool
	m.nodeCost = max(m.nodeCost, pool.NodeCost)
	for _, x := range offers {
		if x.Type != last {
			last, alloc = x.Type, m.vector(x.Type.Allocatable)
			known := false
			if id, known = m.typeIDs[x.Type]; !known {
				id = int32(len(m.typeIDs))
				m.typeIDs[x.Type] = id
			}
		}
		net := alloc
		if x.Offering.Allocatable != nil {
			net = m.vector(x.Offering.Allocatable)
		}
		price := x.Offering.Price
		m.options = append(m.options, option{variant: v, typ: x.Type, typeID: id, off: x.Offering, price: price, cost: price + pool.NodeCost, net: net})
	}
}

// vector spreads resources over every dimension; attach limits that are not stated do not bind.
func (m *Model) vector(r world.Resources) []int64 {
	out := make([]int64, m.dims)
	m.fillVector(out, r)
	return out
}

func (m *Model) fillVector(out []int64, r world.Resources) {
	for i := range out {
		out[i] = r.Get(i)
		if out[i] <= 0 && world.UnlimitedWhenAbsent(m.snap.Resources[i]) {
			if out[i] == 0 {
				out[i] = world.Unlimited
			} else {
				out[i] = 0 // NoAttachments
			}
		}
	}
}

// newHost is the hostname of a node that has none yet: it differs from every name that a pod could ask for.
const newHost = "\x00new"

// optionLabel is the label that a node of the option will carry.
func (m *Model) optionLabel(i int, key string) (string, bool) {
	o := &m.options[i]
	v := &m.variants[o.variant]
	if key == world.LabelHostname {
		return newHost, true
	}
	if val, ok := v.extra.Get(key); ok {
		return val, true
	}
	return v.pool.NodeLabel(o.typ, o.off, key)
}

// subtractDaemons charges each option with the daemons that will run on it.
func (m *Model) subtractDaemons() {
	for _, d := range m.snap.Daemons {
		mask := fullBitset(len(m.options))
		for _, c := range d.Class.Needs {
			mask.and(m.clause(c).options)
		}
		mask.and(m.toleration(d.Class.Tolerations).options[hardOnly])
		size := m.vector0(d.Class.Requests)
		for i := range mask.each {
			o := &m.options[i]
			if o.daemons == nil {
				o.daemons = make([]int64, m.dims)
				o.net = slices.Clone(o.net)
			}
			addTo(o.daemons, size)
			subFrom(o.net, size)
			o.ports = append(slices.Clip(o.ports), d.Class.Ports...)
		}
	}
}

// vector0 spreads requests over every dimension.
func (m *Model) vector0(r world.Resources) []int64 {
	out := make([]int64, m.dims)
	copy(out, r)
	return out
}

func addTo(a, b []int64) {
	for i, v := range b {
		a[i] = world.AddSat(a[i], v)
	}
}

func subFrom(a, b []int64) {
	for i, v := range b {
		a[i] = world.AddSat(a[i], -v)
	}
}

// fits says whether size is at most free wherever something is asked for.
func fits(size, free []int64) bool {
	for i, v := range size {
		if v > free[i] && v > 0 {
			return false
		}
	}
	return true
}

// fitsWith says whether size fits together with what the first of a kind takes besides: attachments of volumes that its kind shares.
func fitsWith(size, once, free []int64) bool {
	for i, v := range once {
		if v > 0 && size[i]+v > free[i] {
			return false
		}
	}
	return fits(size, free)
}
