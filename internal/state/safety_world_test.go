package state_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

const (
	fewestNodes, mostNodes = 2, 6
	podsPerNode            = 3
)

// theatre is a small cluster in which anything may happen between a decision and its being carried out. It keeps objects of its
// own, so that what was let through can be judged without the code that let it through.
type theatre struct {
	rng       *rand.Rand
	mirror    *state.Mirror
	now       time.Time
	serial    int
	pools     []*v1.NodePool
	instances []*instance
	pods      []*corev1.Pod
	guards    []*policyv1.PodDisruptionBudget
}

// instance is a node with its claim. One that a move takes away waits for what replaces it, if anything, then its claim is
// deleted, then it is gone.
type instance struct {
	node  *corev1.Node
	claim *v1.NodeClaim
	// begun is set when a move takes it away; left is for how many more rounds it waits.
	begun bool
	left  int
}

func newTheatre(seed int64) *theatre {
	t := &theatre{rng: rand.New(rand.NewSource(seed)), now: time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)}
	var list []*world.InstanceType
	for i := range 3 {
		cores := int64(2) << i
		size := world.Resources{cores * 1000, cores * 4 << 30, 20}
		list = append(list, &world.InstanceType{
			Name: typeName(i), Capacity: size, Allocatable: size,
			Offerings: []world.Offering{{Zone: "a", CapacityType: world.CapacityOnDemand, Price: 0.1 * float64(cores), Available: true}},
		})
	}
	names := world.NewNames().List()
	t.mirror = state.NewMirror(state.MirrorOptions{
		Now:   func() time.Time { return t.now },
		Types: func(string) ([]string, []*world.InstanceType, uint64, error) { return names, list, 1, nil },
	})
	for i := range 2 {
		t.pools = append(t.pools, nil)
		t.newPool(i)
	}
	for i := range 3 {
		t.guards = append(t.guards, nil)
		t.newGuard(i)
	}
	t.refill()
	return t
}

func typeName(i int) string { return fmt.Sprintf("t%d", i) }

// one draws one of a list.
func one[T any](t *theatre, list ...T) T { return list[t.rng.Intn(len(list))] }

// chance is true once in n times.
func (t *theatre) chance(n int) bool { return t.rng.Intn(n) == 0 }

func (t *theatre) meta(prefix, namespace string) metav1.ObjectMeta {
	t.serial++
	name := fmt.Sprintf("%s%07d", prefix, t.serial)
	return metav1.ObjectMeta{
		Name: name, Namespace: namespace, UID: types.UID(name), ResourceVersion: strconv.Itoa(t.serial), CreationTimestamp: metav1.NewTime(t.now),
	}
}

// put shows the mirror a new version of an object.
func (t *theatre) put(o state.Object) {
	t.serial++
	o.SetResourceVersion(strconv.Itoa(t.serial))
	t.mirror.Put(o)
}

// newPool draws what a pool says about disruption anew.
func (t *theatre) newPool(i int) {
	p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: poolName(i), UID: types.UID(poolName(i))}}
	p.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "g", Kind: "K", Name: "c"}
	d := &p.Spec.Disruption
	d.ConsolidateAfter = v1.NewNillableDuration(one(t, 0, 0, 0, 30*time.Second))
	d.ConsolidationPolicy = one(t, v1.ConsolidationPolicyWhenEmptyOrUnderutilized, v1.ConsolidationPolicyWhenEmptyOrUnderutilized, v1.ConsolidationPolicyWhenEmpty)
	d.Budgets = []v1.Budget{{Nodes: one(t, "0", "1", "1", "1", "2", "2", "3", "10%", "50%", "100%", "100%")}}
	if t.chance(3) {
		reason := one(t, v1.DisruptionReasonUnderutilized, v1.DisruptionReasonEmpty, v1.DisruptionReasonDrifted)
		d.Budgets = append(d.Budgets, v1.Budget{Nodes: one(t, "0", "1", "1", "50%"), Reasons: []v1.DisruptionReason{reason}})
	}
	if t.chance(3) {
		schedule, length := fmt.Sprintf("%d * * * *", t.rng.Intn(60)), v1.Duration{Duration: time.Duration(1+t.rng.Intn(40)) * time.Minute}
		if t.chance(10) {
			schedule = "every day"
		}
		d.Budgets = append(d.Budgets, v1.Budget{Nodes: one(t, "0", "1"), Schedule: &schedule, Duration: &length})
	}
	t.pools[i] = p
	t.put(p)
}

func poolName(i int) string { return fmt.Sprintf("p%d", i) }

// newGuard draws a disruption budget anew. The first two are over different pods, the third may be over the same.
func (t *theatre) newGuard(i int) {
	name := fmt.Sprintf("b%d", i)
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Generation: 2}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": strconv.Itoa(i)}}
	if i == 2 {
		b.Spec.Selector.MatchLabels["app"] = strconv.Itoa(t.rng.Intn(4))
	}
	b.Status.DisruptionsAllowed, b.Status.ObservedGeneration = one[int32](t, 0, 1, 1, 2, 3), 2
	if t.chance(10) {
		b.Status.ObservedGeneration = 1
	}
	if t.chance(3) {
		b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
	}
	b.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	if b.Status.DisruptionsAllowed == 0 && t.chance(2) {
		b.Spec.MaxUnavailable = new(intstr.FromInt32(0))
	}
	t.guards[i] = b
	t.put(b)
}

// newInstance adds a node of a type, up unless it is to start.
func (t *theatre) newInstance(typ int, starts bool) *instance {
	meta := t.meta("n", "")
	size := int64(2) << typ
	meta.Labels = map[string]string{
		v1.NodePoolLabelKey: poolName(t.rng.Intn(2)), corev1.LabelInstanceTypeStable: typeName(typ), corev1.LabelTopologyZone: "a",
		v1.CapacityTypeLabelKey: v1.CapacityTypeOnDemand, corev1.LabelHostname: meta.Name,
	}
	room := corev1.ResourceList{
		"cpu": *resource.NewQuantity(size, resource.DecimalSI), "memory": *resource.NewQuantity(size*4<<30, resource.BinarySI), "pods": *resource.NewQuantity(20, resource.DecimalSI),
	}
	m := &instance{claim: &v1.NodeClaim{ObjectMeta: meta}, node: &corev1.Node{ObjectMeta: meta}, left: 1 + t.rng.Intn(3)}
	m.claim.Status.ProviderID, m.claim.Status.NodeName, m.claim.Status.Capacity, m.claim.Status.Allocatable = "p/"+meta.Name, meta.Name, room, room
	m.node.Spec.ProviderID, m.node.Status.Capacity, m.node.Status.Allocatable = "p/"+meta.Name, room, room
	m.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	t.condition(m.claim, v1.ConditionLaunched, "")
	t.condition(m.claim, v1.ConditionRegistered, "")
	if !starts {
		t.condition(m.claim, v1.ConditionInitialized, "")
	}
	t.instances = append(t.instances, m)
	t.put(m.claim)
	t.put(m.node)
	return m
}

func (t *theatre) condition(c *v1.NodeClaim, kind, reason string) {
	c.Status.Conditions = append(c.Status.Conditions, v1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(t.now)})
}

// newPod puts a pod onto a node.
func (t *theatre) newPod(m *instance) {
	p := &corev1.Pod{ObjectMeta: t.meta("w", one(t, "default", "default", "default", "other"))}
	p.Labels = map[string]string{"app": strconv.Itoa(t.rng.Intn(4))}
	if t.chance(10) {
		t.protect(p)
	}
	kind := one(t, "ReplicaSet", "ReplicaSet", "ReplicaSet", "ReplicaSet", "DaemonSet", "Node")
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: "o", UID: "o", Controller: new(true)}}
	p.Spec.NodeName = m.node.Name
	request := corev1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(100+300*t.rng.Intn(4)), resource.DecimalSI)}
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: request}}}
	if t.chance(12) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: v1.DisruptedTaintKey, Operator: corev1.TolerationOpExists}}
	}
	p.Status.Phase = corev1.PodRunning
	at := metav1.NewTime(t.now)
	p.Status.StartTime = &at
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at}, {Type: corev1.PodReady, Status: one(t, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse)},
	}
	t.pods = append(t.pods, p)
	t.put(p)
}

func (t *theatre) protect(p *corev1.Pod) {
	p.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: one(t, "true", "10m", "1m", "false", "soon", "")}
}

// refill keeps the cluster from running dry, and from coming to rest: now and then a node is lost.
func (t *theatre) refill() {
	if m := t.instances; len(m) > 0 && t.chance(4) {
		t.delete(m[0])
	}
	for len(t.instances) < fewestNodes || len(t.instances) < mostNodes && t.chance(2) {
		m := t.newInstance(t.rng.Intn(3), false)
		for range t.rng.Intn(podsPerNode + 1) {
			t.newPod(m)
		}
	}
}

// happen changes something, mostly on one of some nodes if there are any.
func (t *theatre) happen(focus ...string) {
	m := one(t, t.instances...)
	if len(focus) > 0 && !t.chance(3) {
		if x := t.find(one(t, focus...)); x != nil {
			m = x
		}
	}
	switch t.rng.Intn(12) {
	case 0, 1:
		if len(t.pods) < podsPerNode*len(t.instances) {
			t.newPod(m)
		}
	case 2:
		if len(t.pods) > 0 {
			t.dropPod(t.rng.Intn(len(t.pods)))
		}
	case 3, 4, 5:
		t.podChanges(m)
	case 6, 7:
		t.newGuard(t.rng.Intn(len(t.guards)))
	case 8:
		t.newPool(t.rng.Intn(len(t.pools)))
	case 9:
		t.nodeChanges(m)
	case 10:
		t.claimChanges(m)
	case 11:
		t.now = t.now.Add(time.Duration(t.rng.Intn(300)) * time.Second)
	}
}

func (t *theatre) dropPod(i int) {
	t.mirror.Drop(t.pods[i])
	t.pods = append(t.pods[:i], t.pods[i+1:]...)
}

// podChanges changes a pod of a node, or any other if it has none: its protection, whether it is ready, or that it is told to go.
func (t *theatre) podChanges(m *instance) {
	if len(t.pods) == 0 {
		return
	}
	i := t.rng.Intn(len(t.pods))
	if at := slices.IndexFunc(t.pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == m.node.Name }); at >= 0 {
		i = at
	}
	p := t.pods[i].DeepCopy()
	switch t.rng.Intn(4) {
	case 0, 1:
		t.protect(p)
	case 2:
		p.Status.Conditions[1].Status = one(t, corev1.ConditionTrue, corev1.ConditionFalse)
	case 3:
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: t.now.Add(time.Minute)}, new(int64(60))
	}
	t.pods[i] = p
	t.put(p)
}

func (t *theatre) nodeChanges(m *instance) {
	n := m.node.DeepCopy()
	n.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: one(t, "true", "false", "1h", "", "")}
	n.Status.Conditions[0].Status = one(t, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse)
	m.node = n
	t.put(n)
}

// claimChanges makes a claim drift, protects it, gives it a grace period, or has somebody delete it.
func (t *theatre) claimChanges(m *instance) {
	c := m.claim.DeepCopy()
	switch t.rng.Intn(8) {
	case 0, 1, 2:
		t.condition(c, v1.ConditionDrifted, v1.ReasonNodePoolDrifted)
	case 3:
		c.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: one(t, "true", "", "")}
	case 4, 5:
		c.Spec.TerminationGracePeriod = &v1.Duration{Duration: time.Hour}
	case 6:
		c.Spec.TerminationGracePeriod = nil
	case 7:
		c.DeletionTimestamp = &metav1.Time{Time: t.now}
	}
	m.claim = c
	t.put(c)
}

// begin carries out what a move does at once: its nodes are tainted and wait for what replaces them, or are deleted.
func (t *theatre) begin(move *disrupt.Move) {
	for _, name := range move.Nodes {
		m := t.find(name)
		n := m.node.DeepCopy()
		n.Spec.Taints = append(n.Spec.Taints, v1.DisruptedTaint())
		m.node, m.begun, m.left = n, true, 1+t.rng.Intn(3)
		t.put(n)
		if len(move.Add) == 0 {
			t.delete(m)
		}
	}
	for _, n := range move.Add {
		if len(t.instances) < mostNodes {
			t.newInstance(int(n.Choices[0].Type.Name[1]-'0'), true)
		}
	}
}

func (t *theatre) delete(m *instance) {
	c := m.claim.DeepCopy()
	c.DeletionTimestamp = &metav1.Time{Time: t.now}
	m.claim = c
	t.put(c)
}

// goOn lets what is under way get on: nodes come up, claims of tainted nodes are deleted, deleted ones go with their pods.
func (t *theatre) goOn() {
	list := t.instances
	t.instances = nil
	for _, m := range list {
		leaving := m.claim.DeletionTimestamp != nil
		if m.left--; m.left > 0 || !leaving && !m.begun && initialized(m.claim) {
			t.instances = append(t.instances, m)
			continue
		}
		switch {
		case leaving:
			for i := len(t.pods) - 1; i >= 0; i-- {
				if t.pods[i].Spec.NodeName == m.node.Name {
					t.dropPod(i)
				}
			}
			t.mirror.Drop(m.node)
			t.mirror.Drop(m.claim)
			continue
		case m.begun:
			t.delete(m)
			m.left = 1
		default:
			c := m.claim.DeepCopy()
			t.condition(c, v1.ConditionInitialized, "")
			m.claim = c
			t.put(c)
		}
		t.instances = append(t.instances, m)
	}
	t.refill()
}

func (t *theatre) find(name string) *instance {
	for _, m := range t.instances {
		if m.node.Name == name {
			return m
		}
	}
	return nil
}

func initialized(c *v1.NodeClaim) bool { return hasCondition(c, v1.ConditionInitialized) }

func hasCondition(c *v1.NodeClaim, kind string) bool {
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].Type == kind {
			return true
		}
	}
	return false
}
