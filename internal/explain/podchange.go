package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/model"
)

const (
	// maxChanges bounds how many changes an answer names, maxTried how many that came to nothing.
	maxChanges = 4
	maxTried   = 6
	// maxPairs bounds how many pairs of changes are tried where none alone helps.
	maxPairs = 60
	// maxPools bounds how many pools changes are looked for in, the heaviest first.
	maxPools = 8
)

// stuckPod is about a pod that the plan leaves unschedulable.
func (c *Cluster) stuckPod(a *Answer, at place, u *pack.Unplaced) {
	a.Why = u.Reasons
	a.Verdict = "is pending: " + model.MainReason(u.Reasons)
	class := c.world.Classes[at.pod.Class]
	if class.Refused != "" {
		a.Verdict = "is pending, and is not planned for: " + class.Refused
		return
	}
	if len(c.world.Pools) == 0 {
		a.Verdict = "is pending: there is no NodePool, so that no node can be launched"
		a.Change = []Change{{Text: "Creating a NodePool whose requirements admit it would get it a node."}}
		return
	}
	q := &podQuestion{c: c, pod: at.pod, base: c.after()}
	if l, _ := q.try(); l != nil {
		a.Change = []Change{{Text: "Nothing needs to change: once the pods before it are placed, the next plan " + l.text() + ".", Costs: l.price()}}
		return
	}
	q.search(a)
}

// search tries changes one by one, then two together, and fills in what helps.
func (q *podQuestion) search(a *Answer) {
	tweaks := q.tweaks()
	var weak []Change
	for i := range tweaks {
		if len(a.Change) == maxChanges {
			break
		}
		w := &tweaks[i]
		if w.last && len(a.Change)+len(weak) > 0 {
			continue
		}
		l, still := q.try(w)
		switch {
		case l != nil && w.weak != nil && w.weak():
			weak = append(weak, q.change(a, l, w.what(l)))
		case l != nil:
			a.Change = append(a.Change, q.change(a, l, w.what(l)))
		case len(a.Tried) < maxTried && len(still) > 0 && model.MainReason(still) != model.MainReason(a.Why): // else it is beside the point
			r := why.New(still[0].Code, "%s would not be enough", w.what(nil))
			r.Because = []why.Reason{why.New(still[0].Code, "%s", model.MainReason(still))}
			a.Tried = append(a.Tried, r)
		}
	}
	if a.Change = append(a.Change, weak[:min(len(weak), maxChanges-len(a.Change))]...); len(a.Change) > 0 {
		return
	}
	tweaks = slices.DeleteFunc(tweaks, func(w tweak) bool { return w.alone })
	pairs := 0
	for i := range tweaks {
		for k := i + 1; k < len(tweaks) && pairs < maxPairs; k++ {
			pairs++
			if l, _ := q.try(&tweaks[i], &tweaks[k]); l != nil {
				a.Change = []Change{q.change(a, l, fmt.Sprintf("%s and %s together", tweaks[i].what(l), lower(tweaks[k].what(l))))}
				return
			}
		}
	}
	a.Tried = append(a.Tried, why.New(why.NextBest, "no one or two changes would make it fit"))
}

// change is a sentence about a change that helps; the cheapest new node is noted as what comes nearest.
func (q *podQuestion) change(a *Answer, l *landing, what string) Change {
	if l.node != nil && (a.Nearest == nil || l.price() < a.Nearest.Price) {
		a.Nearest = alternative(l.node.Pool.Name, l.node.Choices[0])
	}
	return Change{Text: sentence(what + " " + l.text()), Costs: l.price()}
}

func lower(text string) string {
	if len(text) > 1 && text[1] >= 'a' && text[1] <= 'z' {
		return strings.ToLower(text[:1]) + text[1:]
	}
	return text
}

// tweaks lists the changes that are tried, the smallest first: what the pod asks for, then what pools allow.
func (q *podQuestion) tweaks() []tweak {
	class := q.c.world.Classes[q.pod.Class]
	pools := q.pools()
	var out []tweak
	out = append(out, q.tolerations(class, pools)...)
	out = append(out, q.clauses(class)...)
	for _, p := range pools {
		out = append(out, q.limits(p)...)
	}
	out = append(out, q.requests(class)...)
	out = append(out, podRuleTweaks(class)...)
	for _, p := range pools {
		out = append(out, poolTweaks(p)...)
	}
	out = append(out, volumes(class)...)
	if len(class.Ports) > 0 {
		out = append(out, tweak{what: saying("Giving up its host ports"), do: func(t *trial) { t.class.Ports = nil }})
	}
	return append(out, q.guards(class)...)
}

// pools lists those in which changes are looked for.
func (q *podQuestion) pools() []*world.Pool {
	out := slices.DeleteFunc(slices.Clone(q.base.Pools), func(p *world.Pool) bool { return p.Static })
	slices.SortStableFunc(out, func(x, y *world.Pool) int {
		return cmp.Or(cmp.Compare(y.Weight, x.Weight), strings.Compare(x.Name, y.Name))
	})
	return out[:min(len(out), maxPools)]
}

// tolerations lets the pod tolerate the taints of one pool.
func (q *podQuestion) tolerations(class *world.Class, pools []*world.Pool) []tweak {
	var out []tweak
	seen := map[string]bool{}
	for _, p := range pools {
		var add []world.Toleration
		var names []string
		for _, x := range p.Taints {
			if _, bad := world.Untolerated([]world.Taint{x}, class.Tolerations, false); bad {
				add = append(add, world.Toleration{Key: x.Key, Operator: "Equal", Value: x.Value, Effect: x.Effect})
				names = append(names, x.String())
			}
		}
		key := strings.Join(names, " and ")
		if len(add) == 0 || seen[key] {
			continue
		}
		seen[key] = true
		out = append(out, tweak{what: saying("Tolerating " + key), do: func(t *trial) {
			t.class.Tolerations = slices.Concat(t.class.Tolerations, add)
		}})
	}
	return out
}

// clauses changes what the pod asks of a node's labels, one requirement at a time: what looks like a typo is put right, the others
// are dropped.
func (q *podQuestion) clauses(class *world.Class) []tweak {
	var out []tweak
	for i, cl := range class.Needs {
		if len(cl.Terms) != 1 {
			out = append(out, tweak{what: saying(fmt.Sprintf("Dropping all %d terms of %s", len(cl.Terms), cl.Source)), do: func(t *trial) {
				t.class.Needs = slices.Delete(slices.Clone(t.class.Needs), i, i+1)
			}})
			continue
		}
		for _, r := range cl.Terms[0] {
			meant, text := q.meant(r)
			if text != "" {
				out = append(out, tweak{what: saying(text + " in its " + cl.Source), do: func(t *trial) {
					t.class.Needs = append(without(t.class.Needs, cl.Source, r), world.Clause{Source: cl.Source, Terms: []req.Set{{meant}}})
				}})
			}
			out = append(out, tweak{
				last: text != "",
				what: func(l *landing) string { return instead(cl.Source, r, l) },
				do:   func(t *trial) { t.class.Needs = without(t.class.Needs, cl.Source, r) },
			})
		}
	}
	return out
}

// meant is what a requirement should say, and what is written instead, if it looks like a typo.
func (q *podQuestion) meant(r req.Requirement) (req.Requirement, string) {
	values, ok := r.Values()
	if !ok || len(values) != 1 {
		return r, ""
	}
	known := q.labels()
	if have := known[r.Key]; len(have) > 0 {
		if like := why.Similar(values[0], have); like != "" && !slices.Contains(have, values[0]) {
			return req.Is(r.Key, like), fmt.Sprintf("Writing %s instead of %s for %s", like, values[0], r.Key)
		}
		return r, ""
	}
	keys := make([]string, 0, len(known))
	for k := range known {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if like := why.Similar(r.Key, keys); like != "" {
		return req.Is(like, values[0]), fmt.Sprintf("Writing %s instead of %s", like, r.Key)
	}
	return r, ""
}

// labels lists the values of every label that a node has or would have.
func (q *podQuestion) labels() map[string][]string {
	if q.known != nil {
		return q.known
	}
	q.known = map[string][]string{}
	seen := map[world.Label]bool{}
	note := func(key, value string) {
		if l := (world.Label{Key: key, Value: value}); !seen[l] {
			seen[l] = true
			q.known[key] = append(q.known[key], value)
		}
	}
	for _, p := range q.base.Pools {
		offers, _ := p.Offers()
		for _, o := range offers {
			for _, list := range []world.Labels{o.Type.Labels, o.Offering.Labels, p.Labels} {
				for _, l := range list {
					note(l.Key, l.Value)
				}
			}
			for _, key := range []string{world.LabelInstanceType, world.LabelZone, world.LabelCapacityType, world.LabelPool} {
				if v, ok := p.NodeLabel(o.Type, o.Offering, key); ok {
					note(key, v)
				}
			}
		}
	}
	for _, n := range q.base.Nodes {
		for _, l := range n.Labels {
			note(l.Key, l.Value)
		}
	}
	for _, values := range q.known {
		slices.Sort(values)
	}
	return q.known
}

// instead says what to ask for in place of a requirement: what the node has where the pod would go.
func instead(source string, r req.Requirement, l *landing) string {
	if l != nil {
		if v, ok := l.label(r.Key); ok && r.Key != world.LabelHostname {
			return fmt.Sprintf("Asking for %s %s in its %s (now %s)", r.Key, v, source, relation(r))
		}
	}
	return fmt.Sprintf("Dropping %s from its %s", r.String(), source)
}

// relation is the requirement without its key.
func relation(r req.Requirement) string {
	return strings.TrimSpace(strings.TrimPrefix(r.String(), r.Key))
}

// without is the clauses less one requirement.
func without(list []world.Clause, source string, r req.Requirement) []world.Clause {
	out := slices.Clone(list)
	for i := range out {
		if out[i].Source != source || len(out[i].Terms) != 1 {
			continue
		}
		rest := slices.DeleteFunc(slices.Clone(out[i].Terms[0]), func(x req.Requirement) bool { return x.Key == r.Key && x.String() == r.String() })
		out[i] = world.Clause{Source: source, Terms: []req.Set{rest}}
	}
	return out
}

// volumes frees the pod from where a volume is.
func volumes(class *world.Class) []tweak {
	var out []tweak
	for i, cl := range class.Volumes {
		where := make([]string, len(cl.Terms))
		for k, t := range cl.Terms {
			where[k] = t.String()
		}
		out = append(out, tweak{what: saying(fmt.Sprintf("Moving %s elsewhere (now %s)", cl.Source, strings.Join(where, " or "))), do: func(t *trial) {
			t.class.Volumes = slices.Delete(slices.Clone(t.class.Volumes), i, i+1)
		}})
	}
	return out
}

// podRuleTweaks gives up what the pod asks of other pods, one rule at a time.
func podRuleTweaks(class *world.Class) []tweak {
	var out []tweak
	for i, s := range class.Spread {
		if s.Hard {
			out = append(out, tweak{what: saying(fmt.Sprintf("Making its topology spread over %s (maxSkew %d) ScheduleAnyway", s.Key, s.MaxSkew)), do: func(t *trial) {
				t.class.Spread = slices.Clone(t.class.Spread)
				t.class.Spread[i].Hard = false
			}})
		}
	}
	drop := func(name string, list []world.PodTerm, set func(*trial, []world.PodTerm)) {
		for i, x := range list {
			if x.Weight == 0 {
				out = append(out, tweak{what: saying(fmt.Sprintf("Dropping its required pod %s over %s", name, x.Key)), do: func(t *trial) {
					set(t, slices.Delete(slices.Clone(list), i, i+1))
				}})
			}
		}
	}
	drop("affinity", class.Affinity, func(t *trial, l []world.PodTerm) { t.class.Affinity = l })
	drop("anti-affinity", class.AntiAffinity, func(t *trial, l []world.PodTerm) { t.class.AntiAffinity = l })
	return out
}

// guards gives up the anti-affinity by which other pods keep this one away.
func (q *podQuestion) guards(class *world.Class) []tweak {
	keeps := func(x *world.Class, t *world.PodTerm) bool {
		return t.Weight == 0 && (t.AllNamespaces || slices.Contains(t.Namespaces, class.Namespace)) && t.Selector.Matches(class.Labels)
	}
	found := false
	classes := slices.Clone(q.base.Classes)
	for i, x := range classes {
		if x.ID == class.ID || !slices.ContainsFunc(x.AntiAffinity, func(t world.PodTerm) bool { return keeps(x, &t) }) {
			continue
		}
		found = true
		c := *x
		c.AntiAffinity = slices.DeleteFunc(slices.Clone(x.AntiAffinity), func(t world.PodTerm) bool { return keeps(x, &t) })
		classes[i] = &c
	}
	if !found {
		return nil
	}
	return []tweak{{what: saying("Dropping the anti-affinity by which other pods keep it away"), do: func(t *trial) { t.world.Classes = classes }}}
}
