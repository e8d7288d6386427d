package oracle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
)

// shape is a pod with a random choice of constraints.
func (w *world) shape(name, app string) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: pick(w, []string{"default", "default", "other"}), UID: types.UID(name), Labels: map[string]string{"app": app, "version": pick(w, []string{"1", "2"})}},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName, RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: w.requests()}}},
		},
	}
	spec := &p.Spec
	if w.chance(15) {
		always := corev1.ContainerRestartPolicyAlways
		first := corev1.Container{Name: "first", Resources: corev1.ResourceRequirements{Requests: w.requests()}}
		if w.chance(50) {
			first.RestartPolicy = &always
		}
		spec.InitContainers = append(spec.InitContainers, first)
	}
	if w.chance(8) { // at least what the containers ask for together, or the API server refuses it
		spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5200m"), corev1.ResourceMemory: resource.MustParse("6500Mi")}}
	}
	if w.chance(10) {
		spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("150m")}
	}
	if w.chance(25) {
		spec.NodeSelector = map[string]string{}
		w.selectNode(spec.NodeSelector)
	}
	if w.chance(25) {
		spec.Affinity = &corev1.Affinity{NodeAffinity: w.nodeAffinity()}
	}
	if w.chance(50) {
		spec.Tolerations = append(spec.Tolerations, pick(w, []corev1.Toleration{
			{Key: "dedicated", Operator: corev1.TolerationOpExists},
			{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: pick(w, apps), Effect: corev1.TaintEffectNoSchedule},
			{Operator: corev1.TolerationOpExists},
		}))
	}
	for range w.IntN(3) {
		if w.chance(40) {
			w.addSpread(spec)
		}
	}
	w.addPodAffinity(p)
	if w.chance(12) {
		spec.Containers[0].Ports = []corev1.ContainerPort{{
			ContainerPort: 80, HostPort: int32(8080 + w.IntN(2)), HostIP: pick(w, []string{"", "10.0.0.1", "10.0.0.2"}),
			Protocol: pick(w, []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}),
		}}
	}
	return p
}

func (w *world) requests() corev1.ResourceList {
	out := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprintf("%dm", 100*(1+w.IntN(25)))), corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dMi", 128*(1+w.IntN(24))))}
	if w.chance(6) {
		out["nvidia.com/gpu"] = resource.MustParse("1")
	}
	if w.chance(6) {
		out[corev1.ResourceEphemeralStorage] = resource.MustParse("2Gi")
	}
	return out
}

func (w *world) selectNode(selector map[string]string) {
	switch w.IntN(4) {
	case 0:
		selector[corev1.LabelTopologyZone] = pick(w, zones)
	case 1:
		selector[corev1.LabelArchStable] = pick(w, arches)
	case 2:
		selector[karpv1.CapacityTypeLabelKey] = pick(w, models)
	case 3:
		selector["example.com/tier"] = pick(w, []string{"gold", "silver", "lead"})
	}
}

func (w *world) nodeAffinity() *corev1.NodeAffinity {
	expression := func() corev1.NodeSelectorRequirement {
		return pick(w, []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: w.some(zones)},
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpNotIn, Values: w.some(zones)},
			{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: w.some(arches)},
			{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpExists},
			{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpDoesNotExist},
			{Key: "example.com/tier", Operator: corev1.NodeSelectorOpExists},
			{Key: "example.com/team", Operator: corev1.NodeSelectorOpDoesNotExist},
			{Key: "karpenter.k8s.aws/instance-cpu", Operator: corev1.NodeSelectorOpGt, Values: []string{"3"}},
			{Key: "karpenter.k8s.aws/instance-cpu", Operator: corev1.NodeSelectorOpLt, Values: []string{"9"}},
		})
	}
	out := &corev1.NodeAffinity{}
	if w.chance(75) {
		required := &corev1.NodeSelector{}
		for range 1 + w.IntN(3) {
			term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{expression()}}
			if w.chance(30) {
				term.MatchExpressions = append(term.MatchExpressions, expression())
			}
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
		}
		out.RequiredDuringSchedulingIgnoredDuringExecution = required
	}
	if w.chance(40) {
		out.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{Weight: int32(1 + w.IntN(100)), Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{expression()}}}}
	}
	return out
}

func (w *world) addSpread(spec *corev1.PodSpec) {
	c := corev1.TopologySpreadConstraint{
		MaxSkew: int32(1 + w.IntN(3)), TopologyKey: pick(w, []string{corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelHostname, karpv1.CapacityTypeLabelKey, corev1.LabelArchStable}),
		WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: w.selector(),
	}
	if w.chance(20) {
		c.WhenUnsatisfiable = corev1.ScheduleAnyway
	} else if w.chance(20) {
		n := int32(1 + w.IntN(4))
		c.MinDomains = &n
	}
	if w.chance(4) {
		c.LabelSelector = nil
	}
	for _, other := range spec.TopologySpreadConstraints {
		if other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable {
			return // the API server refuses such a pair
		}
	}
	if c.LabelSelector != nil && w.chance(20) {
		c.MatchLabelKeys = []string{"version"}
	}
	if w.chance(25) {
		policy := pick(w, []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore})
		c.NodeTaintsPolicy = &policy
	}
	if w.chance(25) {
		policy := pick(w, []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore})
		c.NodeAffinityPolicy = &policy
	}
	spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, c)
}

func (w *world) selector() *metav1.LabelSelector {
	return pick(w, []*metav1.LabelSelector{
		{MatchLabels: map[string]string{"app": pick(w, apps)}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: w.some(apps)}}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: w.some(apps)}}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "version", Operator: metav1.LabelSelectorOpExists}}},
		{},
	})
}

func (w *world) addPodAffinity(p *corev1.Pod) {
	term := func() corev1.PodAffinityTerm {
		t := corev1.PodAffinityTerm{LabelSelector: w.selector(), TopologyKey: pick(w, []string{corev1.LabelHostname, corev1.LabelTopologyZone})}
		switch w.IntN(4) {
		case 0:
			t.Namespaces = []string{pick(w, []string{"default", "other"})}
		case 1:
			t.NamespaceSelector = pick(w, []*metav1.LabelSelector{w.everyNamespace(), {MatchLabels: map[string]string{"team": pick(w, apps)}}})
		}
		w.addLabelKeys(&t, p)
		return t
	}
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	if w.chance(12) {
		t := term()
		t.LabelSelector.MatchLabels = map[string]string{"app": pick(w, []string{p.Labels["app"], pick(w, apps)})}
		terms := []corev1.PodAffinityTerm{t}
		if w.chance(25) { // the same company in another topology
			t.TopologyKey = pick(w, []string{corev1.LabelArchStable, corev1.LabelTopologyZone})
			terms = append(terms, t)
		}
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
	if w.chance(15) {
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term()}}
	}
	if w.chance(10) {
		if p.Spec.Affinity.PodAntiAffinity == nil {
			p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
		}
		p.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: 10, PodAffinityTerm: term()}}
	}
}

// everyNamespace selects all namespaces that have pods of ours. With daemon sets, it leaves theirs out: whether the daemon or the
// pod comes to a new node first is open, and so is which of them anti-affinity keeps away.
func (w *world) everyNamespace() *metav1.LabelSelector {
	if len(w.daemons) == 0 {
		return &metav1.LabelSelector{}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpExists}}}
}

// addLabelKeys lets a term compare a label of the pod; the API server writes that into the selector when the pod is made.
func (w *world) addLabelKeys(t *corev1.PodAffinityTerm, p *corev1.Pod) {
	add := func(operator metav1.LabelSelectorOperator) {
		t.LabelSelector.MatchExpressions = append(t.LabelSelector.MatchExpressions, metav1.LabelSelectorRequirement{Key: "version", Operator: operator, Values: []string{p.Labels["version"]}})
	}
	switch w.IntN(10) {
	case 0:
		t.MatchLabelKeys = []string{"version"}
		add(metav1.LabelSelectorOpIn)
	case 1:
		t.MismatchLabelKeys = []string{"version"}
		add(metav1.LabelSelectorOpNotIn)
	}
}

// addVolume gives a pod a volume that is bound to a zone, or one that will be made where the pod goes.
func (w *world) addVolume(p *corev1.Pod) {
	w.volumes++
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: fmt.Sprint("data", w.volumes), UID: types.UID(fmt.Sprint("claim", w.volumes))},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}})
	zoneTerm := func(values []string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: values}}}
	}
	if w.chance(50) {
		name := fmt.Sprint("pv", w.volumes)
		claim.Spec.VolumeName = name
		claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		claim.Status.Phase = corev1.ClaimBound
		terms := []corev1.NodeSelectorTerm{zoneTerm([]string{pick(w, zones)})}
		if w.chance(30) {
			terms = append(terms, zoneTerm([]string{pick(w, zones)}))
		}
		w.others = append(w.others, &corev1.PersistentVolume{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: claim.Spec.AccessModes,
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: csiDriver, VolumeHandle: name}},
				ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
				NodeAffinity:           &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}},
			},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
		})
	} else {
		class := fmt.Sprint("class", w.volumes)
		late := storagev1.VolumeBindingWaitForFirstConsumer
		storage := &storagev1.StorageClass{
			TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"}, ObjectMeta: metav1.ObjectMeta{Name: class},
			Provisioner: csiDriver, VolumeBindingMode: &late,
		}
		if w.chance(60) {
			storage.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: w.some(zones)}}}}
		}
		claim.Spec.StorageClassName = &class
		w.others = append(w.others, storage)
	}
	w.others = append(w.others, claim)
}
