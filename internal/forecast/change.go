package forecast

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/cloud"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

// Change is a cluster with manifests applied to it that nobody has applied.
type Change struct {
	// Objects and Classes are the cluster. What is changed in them is a copy.
	Objects *dump.Objects
	Classes map[string]*dump.Catalog
	Now     time.Time
	// Kinds are the kinds of node classes that manifests may be of; the first is that of whatever names none.
	Kinds []*cloud.Kind
	// NodeClasses are those that the cluster has, as far as they are known.
	NodeClasses []cloud.KnownClass
	// Policies are the cluster's, as far as they are known.
	Policies Policies
	// Launchable works out what node classes can launch that are new or different.
	Launchable func([]cloud.KnownClass) (map[string]*dump.Catalog, error)
	// Delete names objects that are deleted before any manifest is applied, as KIND/NAME or KIND/NAMESPACE/NAME.
	Delete []string

	// Namespace is that of manifests and names to delete that have none; default if empty. With Strict, manifests must not name another.
	Namespace string
	Strict    bool
	// Exists asks the cluster for an object by its path; nil where there is no cluster to ask.
	Exists func(path string) (bool, error)

	// Words say what is changed, one line each; Ignored what is not understood.
	Words, Ignored []string
	// Overlaid says that NodeOverlays are changed.
	Overlaid bool
	// Drift is what of it makes nodes differ from what is asked for.
	Drift []Drifted

	pools   map[string]bool // that were changed
	classes []cloud.KnownClass
	// touched are pods that were added or removed; disruption budgets that cover them are counted again.
	touched []podLabels
}

// Drifted is a node that would no longer be what its pool or class asks for.
type Drifted struct {
	Node    string `json:"node"`
	Pool    string `json:"pool"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Apply deletes what is to be deleted, applies manifests in their order, and then everything that follows from both.
func (c *Change) Apply(manifests []map[string]any) error {
	o := *c.Objects
	o.Pods, o.Claims, o.Pools, o.Budgets = slices.Clone(o.Pods), slices.Clone(o.Claims), slices.Clone(o.Pools), slices.Clone(o.Budgets)
	o.DaemonSets, o.VolumeUses, o.Nodes, o.Overlays = slices.Clone(o.DaemonSets), slices.Clone(o.VolumeUses), slices.Clone(o.Nodes), slices.Clone(o.Overlays)
	c.Objects, c.pools = &o, map[string]bool{}
	manifests, err := c.placed(manifests)
	if err != nil {
		return err
	}
	for _, name := range c.Delete {
		if err := c.remove(name); err != nil {
			return err
		}
	}
	for _, m := range manifests {
		if id := identify(m); policyKind(id.kind) { // before what they are to count for
			if err := c.policy(m, id); err != nil {
				return err
			}
		}
	}
	var prices []Prices
	for _, m := range manifests {
		p, err := c.one(m)
		if err != nil {
			return err
		}
		if p != nil {
			prices = append(prices, *p)
		}
	}
	if err := c.launchable(); err != nil {
		return err
	}
	for i := range prices {
		if err := c.price(&prices[i]); err != nil {
			return err
		}
	}
	c.judgePools()
	if err := c.judge(); err != nil {
		return err
	}
	return c.countBudgets()
}

// space is the namespace of what names none.
func (c *Change) space() string { return cmp.Or(c.Namespace, metav1.NamespaceDefault) }

// placed are the manifests with a namespace where their kind has one.
func (c *Change) placed(manifests []map[string]any) ([]map[string]any, error) {
	out := slices.Clone(manifests)
	for i, m := range out {
		id := identify(m)
		if !slices.Contains(namespaced, id.kind) {
			continue
		}
		meta, _ := m["metadata"].(map[string]any)
		if given, _ := meta["namespace"].(string); given != "" {
			if c.Strict && given != c.Namespace {
				return nil, fmt.Errorf("%s is in namespace %s, and --namespace is %s; give one of them", id, given, c.Namespace)
			}
			continue
		}
		copied, within := maps.Clone(m), maps.Clone(meta)
		if within == nil {
			within = map[string]any{}
		}
		within["namespace"] = c.space()
		copied["metadata"] = within
		out[i] = copied
	}
	return out, nil
}

// one applies a manifest. Prices are returned, as they come last.
func (c *Change) one(m map[string]any) (*Prices, error) {
	id := identify(m)
	if at := slices.IndexFunc(c.Kinds, func(k *cloud.Kind) bool { return k.GroupVersionKind.Kind == id.kind }); at >= 0 {
		return nil, c.class(m, id, c.Kinds[at])
	}
	switch id.kind {
	case "NodePool":
		return nil, c.pool(m, id)
	case "NodeOverlay":
		return nil, c.overlay(m, id)
	case "Deployment", "StatefulSet", "ReplicaSet", "Job", "Pod", "DaemonSet":
		return nil, c.workload(m, id)
	case "PodDisruptionBudget":
		return nil, c.budget(m, id)
	case PricesKind:
		p := &Prices{}
		return p, decode(m, p, id)
	case "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "Namespace", "Service", "CSINode", "CapacityBuffer", "PodTemplate":
		return nil, c.other(m, id)
	case "LimitRange", "ResourceQuota":
		return nil, nil
	case "":
		return nil, fmt.Errorf("%s: kind is missing", id)
	}
	c.Ignored = append(c.Ignored, fmt.Sprintf("%s: planning does not read this kind", id))
	return nil, nil
}

// identity names a manifest.
type identity struct{ kind, space, name string }

// String is as people write it.
func (i identity) String() string {
	if i.space != "" {
		return i.kind + " " + i.space + "/" + i.name
	}
	return i.kind + " " + i.name
}

// namespaced are the kinds that live in a namespace.
var namespaced = []string{"Deployment", "StatefulSet", "ReplicaSet", "Job", "Pod", "DaemonSet", "PodDisruptionBudget", "PersistentVolumeClaim", "Service", "LimitRange", "ResourceQuota", "CapacityBuffer", "PodTemplate"}

func policyKind(kind string) bool { return kind == "LimitRange" || kind == "ResourceQuota" }

func identify(m map[string]any) identity {
	id := identity{}
	id.kind, _ = m["kind"].(string)
	meta, _ := m["metadata"].(map[string]any)
	id.name, _ = meta["name"].(string)
	if slices.Contains(namespaced, id.kind) {
		if id.space, _ = meta["namespace"].(string); id.space == "" {
			id.space = metav1.NamespaceDefault
		}
	}
	return id
}

// decode reads a manifest as a type; a field that the type does not have is an error, as it is for the API server.
func decode(m map[string]any, into any, id identity) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%s: %s", id, strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

func (c *Change) say(format string, args ...any) {
	c.Words = append(c.Words, fmt.Sprintf(format, args...))
}

// pool applies a NodePool.
func (c *Change) pool(m map[string]any, id identity) error {
	m = withDefaults(m)
	p := &v1.NodePool{}
	if err := decode(m, p, id); err != nil {
		return err
	}
	if wrong := p.Validate(c.kindOf(p.Spec.Template.Spec.NodeClassRef).Labels()); len(wrong) > 0 {
		return fmt.Errorf("%s: %w", id, wrong.ToAggregate())
	}
	at := slices.IndexFunc(c.Objects.Pools, func(o *v1.NodePool) bool { return o.Name == p.Name })
	if at < 0 {
		p.CreationTimestamp = metav1.NewTime(c.Now)
		c.Objects.Pools, c.pools[p.Name] = append(c.Objects.Pools, p), true
		c.say("%s is new", id)
		return nil
	}
	next := c.Objects.Pools[at].DeepCopy()
	if same(next.Spec, p.Spec) {
		c.say("%s is as it is in the cluster", id)
		return nil
	}
	next.Spec, next.Generation = p.Spec, next.Generation+1
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations[v1.NodePoolHashAnnotationKey], next.Annotations[v1.NodePoolHashVersionAnnotationKey] = next.Hash(), v1.NodePoolHashVersion
	c.Objects.Pools[at], c.pools[p.Name] = next, true
	c.say("%s changes", id)
	return nil
}

// same compares two values as the API would show them.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// kindOf is the kind of a reference. What names none, or one that is not known, is held to the rules of the cluster's own classes.
func (c *Change) kindOf(ref *v1.NodeClassReference) *cloud.Kind {
	for _, k := range c.Kinds {
		if ref != nil && k.Is(ref) {
			return k
		}
	}
	if len(c.NodeClasses) > 0 {
		return c.NodeClasses[0].Kind
	}
	return c.Kinds[0]
}

// changed says whether the class of a reference is new or different.
func (c *Change) changed(ref *v1.NodeClassReference) bool {
	return slices.ContainsFunc(c.classes, func(n cloud.KnownClass) bool { return n.Is(ref) })
}

// class applies a node class.
func (c *Change) class(m map[string]any, id identity, kind *cloud.Kind) error {
	m = withDefaults(m)
	n := cloud.KnownClass{Kind: kind, NodeClass: kind.New()}
	if err := decode(m, n.NodeClass, id); err != nil {
		return err
	}
	at := slices.IndexFunc(c.NodeClasses, func(o cloud.KnownClass) bool { return o.Kind == kind && o.GetName() == n.GetName() })
	switch {
	case at < 0 && c.Classes[n.GetName()] == nil:
		c.say("%s is new", id)
	case at < 0:
		c.say("%s: the cluster's own version is not known, so that nothing is said about nodes that it would make drift", id)
		return nil
	default:
		was, now := parts(c.NodeClasses[at]), parts(n)
		if same(was["spec"], now["spec"]) {
			c.say("%s is as it is in the cluster", id)
			return nil
		}
		now["status"] = was["status"]
		n.NodeClass = kind.New()
		if err := decode(now, n.NodeClass, id); err != nil {
			return err
		}
		c.say("%s changes", id)
	}
	c.classes = append(c.classes, n)
	return nil
}

// parts are the fields of a class as the API shows them.
func parts(class cloud.KnownClass) map[string]any {
	out := map[string]any{}
	if data, err := json.Marshal(class); err == nil {
		_ = json.Unmarshal(data, &out)
	}
	return out
}

// overlay applies a NodeOverlay.
func (c *Change) overlay(m map[string]any, id identity) error {
	o := &v1alpha1.NodeOverlay{}
	if err := decode(m, o, id); err != nil {
		return err
	}
	if wrong := o.Validate(c.kindOf(nil).Labels()); len(wrong) > 0 {
		return fmt.Errorf("%s: %w", id, wrong.ToAggregate())
	}
	at := slices.IndexFunc(c.Objects.Overlays, func(x *v1alpha1.NodeOverlay) bool { return x.Name == o.Name })
	switch {
	case at < 0:
		c.say("%s is new", id)
	case same(c.Objects.Overlays[at].Spec, o.Spec):
		c.say("%s is as it is in the cluster", id)
		return nil
	default:
		c.say("%s changes", id)
	}
	c.Objects.Overlays, c.Overlaid = replaced(c.Objects.Overlays, []*v1alpha1.NodeOverlay{o}), true
	return nil
}

// launchable works out what new and changed classes can launch, at the prices that are known.
func (c *Change) launchable() error {
	if len(c.classes) == 0 || c.Launchable == nil {
		return nil
	}
	found, err := c.Launchable(c.classes)
	if err != nil {
		return err
	}
	known := c.Classes
	c.Classes = map[string]*dump.Catalog{}
	for name, catalog := range known {
		c.Classes[name] = catalog
	}
	for _, n := range c.classes {
		if catalog := found[n.GetName()]; catalog != nil {
			c.Classes[n.GetName()] = repriced(catalog, known)
		}
	}
	return nil
}

// other applies an object of a kind that is read as it is.
func (c *Change) other(m map[string]any, id identity) error {
	item, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	read, problems, err := dump.Read(fmt.Appendf(nil, `{"kind":"List","items":[%s]}`, item))
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s: %s", id, problems[0].Text)
	}
	o := c.Objects
	o.Volumes = replaced(o.Volumes, read.Volumes)
	o.VolumeUses = replaced(o.VolumeUses, read.VolumeUses)
	o.Storage = replaced(o.Storage, read.Storage)
	o.Namespaces = replaced(o.Namespaces, read.Namespaces)
	o.Services = replaced(o.Services, read.Services)
	o.CSINodes = replaced(o.CSINodes, read.CSINodes)
	o.Templates = replaced(o.Templates, read.Templates)
	o.Buffers = replaced(o.Buffers, read.Buffers)
	for _, b := range read.Buffers {
		c.release(identity{space: spaceOf(b), name: b.Name})
	}
	c.say("%s is applied", id)
	return nil
}

// release takes away the spare pods of a buffer, as they have been resolved.
func (c *Change) release(id identity) (any bool) {
	count := len(c.Objects.Pods)
	c.Objects.Pods = slices.DeleteFunc(c.Objects.Pods, func(p *corev1.Pod) bool {
		return state.SpareOf(p) == id.space+"/"+id.name
	})
	return len(c.Objects.Pods) < count
}

// replaced is a list with objects in it, in place of those of the same name.
func replaced[T metav1.Object](list, by []T) []T {
	list = slices.Clone(list)
	for _, o := range by {
		at := slices.IndexFunc(list, func(x T) bool { return x.GetName() == o.GetName() && spaceOf(x) == spaceOf(o) })
		if at < 0 {
			list = append(list, o)
			continue
		}
		list[at] = o
	}
	return list
}

func spaceOf(o metav1.Object) string {
	if s := o.GetNamespace(); s != "" {
		return s
	}
	return metav1.NamespaceDefault
}
