package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// lab is a mirror with a clock that the test sets, and a counter for versions.
type lab struct {
	*Mirror
	now     time.Time
	version int
}

func newLab() *lab {
	l := &lab{now: epoch}
	l.Mirror = NewMirror(MirrorOptions{Types: sampleTypes, Now: func() time.Time { return l.now }})
	return l
}

func (l *lab) meta(name string) metav1.ObjectMeta {
	l.version++
	return metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), ResourceVersion: fmt.Sprint(l.version), CreationTimestamp: at(0)}
}

// again is the object as it is after one more write.
func again[T Object](l *lab, obj T, change func(T)) T {
	c := obj.DeepCopyObject().(T)
	l.version++
	c.SetResourceVersion(fmt.Sprint(l.version))
	change(c)
	return c
}

func (l *lab) pod(name, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: l.meta(name)}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
	if node == "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Reason: corev1.PodReasonUnschedulable}}
	}
	return p
}

func (l *lab) node(name, instance string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: l.meta(name)}
	n.Namespace = ""
	n.Spec.ProviderID = instance
	n.Status.Capacity, n.Status.Allocatable = amounts("8", "32Gi"), amounts("7", "30Gi")
	return n
}

// claim is one that has been created and nothing more.
func (l *lab) claim(name string) *v1.NodeClaim {
	c := &v1.NodeClaim{ObjectMeta: l.meta(name)}
	c.Namespace = ""
	c.Labels = map[string]string{v1.NodePoolLabelKey: "general"}
	c.Spec.NodeClassRef = &v1.NodeClassReference{Name: "default"}
	c.Spec.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1500m"), "pods": resource.MustParse("2")}
	c.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{
		{Key: corev1.LabelInstanceTypeStable, Operator: "In", Values: []string{"large", "small"}},
		{Key: corev1.LabelTopologyZone, Operator: "In", Values: []string{"a"}},
	}
	return c
}

// launched is the claim with an instance.
func (l *lab) launched(c *v1.NodeClaim, instance string) *v1.NodeClaim {
	return again(l, c, func(c *v1.NodeClaim) {
		c.Status.ProviderID, c.Status.Capacity, c.Status.Allocatable = instance, amounts("8", "32Gi"), amounts("7", "30Gi")
		c.Labels[corev1.LabelInstanceTypeStable], c.Labels[v1.CapacityTypeLabelKey] = "large", "spot"
	})
}

func (l *lab) put(objs ...Object) *View {
	for _, o := range objs {
		l.Put(o)
	}
	return l.View()
}

// brief says in a few words what is in the world.
func brief(v *View) string {
	var out []string
	for _, n := range v.World.Nodes {
		text := n.Name
		if n.Claim != "" {
			text += "(" + n.Claim + ")"
		}
		if n.InFlight {
			text += " in flight"
		}
		if n.Deleting {
			text += " leaving"
		}
		for _, p := range n.Pods {
			text += " " + p.Name
		}
		out = append(out, text)
	}
	for _, p := range v.World.Pending {
		out = append(out, "pending "+p.Name)
	}
	for _, p := range v.Problems {
		out = append(out, "! "+p.Kind+" "+p.Name)
	}
	return strings.Join(out, "; ")
}

func check(t *testing.T, v *View, want string) {
	t.Helper()
	if diff := cmp.Diff(want, brief(v)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestP6_ClaimsCountBeforeAnyWatchShowsThem(t *testing.T) {
	l := newLab()
	check(t, l.put(l.pod("p", "")), "pending p")
	c := l.claim("general-1")
	l.Assume(c)
	c.Labels["changed"] = "later" // by whoever owns the object: the mirror has its own
	v := l.View()
	check(t, v, "general-1(general-1) in flight; pending p")
	if n := v.Claim("general-1"); !n.Assumed || n.Claim.Labels["changed"] != "" {
		t.Error("the claim is not the one that was assumed")
	}
	// Node before claim: both count, and for a moment there is more room than there will be.
	instance := l.node("host-1", "cloud/1")
	check(t, l.put(instance), "host-1; general-1(general-1) in flight; pending p")
	// The pod is seen bound before its node's claim is: it is on its node all the same.
	check(t, l.put(again(l, l.pod("p", ""), func(p *corev1.Pod) { p.Spec.NodeName = "host-1" })), "host-1 p; general-1(general-1) in flight")
	check(t, l.put(l.launched(c, "cloud/1")), "host-1(general-1) p")
}

func TestP6_AssumptionsEnd(t *testing.T) {
	t.Run("after some minutes the API is right", func(t *testing.T) {
		l := newLab()
		l.Assume(l.claim("general-1"))
		l.now = l.now.Add(assumeFor - time.Second)
		check(t, l.View(), "general-1(general-1) in flight")
		l.now = l.now.Add(time.Second)
		check(t, l.View(), "")
	})
	t.Run("a claim that is assumed again counts on", func(t *testing.T) {
		l := newLab()
		c := l.claim("general-1")
		l.Assume(c)
		l.now = l.now.Add(assumeFor - time.Second)
		l.Assume(c)
		l.now = l.now.Add(assumeFor - time.Second)
		check(t, l.View(), "general-1(general-1) in flight")
		l.now = l.now.Add(time.Second)
		check(t, l.View(), "")
	})
	t.Run("a claim that the API shows stays", func(t *testing.T) {
		l := newLab()
		c := l.claim("general-1")
		l.Assume(c)
		l.Put(c)
		l.now = l.now.Add(2 * assumeFor)
		check(t, l.View(), "general-1(general-1) in flight")
		if l.View().Claim("general-1").Assumed {
			t.Error("it is assumed still")
		}
	})
	t.Run("a claim that came and went before we could say so", func(t *testing.T) {
		l := newLab()
		c := l.claim("general-1")
		l.Put(c)
		l.Drop(c)
		l.Assume(c)
		check(t, l.View(), "")
	})
	t.Run("a claim whose creation may have failed has no UID", func(t *testing.T) {
		l := newLab()
		c := l.claim("general-1")
		maybe := c.DeepCopy()
		maybe.UID, maybe.ResourceVersion = "", ""
		l.Assume(maybe)
		check(t, l.put(c), "general-1(general-1) in flight")
		l.Drop(c)
		check(t, l.View(), "")
	})
}

func TestP10_PodsOfLeavingNodesWantAPlace(t *testing.T) {
	l := newLab()
	c := l.launched(l.claim("general-1"), "cloud/1")
	owned := func(kind string) func(*corev1.Pod) {
		yes := true
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "x", Controller: &yes}}
		}
	}
	leaving := func(p *corev1.Pod) { now := at(1); p.DeletionTimestamp = &now }
	protect := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			start := at(0)
			p.Annotations, p.Status.StartTime = map[string]string{v1.DoNotDisruptAnnotationKey: value}, &start
		}
	}
	label := func(app string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
	}
	l.put(l.node("host-1", "cloud/1"), c)
	for name, changes := range map[string][]func(*corev1.Pod){
		"active": nil, "daemon": {owned("DaemonSet")}, "static": {owned("Node")}, "terminating": {leaving}, "set": {owned("StatefulSet"), leaving},
		"protected": {protect("true")}, "for-an-hour": {protect("1h")}, "not-protected": {protect("false")}, "guarded": {label("full")}, "twice": {label("two")}, "once": {label("one")},
	} {
		l.Put(again(l, l.pod(name, "host-1"), func(p *corev1.Pod) {
			for _, f := range changes {
				f(p)
			}
		}))
	}
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	budget := func(name, key, value string, most *intstr.IntOrString) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{ObjectMeta: l.meta(name), Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: most, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
		}}
	}
	l.put(budget("b1", "app", "full", &none), budget("b2", "app", "two", &one), budget("b3", "app", "two", &one), budget("b4", "app", "one", &one))
	wanting := func() string {
		var names []string
		for _, p := range l.View().World.Over().Wanting() {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	if got := wanting(); got != "" {
		t.Errorf("%s want a place though nothing leaves", got)
	}
	l.Leaving("general-1")
	if got := wanting(); got != "active not-protected once set" {
		t.Errorf("%s want a place", got)
	}
	l.now = l.now.Add(leavingFor / 2)
	l.Drop(budget("b3", "app", "two", &one))
	if got := wanting(); got != "active not-protected once set twice" {
		t.Errorf("%s want a place, with one budget less", got)
	}
	l.now = epoch.Add(time.Hour)
	if got := wanting(); got != "" {
		t.Errorf("%s want a place though it is long ago that the claim was to go", got)
	}
	l.Put(again(l, c, func(c *v1.NodeClaim) { now := at(1); c.DeletionTimestamp = &now }))
	if got := wanting(); got != "active for-an-hour not-protected once set twice" {
		t.Errorf("%s want a place, an hour later", got)
	}
}

func TestP69_EveryNodeIsATargetButThoseThatLeave(t *testing.T) {
	l := newLab()
	check(t, l.put(l.node("foreign", ""), l.node("ours", "cloud/1"), l.launched(l.claim("general-1"), "cloud/1")), "foreign; ours(general-1)")
	l.Leaving("general-1")
	check(t, l.View(), "foreign; ours(general-1) leaving")
	l.now = l.now.Add(leavingFor)
	check(t, l.View(), "foreign; ours(general-1)")
	tainted := again(l, l.node("ours", "cloud/1"), func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{v1.DisruptedTaint()} })
	check(t, l.put(tainted), "foreign; ours(general-1) leaving")
}

func TestP70_AClaimSaysWhatItsNodeWillBe(t *testing.T) {
	l := newLab()
	c := l.launched(l.claim("general-1"), "cloud/1")
	c.Spec.Taints = []v1.Taint{{Key: "dedicated", Effect: "NoSchedule"}}
	c.Spec.StartupTaints = []v1.Taint{{Key: "starting", Effect: "NoSchedule"}}
	c.Status.Allocatable["example.com/gpu"] = resource.MustParse("2")
	n := l.node("host-1", "cloud/1")
	n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: "NoSchedule"}, {Key: "starting", Effect: "NoSchedule"}, v1.UnregisteredTaint(), {Key: corev1.TaintNodeNotReady, Effect: "NoExecute"}}
	show := func() string {
		v := l.View()
		w := v.World.Nodes[0]
		gpu := slices.Index(v.World.Resources, "example.com/gpu")
		return fmt.Sprint(w.Pool, " ", w.Taints, " ", w.Allocatable.Get(gpu))
	}
	l.put(c, n)
	if got := show(); got != "general [dedicated:NoSchedule] 2" {
		t.Errorf("unregistered: %s", got)
	}
	c = again(l, c, func(c *v1.NodeClaim) {
		c.Status.Conditions = []v1.Condition{{Type: v1.ConditionRegistered, Status: "True"}}
	})
	n = again(l, n, func(n *corev1.Node) { n.Labels = map[string]string{v1.NodePoolLabelKey: "general"} })
	l.put(c, n)
	if got := show(); got != "general [dedicated:NoSchedule karpenter.sh/unregistered:NoExecute] 2" && got != "general [dedicated:NoSchedule] 2" {
		t.Errorf("registered: %s", got)
	}
	l.put(again(l, c, func(c *v1.NodeClaim) {
		c.Status.Conditions = append(c.Status.Conditions, v1.Condition{Type: v1.ConditionInitialized, Status: "True"})
	}))
	if got := show(); !strings.Contains(got, "starting") || !strings.HasSuffix(got, " 0") {
		t.Errorf("initialized: %s", got)
	}
}

func TestP71_P84_ClaimsInFlightAreCapacity(t *testing.T) {
	l := newLab()
	c := l.claim("general-1")
	v := l.put(c)
	w := v.World.Nodes[0]
	zone, _ := w.Labels.Get(corev1.LabelTopologyZone)
	if !w.InFlight || zone != "a" || w.Pool != "general" {
		t.Errorf("the node in flight is %+v", w)
	}
	// What it was made for, and the most that it may become.
	if got := v.List(w.Allocatable); got.Cpu().String() != "1500m" || got.Pods().Value() != 2 || len(got) != 2 {
		t.Errorf("room for %v", got)
	}
	if got := v.List(w.Capacity); got.Cpu().String() != "8" || got.Memory().String() != "32Gi" || got.Pods().Value() != 50 {
		t.Errorf("counts as %v", got)
	}
	v = l.put(l.launched(c, "cloud/1"))
	if got := v.List(v.World.Nodes[0].Allocatable); got.Cpu().String() != "7" {
		t.Errorf("once launched it has room for %v", got)
	}
	if v.World.Nodes[0].Price != 1 {
		t.Errorf("once launched it costs %v", v.World.Nodes[0].Price)
	}
}

func TestClaimsInFlightAreExpectedInTheZoneThatTheyNameFirst(t *testing.T) {
	l := newLab()
	c := l.claim("general-1")
	c.Spec.Requirements = slices.DeleteFunc(c.Spec.Requirements, func(r v1.NodeSelectorRequirementWithMinValues) bool { return r.Key == corev1.LabelTopologyZone })
	c.Spec.Requirements = append(c.Spec.Requirements, v1.NodeSelectorRequirementWithMinValues{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"b", "a"}})
	w := l.put(c).World.Nodes[0]
	if _, known := w.Labels.Get(corev1.LabelTopologyZone); known || w.Zone() != "b" {
		t.Errorf("expected in %q, labels %v", w.Zone(), w.Labels)
	}
}

func TestP84_UsageIsALedger(t *testing.T) {
	l := newLab()
	l.put(l.launched(l.claim("general-1"), "cloud/1"), again(l, l.node("host-1", "cloud/1"), func(n *corev1.Node) { n.Labels = map[string]string{v1.NodePoolLabelKey: "general"} }))
	l.Put(l.claim("general-2"))
	l.Assume(l.claim("general-3"))
	v := l.View()
	use := v.Usage("general")
	if use.Nodes != 3 || use.Leaving != 0 || use.Capacity.Get(world.CPU) != 24000 {
		t.Errorf("%+v", use)
	}
	l.Leaving("general-1")
	v = l.View()
	use = v.Usage("general")
	if list := v.List(use.Capacity); use.Nodes != 2 || use.Leaving != 1 || list.Cpu().String() != "16" {
		t.Errorf("with one leaving: %+v", use)
	}
	if use := v.Usage("other"); use.Nodes != 0 || len(v.List(use.Capacity)) != 0 {
		t.Errorf("another pool: %+v", use)
	}
}

func TestP118_WhatDoesNotChangeStaysTheSame(t *testing.T) {
	l := newLab()
	pool := &v1.NodePool{ObjectMeta: l.meta("general")}
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "g", Kind: "k", Name: "default"}
	p, n := l.pod("p", "host-1"), l.node("host-1", "cloud/1")
	first := l.put(pool, p, n, l.node("host-2", ""), l.pod("q", ""))
	if l.put(p, n, pool) != first {
		t.Error("repeated events give another view")
	}
	for what, obj := range map[string]Object{
		"a pod's readiness": again(l, p, func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: "True"})
		}),
		"a node's heartbeat": again(l, n, func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "True"}}
		}),
		"a pool's counters": again(l, pool, func(p *v1.NodePool) { p.Status.Resources = amounts("1", "1Gi") }),
	} {
		v := l.put(obj)
		if v == first || v.World != first.World {
			t.Errorf("%s: another view %t, another world %t", what, v != first, v.World != first.World)
		}
	}
	v := l.View()
	if v.Node("host-1").Object == n || v.Pool("general").Object == pool || v.Pod(p.UID) == p {
		t.Error("objects are not the newest")
	}
	after := l.put(again(l, l.pod("q", ""), func(p *corev1.Pod) { p.Spec.NodeName = "host-2" }))
	if after.World == first.World || after.World.Nodes[1] == first.World.Nodes[1] {
		t.Error("a pod was bound and nothing changed")
	}
	if after.World.Nodes[0] != first.World.Nodes[0] || after.World.Pools[0] != first.World.Pools[0] || &after.World.Pools[0].Types[0] != &first.World.Pools[0].Types[0] {
		t.Error("what has nothing to do with it has changed")
	}
	if len(first.World.Pending) != 1 || len(first.World.Nodes[1].Pods) != 0 {
		t.Error("the first view has changed")
	}
}

func TestP119_WhenPodsWereSeen(t *testing.T) {
	l := newLab()
	p := l.pod("p", "")
	l.put(p, l.node("host-1", ""))
	l.now = l.now.Add(time.Minute)
	v := l.put(again(l, p, func(p *corev1.Pod) {
		p.Spec.NodeName = "host-1"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "True", LastTransitionTime: at(30)}}
	}))
	if seen, ok := v.Seen(p.UID); !ok || !seen.Equal(epoch) {
		t.Errorf("seen at %v, %t", seen, ok)
	}
	if got := v.Node("host-1").PodEvent; !got.Equal(at(30).Time) {
		t.Errorf("the last pod came at %v", got)
	}
	l.Drop(p)
	v = l.View()
	if got := v.Node("host-1").PodEvent; !got.Equal(l.now) {
		t.Errorf("the last pod went at %v", got)
	}
	if _, ok := v.Seen(p.UID); ok {
		t.Error("a pod that is gone is remembered")
	}
}

func TestTypesAreFollowed(t *testing.T) {
	l := newLab()
	_, list, _, _ := sampleTypes("")
	version, err := uint64(1), error(nil)
	l.opt.Types = func(string) ([]string, []*world.InstanceType, uint64, error) {
		return []string{"memory", "cpu"}, list, version, err
	}
	list[0].Capacity, list[0].Allocatable = world.Resources{32 << 30, 8000}, world.Resources{30 << 30, 7500}
	pool := &v1.NodePool{ObjectMeta: l.meta("general")}
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "g", Kind: "k", Name: "default"}
	node := l.node("host-1", "cloud/1")
	node.Labels = map[string]string{corev1.LabelInstanceTypeStable: "large", corev1.LabelTopologyZone: "a", v1.CapacityTypeLabelKey: "spot"}
	v := l.put(pool, node, l.node("host-2", ""))
	if got := v.World.Pools[0].Types[0].Capacity; got.Get(world.CPU) != 8000 || got.Get(world.Memory) != 32<<30 {
		t.Errorf("vectors are not in our order: %v", got)
	}
	if v.World.Nodes[0].Price != 1 {
		t.Errorf("price %v", v.World.Nodes[0].Price)
	}
	list = slices.Clone(list)
	dear := *list[0]
	dear.Offerings = slices.Clone(dear.Offerings)
	dear.Offerings[0].Price, list[0] = 3, &dear
	if l.View() != v {
		t.Error("the version is the same and the view is not")
	}
	version = 2
	after := l.View()
	if after.World.Nodes[0].Price != 3 || after.World.Pools[0] == v.World.Pools[0] || after.World.Nodes[1] != v.World.Nodes[1] {
		t.Errorf("price %v, other pool %t", after.World.Nodes[0].Price, after.World.Pools[0] != v.World.Pools[0])
	}
	err = errors.New("out of reach")
	failed := l.View()
	if got := failed.World.Pools[0].Refused; got != "instance types of class default: out of reach" || failed.World.Nodes[0].Price != 3 {
		t.Errorf("refused %q, price %v", got, failed.World.Nodes[0].Price)
	}
	check(t, failed, "host-1; host-2; ! NodeClass default")
	if l.View() != failed {
		t.Error("the same failure makes another view")
	}
	err = nil
	check(t, l.View(), "host-1; host-2")
}

func TestHandlerUnwrapsTombstones(t *testing.T) {
	l := newLab()
	h, p := l.Handler(), l.pod("p", "")
	h.OnAdd(p, true)
	check(t, l.View(), "pending p")
	h.OnUpdate(p, again(l, p, func(p *corev1.Pod) { p.Spec.NodeName = "x" }))
	h.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/p", Obj: p})
	h.OnDelete("nonsense")
	h.OnAdd("nonsense", false)
	check(t, l.View(), "")
	l.put(&corev1.ConfigMap{}) // of no interest
	for _, k := range l.Kinds() {
		l.Put(k) // empty ones
		l.Drop(k)
	}
	l.View()
}

func TestPoisonHarmsItselfOnly(t *testing.T) {
	l := newLab()
	bad := again(l, l.pod("bad", ""), func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("-1")
	})
	node := l.node("minus", "")
	node.Status.Allocatable["cpu"] = resource.MustParse("-1")
	claim := l.claim("general-1")
	claim.Spec.Resources.Requests["cpu"] = resource.MustParse("-1")
	pool := &v1.NodePool{ObjectMeta: l.meta("wrong")}
	pool.Spec.Template.Labels = map[string]string{"kubernetes.io/hostname": "x"}
	set := &appsv1.DaemonSet{ObjectMeta: l.meta("daemon")}
	set.Spec.Template.Spec = *bad.Spec.DeepCopy()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: l.meta("budget")}
	budget.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Likes"}}}
	v := l.put(bad, node, claim, pool, set, budget, l.pod("good", ""), l.node("fine", ""), l.pod("on", "minus"))
	check(t, v, "fine; pending good; ! PodDisruptionBudget default/budget; ! Pod default/bad; ! NodePool wrong; ! NodeClaim general-1; ! Node minus; ! DaemonSet default/daemon")
	for _, o := range []Object{bad, node, claim, pool, set, budget} {
		l.Drop(o)
	}
	check(t, l.View(), "fine; pending good; ! Node minus") // its pod is still there
}

func TestPanicsBecomeProblems(t *testing.T) {
	l := newLab()
	l.opt.Types = nil
	l.conv.Rules.WellKnown = nil
	for _, f := range []func() error{
		func() (err error) { defer recovered(&err); panic("boom") },
		func() (err error) { _, err = l.findDraft(nil); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("a panic gives %v", err)
		}
	}
}

// TestNumberingIsBounded lets a lot of classes, labels and resources come and go.
func TestNumberingIsBounded(t *testing.T) {
	l := newLab()
	l.put(l.node("host-1", ""))
	most, mostNames := 0, 0
	for i := range 3000 {
		p := l.pod("p", "host-1")
		p.UID = types.UID(fmt.Sprint(i))
		p.Labels = map[string]string{fmt.Sprintf("label-%d", i): "x"}
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceName(fmt.Sprintf("example.com/r%d", i))] = resource.MustParse("1")
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}
		v := l.put(p)
		most, mostNames = max(most, len(v.World.Classes)), max(mostNames, len(v.World.Resources))
		if len(v.World.Nodes[0].Pods) != 1 || len(l.read) > 20 {
			t.Fatalf("%d pods, %d labels", len(v.World.Nodes[0].Pods), len(l.read))
		}
	}
	if most > 4 || mostNames > 3*wasteNames {
		t.Errorf("%d classes, %d resources", most, mostNames)
	}
	burst := func(n int) *View {
		for i := range 3000 {
			p := l.pod(fmt.Sprintf("b-%d", i), "host-1")
			p.Spec.Priority = new(int32)
			*p.Spec.Priority = int32(i)
			if i < n {
				l.Put(p)
			} else {
				l.Drop(p)
			}
		}
		l.View()
		return l.put(again(l, l.node("host-1", ""), func(*corev1.Node) {}))
	}
	if v := burst(3000); len(v.World.Classes) < 3000 {
		t.Errorf("%d classes", len(v.World.Classes))
	}
	if v := burst(0); len(v.World.Classes) > 10 {
		t.Errorf("%d classes are left after the burst", len(v.World.Classes))
	}
}
