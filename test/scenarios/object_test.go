package scenarios

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	v1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/internal/state/toworld"
)

func (c *cluster) addPool(w words) error {
	p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	for arg, annotation := range map[string]string{"node-cost": v1.NodeCostAnnotationKey, "restart-cost": v1.RestartCostAnnotationKey} {
		if w.has(arg) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, annotation, w.get(arg, ""))
		}
	}
	if w.has("turn") {
		c.turn[p.Name] = true
	}
	if w.has("hold") {
		c.hold[p.Name] = "pods are just created"
	}
	spec := &p.Spec.Template.Spec
	spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	p.Spec.Template.Labels = labels(w.all("label"))
	for _, short := range []string{"zones:zone", "capacity:capacity", "families:family", "types:type", "arch:arch"} {
		arg, k, _ := strings.Cut(short, ":")
		if v := w.get(arg, ""); v != "" {
			spec.Requirements = append(spec.Requirements, v1.NodeSelectorRequirementWithMinValues{Key: key(k), Operator: corev1.NodeSelectorOpIn, Values: strings.Split(v, ",")})
		}
	}
	if !w.has("capacity") {
		spec.Requirements = append(spec.Requirements, v1.NodeSelectorRequirementWithMinValues{Key: v1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand"}})
	}
	for _, text := range w.all("req") {
		r, err := requirement(text)
		if err != nil {
			return err
		}
		spec.Requirements = append(spec.Requirements, v1.NodeSelectorRequirementWithMinValues{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	for _, m := range w.all("min") {
		k, v, _ := strings.Cut(m, ":")
		n, err := strconv.Atoi(v)
		if err != nil {
			return err
		}
		spec.Requirements = append(spec.Requirements, v1.NodeSelectorRequirementWithMinValues{Key: key(k), Operator: corev1.NodeSelectorOpExists, MinValues: &n})
	}
	for _, t := range w.all("taint") {
		x := taint(t)
		spec.Taints = append(spec.Taints, v1.Taint{Key: x.Key, Value: x.Value, Effect: x.Effect})
	}
	for _, t := range w.all("startup") {
		x := taint(t)
		spec.StartupTaints = append(spec.StartupTaints, v1.Taint{Key: x.Key, Value: x.Value, Effect: x.Effect})
	}
	if v := w.get("weight", ""); v != "" {
		n, _ := strconv.Atoi(v)
		weight := int32(n)
		p.Spec.Weight = &weight
	}
	if v := w.get("replicas", ""); v != "" {
		n, _ := strconv.ParseInt(v, 10, 64)
		p.Spec.Replicas = &n
	}
	limits, err := quantities(words{args: func() (out [][2]string) {
		for _, l := range w.all("limit") {
			out = append(out, [2]string{"resource", l})
		}
		return out
	}()})
	p.Spec.Limits = v1.Limits(limits)
	if v := w.get("ready", ""); v != "" {
		p.Status.Conditions = []v1.Condition{{Type: "Ready", Status: metav1.ConditionStatus(v), Message: w.get("message", "")}}
	}
	if w.has("deleting") {
		p.DeletionTimestamp = &metav1.Time{}
	}
	c.objects.Pools = append(c.objects.Pools, p)
	if err != nil {
		return err
	}
	return disruption(p, w)
}

// addOverlay adds a NodeOverlay.
func (c *cluster) addOverlay(w words) error {
	o := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	for _, text := range w.all("req") {
		r, err := requirement(text)
		if err != nil {
			return err
		}
		o.Spec.Requirements = append(o.Spec.Requirements, v1alpha1.Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	if w.has("price") {
		o.Spec.Price = new(w.get("price", ""))
	}
	if w.has("adjust") {
		o.Spec.PriceAdjustment = new(w.get("adjust", ""))
	}
	if v := w.get("weight", ""); v != "" {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil {
			return err
		}
		o.Spec.Weight = new(int32(n))
	}
	var err error
	if w.has("resource") {
		o.Spec.Capacity, err = quantities(w)
	}
	c.objects.Overlays = append(c.objects.Overlays, o)
	return err
}

// addNode adds a node, with a claim if it has a pool; a claim alone is a node that has not appeared yet.
func (c *cluster) addNode(w words) error {
	w = sized(w)
	res, err := quantities(w, [2]string{"cpu", "cpu"}, [2]string{"mem", "memory"}, [2]string{"pods", "pods"})
	if err != nil {
		return err
	}
	if _, ok := res[corev1.ResourcePods]; !ok && len(res) > 0 {
		more, _ := quantities(words{args: [][2]string{{"pods", "110"}}}, [2]string{"pods", "pods"})
		res[corev1.ResourcePods] = more[corev1.ResourcePods]
	}
	l := labels(w.all("label"))
	if zone := w.get("zone", "a"); zone != "none" {
		l[corev1.LabelTopologyZone] = zone
	}
	for arg, k := range map[string]string{"pool": v1.NodePoolLabelKey, "type": corev1.LabelInstanceTypeStable, "capacity": v1.CapacityTypeLabelKey} {
		if v := w.get(arg, ""); v != "" {
			l[k] = v
		}
	}
	var taints []corev1.Taint
	for _, t := range w.all("taint") {
		taints = append(taints, taint(t))
	}
	var deleted *metav1.Time
	if w.has("deleting") {
		deleted = &metav1.Time{}
	}
	if w.has("pool") || w.verb == "claim" {
		cl := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: l, DeletionTimestamp: deleted}}
		cl.Status.ProviderID, cl.Status.Capacity, cl.Status.Allocatable = "p/"+w.name, res, res
		if w.has("requests") {
			cl.Spec.Resources.Requests, cl.Status.Allocatable, cl.Status.ProviderID = res, nil, ""
		}
		for _, t := range w.all("startup") {
			x := taint(t)
			cl.Spec.StartupTaints = append(cl.Spec.StartupTaints, v1.Taint{Key: x.Key, Value: x.Value, Effect: x.Effect})
		}
		if w.verb == "claim" {
			for _, x := range taints {
				cl.Spec.Taints = append(cl.Spec.Taints, v1.Taint{Key: x.Key, Value: x.Value, Effect: x.Effect})
			}
		}
		until := "Initialized"
		if w.verb == "claim" {
			until = "Launched"
		}
		until = w.get("until", until)
		for _, k := range []string{"Launched", "Registered", "Initialized"} {
			cl.Status.Conditions = append(cl.Status.Conditions, v1.Condition{Type: k, Status: metav1.ConditionTrue})
			if until == k {
				break
			}
		}
		if err := c.claimFacts(cl, w); err != nil {
			return err
		}
		c.objects.Claims = append(c.objects.Claims, cl)
	}
	if w.verb == "claim" {
		return nil
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: l, DeletionTimestamp: deleted}}
	n.Labels[corev1.LabelHostname] = w.name
	n.Spec.ProviderID, n.Spec.Taints, n.Spec.Unschedulable = "p/"+w.name, taints, w.has("cordoned")
	n.Status.Capacity, n.Status.Allocatable = res.DeepCopy(), res.DeepCopy()
	for _, gone := range w.all("missing") { // the claim promises it, the node does not report it yet
		delete(n.Status.Allocatable, corev1.ResourceName(gone))
	}
	nodeStatus(n, w)
	c.objects.Nodes = append(c.objects.Nodes, n)
	return c.sick(n, w)
}

func (c *cluster) addOther(w words) error {
	ns := w.get("ns", "default")
	meta := metav1.ObjectMeta{Name: w.name, Namespace: ns, Annotations: map[string]string{}}
	if w.has("deleting") {
		meta.DeletionTimestamp = &metav1.Time{}
	}
	switch w.verb {
	case "pv":
		return c.addVolume(w, meta.DeletionTimestamp)
	case "pvc":
		pvc := &corev1.PersistentVolumeClaim{ObjectMeta: meta}
		pvc.Spec.VolumeName = w.get("pv", "")
		if pvc.Spec.VolumeName != "" && !w.has("unbound") {
			pvc.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
		}
		if class := w.get("class", ""); class != "" {
			pvc.Spec.StorageClassName = &class
		}
		pvc.Status.Phase = corev1.PersistentVolumeClaimPhase(w.get("phase", "Pending"))
		c.objects.VolumeUses = append(c.objects.VolumeUses, pvc)
	case "sc":
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		if w.has("immediate") {
			mode = storagev1.VolumeBindingImmediate
		}
		sc := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Provisioner: w.get("driver", "ebs.csi.aws.com"), VolumeBindingMode: &mode}
		for _, zones := range w.all("zones") {
			sc.AllowedTopologies = append(sc.AllowedTopologies, corev1.TopologySelectorTerm{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
				{Key: "topology.ebs.csi.aws.com/zone", Values: strings.Split(zones, ",")},
			}})
		}
		c.objects.Storage = append(c.objects.Storage, sc)
	case "csinode":
		driver := storagev1.CSINodeDriver{Name: w.get("driver", "ebs.csi.aws.com"), Allocatable: &storagev1.VolumeNodeResources{}}
		if w.get("limit", "") != "none" {
			n, err := strconv.Atoi(w.get("limit", ""))
			if err != nil {
				return err
			}
			count := int32(n)
			driver.Allocatable.Count = &count
		}
		c.objects.CSINodes = append(c.objects.CSINodes, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{driver}}})
	case "namespace":
		c.objects.Namespaces = append(c.objects.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: labels(w.all("label"))}})
	case "service":
		c.objects.Services = append(c.objects.Services, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: labels(w.all("label"))}})
	case "pdb":
		b := &policyv1.PodDisruptionBudget{ObjectMeta: meta}
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels(w.all("label"))}
		max := intstr.Parse(w.get("max", "1"))
		b.Spec.MaxUnavailable = &max
		n, _ := strconv.Atoi(w.get("allowed", "0"))
		b.Status.DisruptionsAllowed = int32(n)
		if w.has("always") {
			always := policyv1.AlwaysAllow
			b.Spec.UnhealthyPodEvictionPolicy = &always
		}
		c.objects.Budgets = append(c.objects.Budgets, b)
	}
	return nil
}

func (c *cluster) addVolume(w words, deleted *metav1.Time) error {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.name, DeletionTimestamp: deleted}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: w.get("driver", "ebs.csi.aws.com")}
	if w.has("local") {
		pv.Spec.CSI, pv.Spec.Local = nil, &corev1.LocalVolumeSource{Path: "/data"}
	}
	sel := &corev1.NodeSelector{}
	for _, term := range w.all("need") {
		var t corev1.NodeSelectorTerm
		for _, text := range strings.Split(term, "&") {
			r, err := requirement(text)
			if err != nil {
				return err
			}
			t.MatchExpressions = append(t.MatchExpressions, r)
		}
		sel.NodeSelectorTerms = append(sel.NodeSelectorTerms, t)
	}
	if len(sel.NodeSelectorTerms) > 0 {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: sel}
	}
	c.objects.Volumes = append(c.objects.Volumes, pv)
	return nil
}

// addPods adds a number of equal pods, or with daemon a DaemonSet of them.
// addBuffer adds a CapacityBuffer with so many spare pods, as it is once it has been resolved.
func (c *cluster) addBuffer(w words) error {
	tmpl, err := podTemplate(w)
	if err != nil {
		return err
	}
	b := &bufferv1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: tmpl.Namespace, Name: w.name}}
	tmpl.Spec.NodeName = "left-out"
	n := w.count()
	c.objects.Pods = append(c.objects.Pods, toworld.BufferPod(b, &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: tmpl.Labels}, Spec: tmpl.Spec}, int32(n)))
	for _, p := range toworld.SparePods(tmpl.Namespace+"/"+w.name, 0, n) {
		c.workload[p.UID] = "spare:" + w.name
	}
	return nil
}

// count is the number after ×, 1 if there is none.
func (w words) count() int {
	count := 1
	for _, a := range w.args {
		if n, ok := strings.CutPrefix(a[0], "×"); ok {
			count, _ = strconv.Atoi(n)
		}
	}
	return count
}

func (c *cluster) addPods(w words) error {
	count := w.count()
	tmpl, err := podTemplate(w)
	if err != nil {
		return err
	}
	if w.verb == "daemon" {
		c.objects.DaemonSets = append(c.objects.DaemonSets, &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: w.name, Namespace: w.get("ns", "default")},
			Spec:       appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: tmpl.Labels}, Spec: tmpl.Spec}},
		})
		return nil
	}
	for i := range count {
		p := tmpl.DeepCopy()
		p.Name = fmt.Sprintf("%s-%d", w.name, i)
		if w.verb == "pod" {
			p.Name = w.name
		}
		for k := range p.Spec.Volumes {
			if v := p.Spec.Volumes[k].PersistentVolumeClaim; v != nil {
				v.ClaimName = strings.ReplaceAll(v.ClaimName, "*", strconv.Itoa(i))
			}
		}
		c.next++
		p.UID = types.UID(fmt.Sprintf("uid-%05d", c.next))
		c.workload[string(p.UID)] = w.name
		c.objects.Pods = append(c.objects.Pods, p)
	}
	return nil
}

func podStatus(p *corev1.Pod, w words) {
	reason := w.get("reason", corev1.PodReasonUnschedulable)
	p.Status.Phase = corev1.PodPhase(w.get("phase", "Pending"))
	p.Status.NominatedNodeName = w.get("nominated", "")
	p.Spec.NodeName = w.get("on", "")
	if p.Spec.NodeName == "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason}}
	} else if !w.has("phase") {
		p.Status.Phase = corev1.PodRunning
	}
	if p.Spec.NodeName != "" && !w.has("notready") {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	}
	if d, err := time.ParseDuration(w.get("started", "")); err == nil {
		p.Status.StartTime = &metav1.Time{Time: monday.Add(-d)}
	}
	if reason := w.get("resize", ""); reason != "" {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason})
	}
	if w.has("terminating") {
		p.DeletionTimestamp = &metav1.Time{}
	}
	if o := w.get("owner", ""); o != "" {
		kind, name, _ := strings.Cut(o, "/")
		p.OwnerReferences = owner(kind, name)
	}
	for _, a := range w.all("annotation") {
		k, v, _ := strings.Cut(a, ":")
		p.Annotations[k] = v
	}
}
