package web

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// maxChanges is how far behind a reader may be and still get only what has changed; at twenty looks a second that is some ten
// seconds. Who is further behind gets everything.
const maxChanges = 200

// sectionNames are the parts of the model besides nodes. A section is sent as a whole when it has changed.
var sectionNames = [...]string{"about", "totals", "savings", "pending", "next", "problems"}

const (
	sectionAbout = iota
	sectionTotals
	sectionSavings
	sectionPending
	sectionNext
	sectionProblems
)

// hub keeps the model that pages show, in the form in which they get it, and what has changed from version to version.
type hub struct {
	src     Source
	run     string
	history *History
	aboutAt time.Time // when the source was last asked what it is about
	watch   <-chan *ledger.Entry

	mu       sync.Mutex
	view     *state.View
	plan     *pack.Plan
	decision *disrupt.Decision
	counter  savingsCounter
	// unshown says that savings have been counted that the model does not show yet, asked when somebody last read it.
	unshown bool
	asked   time.Time

	version  uint64
	keys     []string // in order
	nodes    map[string]*hubNode
	spare    map[string][]model.Spare // room that nodes hold for buffers, by key
	sections [len(sectionNames)]json.RawMessage
	changes  []change // the latest last; the last one led to version
	totals   *model.Totals
}

type hubNode struct {
	from  *state.Node
	model *liveNode
	data  json.RawMessage
}

// change is what made a version differ from the one before.
type change struct {
	keys     []string // nodes that are new or different
	gone     []string
	sections [len(sectionNames)]bool
}

func newHub(src Source, history *History) *hub {
	watch, _ := src.Ledger().Watch()
	started := src.About().Started
	if history == nil {
		history = &History{}
	}
	return &hub{src: src, history: history, run: strconv.FormatInt(started.UnixNano(), 36), watch: watch, nodes: map[string]*hubNode{}, totals: &model.Totals{}}
}

// letGo is how long after the last reader the model is kept: it has a copy of all that it shows.
const letGo = 5 * time.Minute

// tend does what must not wait for a reader: savings are counted before the ledger forgets what they come from, and figures are taken.
func (h *hub) tend() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.src.Now()
	h.history.Take(h.src.View(), now)
	if h.told() {
		h.counter.count(h.src.Ledger(), now)
		h.unshown = true
	}
	if h.view == nil || now.Sub(h.asked) < letGo {
		return
	}
	h.view, h.plan, h.decision, h.spare, h.totals = nil, nil, nil, nil, &model.Totals{}
	h.keys, h.nodes, h.changes = nil, map[string]*hubNode{}, nil
	h.version++ // whoever comes back gets everything
}

// refresh looks at the source and returns the version of the model. It costs what has changed.
func (h *hub) refresh() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.src.Now()
	h.asked = now
	view := h.src.View()
	plan, _ := h.src.Plan()
	decision, input, _ := h.src.Decision()
	var c change
	held := decision != h.decision && h.setSpare(decision, input)
	if view != nil && (view != h.view || held) {
		h.setNodes(view, &c)
		totals := model.AddUp(h.rows(), len(view.World.Pending))
		h.totals = &totals
		h.set(&c, sectionTotals, h.totals)
		h.set(&c, sectionProblems, problemsOf(view))
	}
	if view != nil && (view != h.view || plan != h.plan || decision != h.decision) {
		ahead, pods := lookAhead(view, h.src)
		h.set(&c, sectionNext, ahead)
		h.set(&c, sectionPending, pods)
	}
	h.view, h.plan, h.decision = view, plan, decision
	if h.told() || h.unshown || h.sections[sectionSavings] == nil {
		h.unshown = false
		h.counter.count(h.src.Ledger(), now)
		h.set(&c, sectionSavings, h.counter.savings)
	}
	if h.history.due(now) {
		h.history.add(now, h.totals)
	}
	if h.aboutAt.IsZero() || now.Sub(h.aboutAt) >= SampleEvery {
		h.aboutAt = now
		h.set(&c, sectionAbout, h.src.About())
	}
	h.keep(c)
	return h.version
}

// told says whether the ledger has something new.
func (h *hub) told() bool {
	news := false
	for {
		select {
		case <-h.watch:
			news = true
		default:
			return news
		}
	}
}

// setSpare takes note of the room that nodes hold for buffers, and says whether that is news.
func (h *hub) setSpare(d *disrupt.Decision, in *disrupt.Input) bool {
	spare := map[string][]model.Spare{}
	if d != nil && in != nil {
		for i, list := range model.SpareRoom(in.World, d) {
			spare[keyOf(in.World.Nodes[i])] = list
		}
	}
	same := maps.EqualFunc(spare, h.spare, slices.Equal[[]model.Spare])
	h.spare = spare
	return !same
}

// setNodes brings the nodes up to date.
func (h *hub) setNodes(v *state.View, c *change) {
	seen := make(map[string]bool, len(v.Nodes))
	for _, n := range v.Nodes {
		key := keyOf(n.World)
		seen[key] = true
		have, spare := h.nodes[key], h.spare[key]
		if n.World.Deleting {
			spare = nil
		}
		if have != nil && have.from == n && slices.Equal(have.model.Spare, spare) {
			continue
		}
		node := newLiveNode(v.World, n)
		node.Spare = spare
		data, err := json.Marshal(node)
		if err != nil {
			continue // numbers and names only: cannot happen
		}
		node.PodRows = nil // they are in data, and most of what there is to keep
		if have == nil || !bytes.Equal(have.data, data) {
			c.keys = append(c.keys, key)
		}
		h.nodes[key] = &hubNode{from: n, model: node, data: data}
	}
	for _, key := range h.keys {
		if !seen[key] {
			delete(h.nodes, key)
			c.gone = append(c.gone, key)
		}
	}
	if len(c.keys) > 0 || len(c.gone) > 0 {
		h.keys = h.keys[:0]
		for key := range h.nodes {
			h.keys = append(h.keys, key)
		}
		slices.SortFunc(h.keys, strings.Compare)
	}
}

func (h *hub) rows() []*model.FleetNode {
	out := make([]*model.FleetNode, 0, len(h.keys))
	for _, key := range h.keys {
		out = append(out, &h.nodes[key].model.FleetNode)
	}
	return out
}

// set replaces a section if it reads differently.
func (h *hub) set(c *change, section int, value any) {
	data, err := json.Marshal(value)
	if err != nil || bytes.Equal(data, h.sections[section]) {
		return
	}
	h.sections[section] = data
	c.sections[section] = true
}

// keep makes a new version of a change, if it is one.
func (h *hub) keep(c change) {
	if len(c.keys) == 0 && len(c.gone) == 0 && !slices.Contains(c.sections[:], true) {
		return
	}
	h.version++
	h.changes = append(h.changes, c)
	if len(h.changes) > 2*maxChanges {
		h.changes = slices.Clone(h.changes[len(h.changes)-maxChanges:])
	}
}

// since is what a reader of a version needs in order to be up to date, and the version it has then: only what has changed if
// that is known, else everything; nil if there is nothing new.
func (h *hub) since(run string, version uint64, now time.Time) ([]byte, uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if run == h.run && version == h.version {
		return nil, version
	}
	behind := h.version - version
	if run != h.run || version > h.version || behind > uint64(len(h.changes)) || behind > maxChanges {
		return h.full(now), h.version
	}
	return h.delta(h.changes[len(h.changes)-int(behind):], version, now), h.version
}

// full writes everything.
func (h *hub) full(now time.Time) []byte {
	var sections [len(sectionNames)]bool
	for i := range sections {
		sections[i] = h.sections[i] != nil
	}
	w := h.begin(now)
	w.WriteString(`,"full":true`)
	h.write(w, h.keys, nil, sections)
	return w.Bytes()
}

// delta writes what several changes come to.
func (h *hub) delta(changes []change, from uint64, now time.Time) []byte {
	var sections [len(sectionNames)]bool
	changed, gone := map[string]bool{}, map[string]bool{}
	for _, c := range changes {
		for _, key := range c.keys {
			changed[key] = true
		}
		for _, key := range c.gone {
			gone[key] = true
		}
		for i, is := range c.sections {
			sections[i] = sections[i] || is
		}
	}
	var keys, left []string
	for key := range changed {
		if h.nodes[key] != nil {
			keys = append(keys, key)
		}
	}
	for key := range gone {
		if h.nodes[key] == nil {
			left = append(left, key)
		}
	}
	slices.Sort(keys)
	slices.Sort(left)
	w := h.begin(now)
	w.WriteString(`,"from":` + strconv.FormatUint(from, 10))
	h.write(w, keys, left, sections)
	return w.Bytes()
}

func (h *hub) begin(now time.Time) *bytes.Buffer {
	w := &bytes.Buffer{}
	w.WriteString(`{"apiVersion":"` + model.APIVersion + `","kind":"` + model.KindLiveFleet + `","run":"` + h.run + `","version":` + strconv.FormatUint(h.version, 10) + `,"at":"` + now.UTC().Format(time.RFC3339Nano) + `"`)
	return w
}

func (h *hub) write(w *bytes.Buffer, keys, gone []string, sections [len(sectionNames)]bool) {
	w.WriteString(`,"nodes":[`)
	for i, key := range keys {
		if i > 0 {
			w.WriteByte(',')
		}
		w.Write(h.nodes[key].data)
	}
	w.WriteByte(']')
	if len(gone) > 0 {
		if data, err := json.Marshal(gone); err == nil {
			w.WriteString(`,"gone":`)
			w.Write(data)
		}
	}
	for i, wanted := range sections {
		if wanted {
			w.WriteString(`,"` + sectionNames[i] + `":`)
			w.Write(h.sections[i])
		}
	}
	w.WriteByte('}')
}
