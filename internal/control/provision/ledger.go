package provision

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

const (
	// maxNodesWhy is how many new nodes of a plan an entry explains one by one.
	maxNodesWhy = 50
	// noPoolsKey is the key of the entry about pods for which no pool makes nodes.
	noPoolsKey = "no pools"
)

// ledgerRecorder keeps what is decided in the ledger: each plan that makes nodes, and of unschedulable pods each group with its reason,
// once for as long as that lasts.
type ledgerRecorder struct {
	ledger  *ledger.Ledger
	reading state.Options
	// open are the refusals that last, by key.
	open map[string]refusal
}

// refusal is an entry about unschedulable pods.
type refusal struct {
	id    uint64
	first string
	count int
}

func newLedgerRecorder(p *Provisioner) *ledgerRecorder {
	return &ledgerRecorder{ledger: p.Ledger, reading: p.Reading}
}

// begin finds the refusals that an earlier process has left open.
func (b *ledgerRecorder) begin() {
	if b.open != nil {
		return
	}
	b.open = map[string]refusal{}
	for _, e := range b.ledger.List(ledger.Query{Kinds: []ledger.Kind{ledger.Refusal}}) {
		if e.Outcome == ledger.Open && strings.HasPrefix(e.Key, refusalKey) {
			b.open[e.Key] = refusal{id: e.ID}
		}
	}
}

// refusalKey begins the keys of refusals of pods.
const refusalKey = "pods "

// placed notes that no pod is unschedulable.
func (b *ledgerRecorder) placed() {
	if b.ledger != nil && (b.open == nil || len(b.open) > 0) {
		b.refuse(nil)
	}
}

// decided keeps a plan and returns its entry; 0 if it makes no nodes.
func (b *ledgerRecorder) decided(m *moment, plan *pack.Plan, list []*Draft) uint64 {
	if b.ledger == nil {
		return 0
	}
	b.begin()
	groups := slices.Concat(b.stranded(m, plan.Real().Unplaced), b.shrunk(m, plan))
	news := slices.ContainsFunc(groups, func(w *stranded) bool { _, known := b.open[w.entry.Key]; return !known })
	input := ""
	var answer *model.Plan
	if len(list) > 0 || news {
		answer = ledger.NewPlanAnswer(m.snap, plan)
		input = b.ledger.Record(ledger.Moment{
			View: m.view, Facts: m.facts, Options: ledger.NewOptions(b.reading, disrupt.Options{Pack: m.options}), At: m.now, Answer: &ledger.Answer{Plan: answer},
		})
	}
	for _, w := range groups {
		w.entry.Input, w.entry.Recorded = input, input != ""
	}
	if !m.options.Quick { // in haste reasons are found for the first pods only
		b.refuse(groups)
	}
	if len(list) == 0 {
		return 0
	}
	e := ledger.Entry{Kind: ledger.Plan, Reason: "Provisioned", Outcome: ledger.Open, Input: input, Recorded: input != "", Saves: -plan.Price}
	describe(m.snap, &e, plan, answer, list)
	return b.ledger.Add(e)
}

// describe enters the nodes of a plan.
func describe(snap *world.Snapshot, e *ledger.Entry, plan *pack.Plan, answer *model.Plan, list []*Draft) {
	at := make(map[*pack.NewNode]int, len(plan.Nodes))
	for i, n := range plan.Nodes {
		at[n] = i
	}
	pods := 0
	var held []*world.Pod
	for i, d := range list {
		node := answer.Nodes[at[d.Node]].Node
		node.Claim, node.Node = d.Claim.Name, ""
		e.Add = append(e.Add, node)
		pods += len(world.Real(d.Node.Pods))
		held = append(held, d.Node.Pods...)
		if i < maxNodesWhy {
			e.Why = append(e.Why, why.Reason{Code: why.Chosen, Text: d.Claim.Name + ": " + node.Words(), Because: d.Node.Why})
		}
	}
	spare := snap.SparePods(held)
	for _, h := range spare {
		e.About = append(e.About, bufferRef(h.Buffer))
	}
	e.Summary = ledger.PlanSummary(pods, world.HeldWords(spare), e.Add)
}

// settle says what became of a plan's claims.
func (b *ledgerRecorder) settle(entry uint64, list []*Draft, errs []error) {
	if b.ledger == nil || len(list) == 0 {
		return
	}
	failed := 0
	var first error
	for _, err := range errs {
		if err != nil {
			failed++
			first = cmp.Or(first, err)
		}
	}
	switch {
	case failed == 0:
		b.ledger.Settle(entry, ledger.Done, why.Count(len(list), "claim")+" created")
	case failed == len(list):
		b.ledger.Settle(entry, ledger.Failed, "no claim could be created: "+stable(first))
	default:
		b.ledger.Settle(entry, ledger.Failed, fmt.Sprintf("%d of %s could not be created: %s", failed, why.Count(len(list), "claim"), stable(first)))
	}
}

// stranded is a group of unschedulable pods: those of one owner and reason.
type stranded struct {
	entry ledger.Entry
	pods  int
}

func (b *ledgerRecorder) stranded(m *moment, list []*pack.Unplaced) []*stranded {
	var out []*stranded
	byKey := map[string]*stranded{}
	for _, u := range list {
		if optsOut(m.snap.Classes[u.Pods[0].Class]) || len(u.Reasons) == 0 {
			continue
		}
		key := refusalKey + owner(m, u.Pods[0]) + " " + codes(u.Reasons)
		w := byKey[key]
		if w == nil {
			w = &stranded{entry: ledger.Entry{Kind: ledger.Refusal, Reason: string(u.Reasons[0].Code), Key: key, Why: u.Reasons, Outcome: ledger.Open}}
			byKey[key] = w
			out = append(out, w)
		}
		w.pods += len(u.Pods)
		w.entry.About = about(m.snap, w.entry.About, u.Pods)
	}
	for _, w := range out {
		w.entry.Summary = noPlace(w.pods, w.entry.About[0], reasonsText(w.entry.Why))
	}
	return out
}

// shrunk are the buffers of which spare pods have room nowhere.
func (b *ledgerRecorder) shrunk(m *moment, plan *pack.Plan) (out []*stranded) {
	for _, f := range Spare(m.snap, plan) {
		if f.Refused == 0 || len(f.Why) == 0 {
			continue
		}
		w := &stranded{pods: f.Refused, entry: ledger.Entry{
			Kind: ledger.Refusal, Reason: string(f.Why[0].Code), Key: refusalKey + "CapacityBuffer/" + f.Buffer + " " + codes(f.Why), Why: f.Why, Outcome: ledger.Open,
			About: []ledger.Ref{bufferRef(f.Buffer)},
		}}
		w.entry.Summary = fmt.Sprintf("buffer %s has no room for %d of %s: %s", f.Buffer, f.Refused, why.Count(f.Fits+f.New+f.Refused, "spare pod"), reasonsText(f.Why))
		out = append(out, w)
	}
	return out
}

func bufferRef(buffer string) ledger.Ref {
	space, name, _ := strings.Cut(buffer, "/")
	return ledger.Ref{Kind: "CapacityBuffer", Namespace: space, Name: name}
}

func noPlace(pods int, first ledger.Ref, because string) string {
	name := first.Namespace + "/" + first.Name
	if pods > 1 {
		return fmt.Sprintf("%d pods such as %s are unschedulable: %s", pods, name, because)
	}
	return fmt.Sprintf("pod %s is unschedulable: %s", name, because)
}

// owner names what made a pod, or the pod itself if nothing did.
func owner(m *moment, pod *world.Pod) string {
	space := m.snap.Classes[pod.Class].Namespace
	if p := m.view.Pod(uid(pod)); p != nil {
		if o := metav1.GetControllerOf(p); o != nil {
			return o.Kind + "/" + space + "/" + o.Name
		}
	}
	return "Pod/" + space + "/" + pod.Name
}

// about adds pods to the objects that an entry can be found by, up to a number.
func about(snap *world.Snapshot, list []ledger.Ref, pods []*world.Pod) []ledger.Ref {
	for _, p := range pods {
		if len(list) == ledger.MaxNamed {
			break
		}
		list = append(list, ledger.Ref{Kind: "Pod", Namespace: snap.Classes[p.Class].Namespace, Name: p.Name})
	}
	return list
}

// refuse keeps refusals that are new, changes those that concern other pods than before, and ends those that are over.
func (b *ledgerRecorder) refuse(list []*stranded) {
	b.begin()
	current := map[string]bool{}
	for _, w := range list {
		e := w.entry
		current[e.Key] = true
		first := e.About[0].Namespace + "/" + e.About[0].Name
		was, known := b.open[e.Key]
		switch {
		case !known:
			was.id = b.ledger.Add(e)
		case was.count != w.pods || was.first != first:
			b.ledger.Change(was.id, func(old *ledger.Entry) { old.Summary, old.Why, old.About = e.Summary, e.Why, e.About })
		}
		b.open[e.Key] = refusal{was.id, first, w.pods}
	}
	for _, key := range slices.Sorted(maps.Keys(b.open)) {
		if !current[key] {
			b.ledger.Settle(b.open[key].id, ledger.Done, "the pods fit now, are pending for another reason, or are deleted")
			delete(b.open, key)
		}
	}
}

// noPools keeps that no pool makes nodes for the pods.
func (b *ledgerRecorder) noPools(m *moment, pods []*world.Pod) {
	if b.ledger == nil {
		return
	}
	reason := why.New(why.NoPool, "no NodePool makes nodes")
	w := &stranded{pods: len(pods), entry: ledger.Entry{
		Kind: ledger.Refusal, Reason: string(reason.Code), Key: refusalKey + noPoolsKey, Why: []why.Reason{reason}, Outcome: ledger.Open, About: about(m.snap, nil, pods),
	}}
	w.entry.Summary = noPlace(len(pods), w.entry.About[0], reason.Line())
	b.refuse([]*stranded{w})
}
