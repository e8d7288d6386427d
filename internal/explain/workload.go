package explain

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
)

// WorkloadKinds are the kinds that own pods and can be asked about.
var WorkloadKinds = []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"}

// Workload is what can be said about the pods of a workload: those that have the same reason together, with one of them explained.
type Workload struct {
	Subject ledger.Ref `json:"subject"`
	// Verdict says in one sentence how its pods are.
	Verdict string      `json:"verdict"`
	Groups  []PodsAlike `json:"groups"`
	// Price is its part in what its nodes cost an hour, and Nodes how many those are; 0 where no price is known.
	Price float64 `json:"pricePerHour,omitempty"`
	Nodes int     `json:"nodes"`
}

// WorkloadDocument is an answer about a workload for programs.
type WorkloadDocument struct {
	model.Type
	*Workload
	// Estimate says what prices are if nobody in the cluster has said it.
	Estimate string `json:"estimate,omitempty"`
}

// Document makes a document of the answer.
func (w *Workload) Document(estimate string) *WorkloadDocument {
	return &WorkloadDocument{model.TypeOf(model.KindWorkload), w, estimate}
}

// PodsAlike are pods with the same main reason.
type PodsAlike struct {
	// Reason is what they have in common: running, or why they are pending.
	Reason string   `json:"reason"`
	Pods   []string `json:"pods"`
	// Example is the answer about the first of them.
	Example *Answer `json:"example"`
}

// The order of groups: what needs attention first.
const (
	rankStuck = iota
	rankPending
	rankIdle
	rankEnding
	rankRunning
)

// onItsWay is what pods have in common whose nodes are being launched.
const onItsWay = "pending until a node is ready that is on its way"

// owned is a pod of a workload.
type owned struct {
	name   string // with its namespace
	rank   int
	reason string
	place  place
	object *corev1.Pod
}

// Workload says how the pods of a workload are. Which pods those are is said by the pods themselves, by the owner that they name.
func (c *Cluster) Workload(kind, namespace, name string) (*Workload, error) {
	namespace = cmp.Or(namespace, corev1.NamespaceDefault)
	pods := c.owned(kind, func(space, owner string) bool { return space == namespace && owner == name })
	if len(pods) == 0 {
		return nil, c.noWorkload(kind, namespace, name)
	}
	w := &Workload{Subject: ledger.Ref{Kind: kind, Namespace: namespace, Name: name}}
	for _, p := range pods {
		last := len(w.Groups) - 1
		if last < 0 || w.Groups[last].Reason != p.reason {
			space, short, _ := strings.Cut(p.name, "/")
			example, err := c.Pod(space, short)
			if err != nil {
				return nil, err
			}
			w.Groups = append(w.Groups, PodsAlike{Reason: p.reason, Example: example})
			last++
		}
		w.Groups[last].Pods = append(w.Groups[last].Pods, p.name)
	}
	w.Verdict = verdictOf(pods)
	w.Price, w.Nodes = c.priceOf(pods)
	return w, nil
}

// Namespaces lists where there is a pod or a workload of a name, sorted.
func (c *Cluster) Namespaces(kind, name string) []string {
	found := map[string]bool{}
	if kind == "Pod" {
		c.find("") // makes the index
		for full := range c.pods {
			if space, short, _ := strings.Cut(full, "/"); short == name {
				found[space] = true
			}
		}
		for _, p := range c.view.Idle() {
			if p.Name == name {
				found[cmp.Or(p.Namespace, corev1.NamespaceDefault)] = true
			}
		}
	} else {
		c.owned(kind, func(space, owner string) bool {
			if owner == name {
				found[space] = true
			}
			return false
		})
	}
	return slices.Sorted(maps.Keys(found))
}

// owned lists the pods of a kind of workload that are asked for, by reason, what needs attention first.
func (c *Cluster) owned(kind string, is func(namespace, owner string) bool) []owned {
	var out []owned
	add := func(name string, at place, obj *corev1.Pod) {
		if obj == nil {
			return
		}
		if owner := ownerOf(obj, kind); owner != "" && is(cmp.Or(obj.Namespace, corev1.NamespaceDefault), owner) {
			out = append(out, owned{name: name, place: at, object: obj})
		}
	}
	c.find("") // makes the index
	for name, at := range c.pods {
		add(name, at, c.podObject(at))
	}
	for _, p := range c.view.Idle() {
		add(cmp.Or(p.Namespace, corev1.NamespaceDefault)+"/"+p.Name, place{node: -1}, p)
	}
	for i := range out {
		c.rank(&out[i])
	}
	slices.SortFunc(out, func(a, b owned) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.reason, b.reason), strings.Compare(a.name, b.name))
	})
	return out
}

// ownerOf is the name of a pod's owner of a kind, or "". A Deployment owns pods through a ReplicaSet, whose name is its own and the hash of
// the template, which pods carry as a label.
func ownerOf(p *corev1.Pod, kind string) string {
	for i := range p.OwnerReferences {
		r := &p.OwnerReferences[i]
		if r.Controller == nil || !*r.Controller {
			continue
		}
		if r.Kind == kind {
			return r.Name
		}
		hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		if owner, ok := strings.CutSuffix(r.Name, "-"+hash); ok && kind == "Deployment" && r.Kind == "ReplicaSet" && hash != "" {
			return owner
		}
	}
	return ""
}

// rank says how a pod is, in the words that pods alike have in common.
func (c *Cluster) rank(p *owned) {
	obj, at := p.object, p.place
	switch {
	case at.pod == nil:
		a := &Answer{}
		c.idlePod(a, obj)
		p.rank, p.reason = rankIdle, strings.TrimPrefix(a.Verdict, "is ")
	case at.pod.Terminating:
		p.rank, p.reason = rankEnding, "ending"
	case obj.Spec.NodeName != "":
		p.rank, p.reason = rankRunning, "running"
	case at.node >= 0:
		p.rank, p.reason = rankPending, onItsWay
	default:
		p.rank, p.reason = c.rankWaiting(at)
	}
}

// rankWaiting is about a pod that needs a node.
func (c *Cluster) rankWaiting(at place) (rank int, reason string) {
	is := func(p *world.Pod) bool { return p == at.pod || p.UID == at.pod.UID && p.Name == at.pod.Name }
	for _, u := range c.Plan().Unplaced {
		if slices.ContainsFunc(u.Pods, is) {
			return rankStuck, "pending: " + cmp.Or(c.world.Classes[at.pod.Class].Refused, model.MainReason(u.Reasons))
		}
	}
	for _, f := range c.Plan().Existing {
		switch {
		case !slices.ContainsFunc(f.Pods, is):
		case f.Node.InFlight || !f.Node.Initialized:
			return rankPending, onItsWay
		default:
			return rankPending, "pending until kube-scheduler binds it: a node has room"
		}
	}
	return rankPending, "pending until a new node is launched"
}

// verdictOf counts pods by how they are.
func verdictOf(pods []owned) string {
	words := [...]string{rankStuck: "unschedulable", rankPending: "pending", rankIdle: "not planned for", rankEnding: "ending", rankRunning: "running"}
	var counts [len(words)]int
	for _, p := range pods {
		counts[p.rank]++
	}
	var parts []string
	for rank, n := range counts {
		if n == len(pods) {
			if n == 1 {
				return "has 1 pod, which is " + words[rank]
			}
			return fmt.Sprintf("has %d pods, all of them %s", n, words[rank])
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, words[rank]))
		}
	}
	return fmt.Sprintf("has %s: %s", why.Count(len(pods), "pod"), strings.Join(parts, ", "))
}

// priceOf is what the pods' share in their nodes costs an hour: of each node the part that their requests are of all requests on it, the
// mean of cpu and memory. What is planned or on its way is not paid for yet.
func (c *Cluster) priceOf(pods []owned) (price float64, nodes int) {
	mine := map[int][]*world.Pod{}
	for _, p := range pods {
		if p.place.pod != nil && p.place.node >= 0 && p.object.Spec.NodeName != "" {
			mine[p.place.node] = append(mine[p.place.node], p.place.pod)
		}
	}
	for _, i := range slices.Sorted(maps.Keys(mine)) {
		n := c.world.Nodes[i]
		for k, share := range model.Shares(c.world, n.Pods) {
			if slices.Contains(mine[i], n.Pods[k]) {
				price += n.Price * share
			}
		}
	}
	return price, len(mine)
}

// noWorkload is the error about a workload that no pod belongs to.
func (c *Cluster) noWorkload(kind, namespace, name string) error {
	seen := map[string]bool{}
	c.owned(kind, func(space, owner string) bool {
		seen[space+"/"+owner] = true
		return false
	})
	var elsewhere string
	var here []string
	for full := range seen {
		space, owner, _ := strings.Cut(full, "/")
		if owner == name && (elsewhere == "" || full < elsewhere) {
			elsewhere = full
		}
		if space == namespace {
			here = append(here, owner)
		}
	}
	slices.Sort(here)
	if elsewhere == "" {
		if elsewhere = why.Similar(name, here); elsewhere != "" {
			elsewhere = namespace + "/" + elsewhere
		}
	}
	return &NotFound{Kind: strings.ToLower(kind) + " with pods called", Name: namespace + "/" + name, Similar: elsewhere, Note: "pods that have finished are not looked at"}
}

// Headline is how the pods are, in one sentence.
func (w *Workload) Headline() string {
	text := fmt.Sprintf("%s %s/%s %s", w.Subject.Kind, w.Subject.Namespace, w.Subject.Name, w.Verdict)
	if w.Price > 0 {
		text += fmt.Sprintf(". Its share of %s costs %s, %s/month", why.Count(w.Nodes, "node"), why.Money(w.Price), why.Dollars(w.Price*model.HoursPerMonth))
	}
	return text + "."
}

// Text prints the answer for people: how many pods have which reason, with one of each explained.
func (w *Workload) Text(out io.Writer) error { return w.print(out, (*Answer).Text) }

// Tree prints the same, with the reasons of the explained pods as trees.
func (w *Workload) Tree(out io.Writer) error { return w.print(out, (*Answer).Tree) }

func (w *Workload) print(out io.Writer, one func(*Answer, io.Writer) error) error {
	var b strings.Builder
	b.WriteString(w.Headline() + "\n")
	for _, g := range w.Groups {
		b.WriteByte('\n')
		if len(g.Pods) > 1 { // of one pod its own answer says it
			fmt.Fprintf(&b, "%s %s; one of them:\n", why.Count(len(g.Pods), "pod"), g.Reason)
		}
		var example strings.Builder
		if err := one(g.Example, &example); err != nil {
			return err
		}
		for _, line := range strings.Split(strings.TrimRight(example.String(), "\n"), "\n") {
			fmt.Fprintln(&b, strings.TrimRight("  "+line, " "))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
