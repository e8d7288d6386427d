package toworld

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/trim"
)

// Options says how objects are to be read.
type Options struct {
	// Aliases maps label keys that a provider knows under another name, such as the zone key of a CSI driver.
	Aliases map[string]string `json:"aliases,omitempty"`
	// WellKnown lists further label keys that a provider resolves, ProviderDomains domains of which it resolves every key.
	WellKnown       []string `json:"wellKnown,omitempty"`
	ProviderDomains []string `json:"providerDomains,omitempty"`
	// Class is the kind of node class whose pools and claims count; others are another provider's, and their nodes are nodes that
	// somebody else makes and ends. Without it all count.
	Class schema.GroupKind `json:"class,omitzero"`
	// DefaultSpread is applied to pods that have no topology spread constraint of their own.
	DefaultSpread []corev1.TopologySpreadConstraint `json:"defaultSpread,omitempty"`
	// AllowResourceClaims plans pods with dynamic resource claims as if they had none, instead of refusing them.
	AllowResourceClaims bool `json:"allowResourceClaims,omitempty"`
	// OwnDeletionCosts says that deletion costs of pods are Karpenter's to give: what its eviction costs is said by a pod's disruption
	// cost alone.
	OwnDeletionCosts bool `json:"ownDeletionCosts,omitempty"`
	// NodeOverlays has NodeOverlays correct instance types; without it they are not read.
	NodeOverlays bool `json:"nodeOverlays,omitempty"`
}

// Converter reads objects one at a time, with the little that it must know of others.
type Converter struct {
	opt   Options
	Rules v1.LabelRules
	// Names numbers resources.
	Names *world.Names

	Namespaces map[string]*corev1.Namespace
	// Services, by namespace, and Workloads are known only where default topology spread asks for them.
	Services  map[string][]Service
	Workloads map[WorkloadKey]Workload
}

// NewConverter returns one that knows of no object yet.
func NewConverter(opt Options) *Converter {
	rules := v1.CoreLabelRules()
	maps.Copy(rules.Aliases, opt.Aliases)
	rules.WellKnown.Insert(opt.WellKnown...)
	return &Converter{
		opt: opt, Rules: rules, Names: world.NewNames(),
		Namespaces: map[string]*corev1.Namespace{}, Services: map[string][]Service{}, Workloads: map[WorkloadKey]Workload{},
	}
}

// Draft is a pod spec converted but for what differs between pods of one spec: labels and volumes.
type Draft struct {
	ID    int
	Class world.Class
	key   string
	// Spaces says that the draft depends on the labels of namespaces.
	Spaces bool
	// reads lists the label keys that its selectors read.
	reads []string
	// refs counts the pods of the draft.
	refs int
}

// DraftSet keeps the drafts that pods have, each distinct one once, and counts which labels their selectors read: other labels
// cannot tell pods apart.
type DraftSet struct {
	ByKey map[string]*Draft
	specs *trim.Recent[specKey, specDraft]
	next  int
	// Spaces counts drafts that depend on namespaces, Reads drafts by label key.
	Spaces int
	Reads  map[string]int
}

// recentSpecs is how many specs are recognized without reading them again: some more than a cluster has workloads.
const recentSpecs = 4096

// specKey finds a spec by where its containers are in memory, which pods share if Trim or ReadList has seen them. The key keeps
// that memory from becoming another spec's.
type specKey struct {
	first     *corev1.Container
	namespace string
}

// specDraft is a spec with what it was converted to; empty for one that was seen only once.
type specDraft struct {
	spec  *corev1.PodSpec
	draft *Draft
}

// NewDraftSet returns an empty one.
func NewDraftSet() *DraftSet {
	return &DraftSet{ByKey: map[string]*Draft{}, specs: trim.NewRecent[specKey, specDraft](recentSpecs), Reads: map[string]int{}}
}

// Find converts the spec of a pod, or finds it converted.
func (s *DraftSet) Find(c *Converter, o *corev1.Pod) (*Draft, error) {
	if len(o.Spec.Containers) == 0 || len(c.opt.DefaultSpread) > 0 || trim.Resized(&o.Spec, &o.Status) || readsOwnLabels(&o.Spec) {
		return s.convert(c, o)
	}
	key := specKey{&o.Spec.Containers[0], Space(o)}
	known, again := s.specs.Get(key)
	if known.draft != nil && trim.SameSpec(known.spec, &o.Spec) {
		return s.intern(known.draft), nil
	}
	d, err := s.convert(c, o)
	switch {
	case err != nil || d.Spaces:
	case again: // worth remembering
		spec := o.Spec // not the one in the pod, which would keep all of it in memory
		spec.Volumes = nil
		s.specs.Put(key, specDraft{&spec, d})
	default:
		s.specs.Put(key, specDraft{})
	}
	return d, err
}

func (s *DraftSet) convert(c *Converter, o *corev1.Pod) (*Draft, error) {
	d, err := c.Pod(o)
	if err != nil {
		return nil, err
	}
	return s.intern(d), nil
}

// intern is the draft that pods with this key have.
func (s *DraftSet) intern(d *Draft) *Draft {
	if same, ok := s.ByKey[d.key]; ok {
		return same
	}
	if d.ID == 0 {
		s.next++
		d.ID = s.next
	}
	s.ByKey[d.key] = d
	return d
}

// Hold counts one more pod of the draft and returns label keys that nobody has read before.
func (s *DraftSet) Hold(d *Draft) (fresh []string) {
	d.refs++
	if d.refs > 1 {
		return nil
	}
	if d.Spaces {
		s.Spaces++
	}
	for _, k := range d.reads {
		s.Reads[k]++
		if s.Reads[k] == 1 {
			fresh = append(fresh, k)
		}
	}
	return fresh
}

// Release counts one pod less.
func (s *DraftSet) Release(d *Draft) {
	d.refs--
	if d.refs > 0 {
		return
	}
	delete(s.ByKey, d.key)
	if d.Spaces {
		s.Spaces--
	}
	for _, k := range d.reads {
		if s.Reads[k]--; s.Reads[k] == 0 {
			delete(s.Reads, k)
		}
	}
}

// readsOwnLabels says whether constraints depend on the labels of the pod itself, which its spec does not show.
func readsOwnLabels(spec *corev1.PodSpec) bool {
	for i := range spec.TopologySpreadConstraints {
		if len(spec.TopologySpreadConstraints[i].MatchLabelKeys) > 0 {
			return true
		}
	}
	keyed := func(t *corev1.PodAffinityTerm) bool { return len(t.MatchLabelKeys)+len(t.MismatchLabelKeys) > 0 }
	if a := spec.Affinity; a != nil {
		if p := a.PodAffinity; p != nil && anyTerm(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, keyed) {
			return true
		}
		if p := a.PodAntiAffinity; p != nil && anyTerm(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, keyed) {
			return true
		}
	}
	return false
}

func anyTerm(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, is func(*corev1.PodAffinityTerm) bool) bool {
	for i := range required {
		if is(&required[i]) {
			return true
		}
	}
	for i := range preferred {
		if is(&preferred[i].PodAffinityTerm) {
			return true
		}
	}
	return false
}

// Pod reads everything of a pod's spec that constrains where it may run.
func (b *Converter) Pod(o *corev1.Pod) (*Draft, error) {
	d := &Draft{}
	c := &d.Class
	c.Namespace = Space(o)
	requests, err := Resources(b.Names, PodRequests(&o.Spec, &o.Status))
	if err != nil {
		return nil, fmt.Errorf("requests: %w", err)
	}
	c.Requests = requests
	if o.Spec.Priority != nil {
		c.Priority = *o.Spec.Priority
	}
	for _, t := range o.Spec.Tolerations {
		c.Tolerations = append(c.Tolerations, world.Toleration{Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: world.Effect(t.Effect)})
	}
	slices.SortFunc(c.Tolerations, func(x, y world.Toleration) int {
		return strings.Compare(x.Key+"\x00"+x.Operator+"\x00"+x.Value+"\x00"+string(x.Effect), y.Key+"\x00"+y.Operator+"\x00"+y.Value+"\x00"+string(y.Effect))
	})
	c.Ports = HostPorts(&o.Spec)
	b.nodeNeeds(c, &o.Spec)
	if err := b.podTerms(d, o); err != nil {
		return nil, err
	}
	if err := b.spread(c, o); err != nil {
		return nil, err
	}
	if len(o.Spec.ResourceClaims) > 0 && !b.opt.AllowResourceClaims {
		c.Refused = "uses dynamic resource claims, which are not planned (see IGNORE_DRA_REQUESTS)"
	}
	d.key, d.reads = string(classKey(c)), ReadKeys(c)
	return d, nil
}

// HostPorts lists ports of containers and of sidecars, which run beside them.
func HostPorts(spec *corev1.PodSpec) []world.Port {
	var out []world.Port
	note := func(c *corev1.Container) {
		for _, p := range c.Ports {
			port := p.HostPort
			if port == 0 && spec.HostNetwork {
				port = p.ContainerPort
			}
			if port == 0 {
				continue
			}
			protocol := string(p.Protocol)
			if protocol == "" {
				protocol = "TCP"
			}
			out = append(out, world.Port{IP: p.HostIP, Protocol: protocol, Port: port})
		}
	}
	for i := range spec.Containers {
		note(&spec.Containers[i])
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			note(c)
		}
	}
	return out
}

// ReadKeys lists the label keys that the selectors of a class read.
func ReadKeys(c *world.Class) []string {
	var out []string
	note := func(s world.Selector) {
		for _, r := range s.Need {
			out = append(out, r.Key)
		}
	}
	for i := range c.Spread {
		note(c.Spread[i].Selector)
	}
	for i := range c.Affinity {
		note(c.Affinity[i].Selector)
	}
	for i := range c.AntiAffinity {
		note(c.AntiAffinity[i].Selector)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// classKey is equal exactly for specs that constrain pods in the same way.
func classKey(c *world.Class) []byte {
	k := []byte(c.Namespace + "\x00" + c.Refused + "\x00")
	k = binary.AppendVarint(k, int64(c.Priority))
	for _, v := range c.Requests {
		k = binary.AppendVarint(k, v)
	}
	for _, cl := range c.Needs {
		k = append(k, 'n')
		for _, t := range cl.Terms {
			k = t.AppendKey(k)
		}
	}
	for _, p := range c.Prefers {
		k = binary.AppendVarint(append(k, 'p'), int64(p.Weight))
		k = p.Term.AppendKey(k)
	}
	for _, t := range c.Tolerations {
		k = append(k, "t"+t.Key+"\x00"+t.Operator+"\x00"+t.Value+"\x00"+string(t.Effect)+"\x00"...)
	}
	for _, s := range c.Spread {
		k = fmt.Appendf(k, "s%s %d %d %t %t %t %t", s.Key, s.MaxSkew, s.MinDomains, s.Hard, s.HonorAffinity, s.HonorTaints, s.Selector.Some)
		k = s.Selector.Need.AppendKey(k)
	}
	for kind, terms := range [][]world.PodTerm{c.Affinity, c.AntiAffinity} {
		for _, t := range terms {
			k = fmt.Appendf(k, "a%d%s %d %t %q %t", kind, t.Key, t.Weight, t.AllNamespaces, t.Namespaces, t.Selector.Some)
			k = t.Selector.Need.AppendKey(k)
		}
	}
	for _, p := range c.Ports {
		k = fmt.Appendf(k, "h%s %s %d", p.IP, p.Protocol, p.Port)
	}
	return k
}
