package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/state/dump"
)

const csiDriver = "ebs.csi.aws.com"

var (
	zones  = []string{"za", "zb", "zc"}
	arches = []string{"amd64", "arm64"}
	models = []string{karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand}
	apps   = []string{"web", "api", "db"}
)

// world is one generated cluster.
type world struct {
	*rand.Rand
	catalog *dump.Catalog
	pools   []*karpv1.NodePool
	nodes   []*corev1.Node
	bound   []*corev1.Pod
	pending []*corev1.Pod
	daemons []*appsv1.DaemonSet
	coming  []*corev1.Pod    // daemon pods that nodes do not have yet, though they will
	others  []runtime.Object // namespaces and storage
	volumes int
	// defaults are spread constraints for pods without any.
	defaults []corev1.TopologySpreadConstraint
}

// generate makes a cluster from a seed: some instance types, pools and nodes, and pods with every kind of constraint.
func generate(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1))}
	for i, name := range []string{"default", "other"} {
		w.others = append(w.others, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": apps[i]}}})
	}
	w.makeCatalog()
	for i := range 1 + w.IntN(2) {
		w.makePool(fmt.Sprint("pool", i))
	}
	for i := range w.IntN(6) {
		w.makeNode(fmt.Sprint("node", i))
	}
	for i := range w.IntN(3) {
		w.makeDaemon(fmt.Sprint("agent", i))
	}
	for i := range w.IntN(4) {
		w.makeBound(fmt.Sprint("old", i))
	}
	for i := range 1 + w.IntN(4) {
		w.makePending(fmt.Sprint("new", i))
	}
	return w
}

func (w *world) chance(percent int) bool { return w.IntN(100) < percent }

func pick[T any](w *world, from []T) T { return from[w.IntN(len(from))] }

func (w *world) some(from []string) []string {
	var out []string
	for _, s := range from {
		if w.chance(60) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		out = append(out, pick(w, from))
	}
	return out
}

func (w *world) makeCatalog() {
	w.catalog = &dump.Catalog{}
	for i := range 4 + w.IntN(5) {
		cpu := []int{2, 4, 8, 16}[w.IntN(4)]
		memory := cpu * []int{2, 4, 8}[w.IntN(3)]
		kind := dump.CatalogType{
			Name: fmt.Sprintf("t%d.%d", i, cpu),
			Labels: map[string]string{
				corev1.LabelInstanceTypeStable: fmt.Sprintf("t%d.%d", i, cpu), corev1.LabelArchStable: pick(w, arches), corev1.LabelOSStable: "linux",
				awsv1.LabelInstanceCPU: fmt.Sprint(cpu),
			},
			Allocatable: map[string]string{"cpu": fmt.Sprintf("%dm", cpu*1000-100), "memory": fmt.Sprintf("%dMi", memory*1024-512), "pods": fmt.Sprint(4 + w.IntN(20)), "ephemeral-storage": "17Gi"},
		}
		if w.chance(20) {
			kind.Allocatable["nvidia.com/gpu"] = "1"
		}
		for _, zone := range zones {
			for _, model := range models {
				if w.chance(85) {
					price := float64(cpu) * (0.03 + 0.02*w.Float64())
					if model == karpv1.CapacityTypeSpot {
						price *= 0.3 + 0.4*w.Float64()
					}
					kind.Offerings = append(kind.Offerings, dump.CatalogOffering{Zone: zone, CapacityType: model, Price: price, Unavailable: w.chance(5)})
				}
			}
		}
		w.catalog.InstanceTypes = append(w.catalog.InstanceTypes, kind)
	}
}

func (w *world) makePool(name string) {
	pool := &karpv1.NodePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodePool"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	spec := &pool.Spec.Template.Spec
	spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"}
	require := func(key string, operator corev1.NodeSelectorOperator, values ...string) {
		spec.Requirements = append(spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: operator, Values: values})
	}
	if w.chance(40) {
		require(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, w.some(zones)...)
	}
	if w.chance(40) {
		require(corev1.LabelArchStable, corev1.NodeSelectorOpIn, w.some(arches)...)
	}
	if w.chance(40) {
		require(karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, w.some(models)...)
	}
	if w.chance(30) {
		require("example.com/tier", corev1.NodeSelectorOpIn, "gold", "silver")
	}
	if w.chance(30) {
		pool.Spec.Template.Labels = map[string]string{"example.com/team": pick(w, apps)}
	}
	if w.chance(30) {
		spec.Taints = append(spec.Taints, karpv1.Taint{Key: "dedicated", Value: pick(w, apps), Effect: corev1.TaintEffectNoSchedule})
	}
	if w.chance(15) {
		spec.Taints = append(spec.Taints, karpv1.Taint{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule})
	}
	if w.chance(20) {
		pool.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(4 + w.IntN(40)))}
	}
	w.pools = append(w.pools, pool)
}

func (w *world) makeNode(name string) {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(fmt.Sprint(1 + w.IntN(8))), corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dGi", 2+w.IntN(16))),
		corev1.ResourcePods: resource.MustParse(fmt.Sprint(2 + w.IntN(10))),
	}
	n := &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: pick(w, zones), corev1.LabelArchStable: pick(w, arches), corev1.LabelOSStable: "linux",
		}},
		Spec:   corev1.NodeSpec{ProviderID: "fake:///" + name},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	if w.chance(10) {
		delete(n.Labels, corev1.LabelTopologyZone)
	}
	if w.chance(30) {
		n.Labels["example.com/tier"] = pick(w, []string{"gold", "silver"})
	}
	if w.chance(20) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "dedicated", Value: pick(w, apps), Effect: pick(w, []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute})})
	}
	if w.chance(10) {
		n.Spec.Unschedulable = true
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	if w.chance(15) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule})
	}
	w.nodes = append(w.nodes, n)
	if w.chance(40) {
		w.others = append(w.others, csiNode(name, int32(1+w.IntN(3))))
	}
}

// csiNode says how many volumes a node takes.
func csiNode(name string, count int32) *storagev1.CSINode {
	return &storagev1.CSINode{
		TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSINode"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: csiDriver, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: &count}}}},
	}
}

// makeBound puts a pod onto a node if the node's own figures allow it; whether its constraints hold does not matter,
// as in a cluster whose labels have changed since.
func (w *world) makeBound(name string) {
	if len(w.nodes) == 0 {
		return
	}
	p := w.shape(name, pick(w, apps))
	p.Spec.NodeName = pick(w, w.nodes).Name
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	p.Spec.Volumes, p.Spec.Resources = nil, nil
	if w.chance(15) {
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_700_000_000, 0)}
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}}
	w.bound = append(w.bound, p)
}

// makePending adds the pods of one deployment.
func (w *world) makePending(name string) {
	app := pick(w, apps)
	like := w.shape(name, app)
	for i := range 1 + w.IntN(6) {
		p := like.DeepCopy()
		p.Name = fmt.Sprintf("%s-%d", name, i)
		p.UID = types.UID(p.Name)
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}
		if w.chance(12) {
			w.addVolume(p)
		}
		w.pending = append(w.pending, p)
	}
}

// materials are the objects as kubectl would print them.
func (w *world) materials() []runtime.Object {
	var out []runtime.Object
	for _, p := range w.pools {
		out = append(out, p)
	}
	for _, n := range w.nodes {
		out = append(out, n)
	}
	for _, d := range w.daemons {
		out = append(out, d)
	}
	for _, p := range slices.Concat(w.bound, w.pending) {
		out = append(out, p)
	}
	return append(out, w.others...)
}
