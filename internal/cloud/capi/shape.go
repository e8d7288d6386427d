package capi

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/capi/kinds"
	"karpenter/internal/engine/world"
)

const (
	// defaultPods is how many pods a kubelet takes that has not been told otherwise.
	defaultPods = 110
	// evictionMemory and evictionStorage are what a kubelet with default settings keeps from pods: memory, and a tenth of the disk.
	evictionMemory  = 100 << 20
	evictionStorage = 10
	// pausedBy is the value of the annotation of a MachineDeployment that Karpenter has paused.
	pausedBy = "karpenter"
	// maxReplicas bounds a scalable resource without a max size.
	maxReplicas = 10_000
)

// shape is what one scalable resource gives.
type shape struct {
	key         key
	name        string // of the instance type
	zone        string
	purchase    string // capacity type
	labels      map[string]string
	capacity    corev1.ResourceList
	attach      map[string]int64 // volumes by CSI driver
	taints      []corev1.Taint
	price       float64
	priceSource string
	limits      limits
	image       string
	full        bool
}

// limits are the least and the most replicas that a scalable resource may have.
type limits struct{ min, max int32 }

// room is how many more replicas it may have.
func (l limits) room(o *kinds.Scalable) int { return int(l.max) - int(replicas(o)) }

func replicas(o *kinds.Scalable) int32 {
	if o.Spec.Replicas == nil {
		return 1 // Cluster API's default
	}
	return *o.Spec.Replicas
}

// limitsOf reads the annotations for the least and the most replicas.
func limitsOf(o *kinds.Scalable) (limits, error) {
	out := limits{max: maxReplicas}
	for _, a := range []struct {
		annotation string
		at         *int32
	}{{kinds.MinSizeAnnotation, &out.min}, {kinds.MaxSizeAnnotation, &out.max}} {
		text, given := o.Annotations[a.annotation]
		if !given {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return limits{}, fmt.Errorf("annotation %s is %q; give a whole number of 0 or more", a.annotation, text)
		}
		*a.at = int32(n)
	}
	if out.min > out.max {
		return limits{}, fmt.Errorf("annotation %s is %d and %s is %d; the first must not be larger", kinds.MinSizeAnnotation, out.min, kinds.MaxSizeAnnotation, out.max)
	}
	return out, nil
}

// templateKey names an infrastructure template.
type templateKey struct{ group, kind, namespace, name string }

// templateStatus is what an infrastructure template says of its Machines.
type templateStatus struct {
	capacity corev1.ResourceList
	os, arch string
}

func templateOf(o *kinds.Scalable) templateKey {
	ref := o.Spec.Template.Spec.InfrastructureRef
	gk := ref.GroupKind()
	return templateKey{gk.Group, gk.Kind, o.Namespace, ref.Name}
}

// described says whether the annotations of a scalable resource say what a node has.
func described(o *kinds.Scalable) bool {
	return o.Annotations[kinds.CapacityPrefix+"cpu"] != "" && o.Annotations[kinds.CapacityPrefix+"memory"] != ""
}

// usable says why nothing can be launched from a scalable resource now, or returns nil.
func usable(o *kinds.Scalable, cluster *kinds.Cluster) error {
	by, paused := o.Annotations[kinds.PausedAnnotation]
	paused = paused && by != pausedBy // for the moment in which one of its MachineSets is scaled
	switch name := o.Spec.ClusterName; {
	case !o.DeletionTimestamp.IsZero():
		return fmt.Errorf("metadata.deletionTimestamp is set: it is being deleted; remove the label %s, or create it anew", v1alpha1.LabelMember)
	case name == "":
		return fmt.Errorf("spec.clusterName is not given; give the name of a Cluster in namespace %s", o.Namespace)
	case cluster == nil:
		return fmt.Errorf("spec.clusterName is %q, and namespace %s has no such Cluster; give the name of one", name, o.Namespace)
	case !cluster.DeletionTimestamp.IsZero():
		return fmt.Errorf("spec.clusterName is %q, and that Cluster is being deleted", name)
	case paused:
		return fmt.Errorf("annotation %s is set; remove it to have its Machines made", kinds.PausedAnnotation)
	case o.Spec.Paused:
		return fmt.Errorf("spec.paused is true; set it to false to have its Machines made")
	case cluster.Spec.Paused:
		return fmt.Errorf("spec.paused of Cluster %s is true; set it to false to have its Machines made", name)
	case len(o.Spec.Selector.MatchLabels) == 0 && len(o.Spec.Selector.MatchExpressions) == 0:
		return fmt.Errorf("spec.selector is empty; give labels that its Machines carry")
	}
	return nil
}

// read works out what a scalable resource gives. The error names the field and what would be right.
func read(k key, o *kinds.Scalable, template templateStatus, prices map[string]float64) (shape, error) {
	s := shape{key: k, labels: map[string]string{}, capacity: corev1.ResourceList{}}
	var err error
	if s.limits, err = limitsOf(o); err != nil {
		return s, err
	}
	s.full = s.limits.room(o) <= 0
	if err := s.readCapacity(o, template); err != nil {
		return s, err
	}
	if err := s.readLabels(o, template); err != nil {
		return s, err
	}
	if err := s.readTaints(o); err != nil {
		return s, err
	}
	ref := o.Spec.Template.Spec.InfrastructureRef
	s.image = ref.Kind + "/" + ref.Name
	return s, s.readPrice(o, prices)
}

// amount reads one quantity.
func amount(o *kinds.Scalable, what, example string) (q resource.Quantity, given bool, err error) {
	text, given := o.Annotations[kinds.CapacityPrefix+what]
	if !given || text == "" {
		return q, false, nil
	}
	q, err = resource.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		return q, true, fmt.Errorf("annotation %s%s is %q, which is no quantity; give one such as %q", kinds.CapacityPrefix, what, text, example)
	}
	return q, true, nil
}

func (s *shape) readCapacity(o *kinds.Scalable, template templateStatus) error {
	for name, q := range template.capacity {
		s.capacity[name] = q
	}
	for _, a := range []struct {
		what, example string
		name          corev1.ResourceName
	}{
		{"cpu", "16", corev1.ResourceCPU},
		{"memory", "128Gi", corev1.ResourceMemory},
		{"maxPods", "110", corev1.ResourcePods},
		{"ephemeral-disk", "100Gi", corev1.ResourceEphemeralStorage},
	} {
		q, given, err := amount(o, a.what, a.example)
		if err != nil {
			return err
		}
		if given {
			s.capacity[a.name] = q
		}
	}
	count, given, err := amount(o, "gpu-count", "1")
	if err != nil {
		return err
	}
	if kind := o.Annotations[kinds.CapacityPrefix+"gpu-type"]; given && !count.IsZero() {
		if kind == "" {
			return fmt.Errorf("annotation %sgpu-count is given and %sgpu-type is not; give the resource's name, such as nvidia.com/gpu", kinds.CapacityPrefix, kinds.CapacityPrefix)
		}
		s.capacity[corev1.ResourceName(kind)] = count
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q := s.capacity[name]; q.Sign() <= 0 {
			return fmt.Errorf("it does not say how much %s a node has; give the annotation %s%s, or an infrastructure template with status.capacity", name, kinds.CapacityPrefix, name)
		}
	}
	if _, ok := s.capacity[corev1.ResourcePods]; !ok {
		s.capacity[corev1.ResourcePods] = *resource.NewQuantity(defaultPods, resource.DecimalSI)
	}
	return s.readDrivers(o)
}

// readDrivers reads how many volumes drivers can attach to a node.
func (s *shape) readDrivers(o *kinds.Scalable) error {
	const what = kinds.CapacityPrefix + "csi-driver"
	for _, part := range split(o.Annotations[what]) {
		driver, text, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || driver == "" || n < 0 {
			return fmt.Errorf("annotation %s has the part %q; give driver=limit, such as csi.vsphere.vmware.com=59", what, part)
		}
		if s.attach == nil {
			s.attach = map[string]int64{}
		}
		s.attach[driver] = n
	}
	return nil
}

func split(text string) (parts []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// passedOn says whether Cluster API gives a label of the Machine template to nodes.
func passedOn(label string) bool {
	domain, _, _ := strings.Cut(label, "/")
	for _, managed := range []string{"node.cluster.x-k8s.io", "node-restriction.kubernetes.io"} {
		if domain == managed || strings.HasSuffix(domain, "."+managed) {
			return true
		}
	}
	return domain == "node-role.kubernetes.io"
}

func (s *shape) readLabels(o *kinds.Scalable, template templateStatus) error {
	const what = kinds.CapacityPrefix + "labels"
	s.labels[corev1.LabelOSStable], s.labels[corev1.LabelArchStable] = "linux", "amd64"
	if template.os != "" {
		s.labels[corev1.LabelOSStable] = template.os
	}
	if template.arch != "" {
		s.labels[corev1.LabelArchStable] = template.arch
	}
	for k, v := range o.Spec.Template.Metadata.Labels {
		if passedOn(k) {
			s.labels[k] = v
		}
	}
	for _, part := range split(o.Annotations[what]) {
		k, v, ok := strings.Cut(part, "=")
		if errs := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); !ok || len(errs) > 0 {
			return fmt.Errorf("annotation %s has the part %q; give key=value, such as kubernetes.io/arch=amd64", what, part)
		}
		s.labels[karpv1.CoreLabelRules().Normalize(k)] = v
	}
	s.name = s.labels[corev1.LabelInstanceTypeStable]
	if s.name == "" {
		s.name = labelValue(o.Name)
	}
	s.labels[corev1.LabelInstanceTypeStable] = s.name
	s.zone = s.labels[corev1.LabelTopologyZone]
	if domain := o.Spec.Template.Spec.FailureDomain; domain != "" {
		s.zone = domain
	}
	if s.zone == "" {
		s.zone = o.Spec.ClusterName // a cluster without failure domains is one zone
	}
	if errs := validation.IsValidLabelValue(s.zone); len(errs) > 0 {
		return fmt.Errorf("spec.template.spec.failureDomain is %q, which is no label value, and zones are labels; give one of at most 63 letters, digits, '-', '_' and '.'", s.zone)
	}
	delete(s.labels, corev1.LabelTopologyZone)
	switch s.purchase = s.labels[karpv1.CapacityTypeLabelKey]; s.purchase {
	case "":
		s.purchase = karpv1.CapacityTypeOnDemand
	case karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot:
	default:
		return fmt.Errorf("annotation %s has %s=%s; give %s or %s", what, karpv1.CapacityTypeLabelKey, s.purchase, karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot)
	}
	delete(s.labels, karpv1.CapacityTypeLabelKey)
	for _, k := range slices.Sorted(maps.Keys(s.labels)) {
		if domain, _, _ := strings.Cut(k, "/"); domain == karpv1.Group || domain == v1alpha1.Group {
			return fmt.Errorf("annotation %s has the label %s, which Karpenter sets; remove it", what, k)
		}
	}
	cpu, memory := s.capacity[corev1.ResourceCPU], s.capacity[corev1.ResourceMemory]
	s.labels[v1alpha1.LabelInstanceCPU] = strconv.FormatInt(cpu.Value(), 10)
	s.labels[v1alpha1.LabelInstanceMemory] = strconv.FormatInt(memory.Value()>>20, 10)
	return nil
}

// labelValue makes a name short enough for a label.
func labelValue(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	return name[:validation.LabelValueMaxLength-9] + "-" + digest(name)[:8]
}

func (s *shape) readTaints(o *kinds.Scalable) error {
	const what = kinds.CapacityPrefix + "taints"
	s.taints = slices.Clone(o.Spec.Template.Spec.Taints)
	for _, part := range split(o.Annotations[what]) {
		left, effect, ok := strings.Cut(part, ":")
		k, v, _ := strings.Cut(left, "=")
		known := slices.Contains([]string{string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectNoExecute)}, effect)
		if errs := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); !ok || !known || len(errs) > 0 {
			return fmt.Errorf("annotation %s has the part %q; give key=value:effect, such as dedicated=gpu:NoSchedule", what, part)
		}
		t := corev1.Taint{Key: k, Value: v, Effect: corev1.TaintEffect(effect)}
		if !slices.ContainsFunc(s.taints, func(have corev1.Taint) bool { return have.MatchTaint(&t) }) {
			s.taints = append(s.taints, t)
		}
	}
	return nil
}

// hard are the taints that keep pods away.
func (s *shape) hard() (out []corev1.Taint) {
	for _, t := range s.taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != karpv1.UnregisteredTaintKey && !karpv1.IsKnownEphemeralTaint(t) {
			out = append(out, t)
		}
	}
	return out
}

// What a node is thought to cost per hour of which nothing is known: shares of the price of usual cloud instances, so that a node with
// less of everything is cheaper and memory, CPU and devices are in proportion. It compares nodes; it is no amount that anybody pays.
const (
	estimatedCPU    = 0.03
	estimatedGiB    = 0.004
	estimatedDevice = 1.0
)

func (s *shape) readPrice(o *kinds.Scalable, prices map[string]float64) error {
	if text, given := o.Annotations[v1alpha1.PriceAnnotationKey]; given {
		price, err := parsePrice(text)
		if err != nil {
			return fmt.Errorf("annotation %s is %q; give dollars an hour, such as \"0.42\"", v1alpha1.PriceAnnotationKey, text)
		}
		s.price, s.priceSource = price, v1alpha1.PriceFromAnnotation
		return nil
	}
	if price, ok := prices[s.name]; ok {
		s.price, s.priceSource = price, v1alpha1.PriceFromFile
		return nil
	}
	s.priceSource = v1alpha1.PriceEstimated
	for name, q := range s.capacity {
		switch name {
		case corev1.ResourceCPU:
			s.price += estimatedCPU * q.AsApproximateFloat64()
		case corev1.ResourceMemory:
			s.price += estimatedGiB * q.AsApproximateFloat64() / (1 << 30)
		case corev1.ResourcePods, corev1.ResourceEphemeralStorage:
		default:
			s.price += estimatedDevice * q.AsApproximateFloat64()
		}
	}
	s.price = math.Round(s.price*1e6) / 1e6 // the order of the sum must not show
	return nil
}

func parsePrice(text string) (float64, error) {
	price, err := strconv.ParseFloat(text, 64)
	if err == nil && (price < 0 || math.IsNaN(price) || math.IsInf(price, 0)) {
		err = fmt.Errorf("%q is no price", text)
	}
	return price, err
}

// vectors are capacity and what of it pods may use, with entries in the order of names.
func (s *shape) vectors(names []string) (capacity, allocatable world.Resources) {
	for i, name := range names {
		q, ok := s.capacity[corev1.ResourceName(name)]
		if !ok {
			continue
		}
		v := q.Value()
		if i == world.CPU {
			v = q.MilliValue()
		}
		capacity = capacity.Set(i, v)
		switch i {
		case world.Memory:
			v = max(v-evictionMemory, 0)
		case world.Storage:
			v -= v / evictionStorage
		}
		allocatable = allocatable.Set(i, v)
	}
	for driver, limit := range s.attach {
		i := slices.Index(names, world.AttachResource(driver))
		capacity, allocatable = capacity.Set(i, world.AttachLimit(limit)), allocatable.Set(i, world.AttachLimit(limit))
	}
	return capacity, allocatable
}

// basic are the resources that every node has, in the engine's order.
var basic = []string{"cpu", "memory", "pods", "ephemeral-storage"}

// names are the resources that shapes have.
func names(shapes []shape) []string {
	further := map[string]bool{}
	for _, s := range shapes {
		for name := range s.capacity {
			further[string(name)] = true
		}
		for driver := range s.attach {
			further[world.AttachResource(driver)] = true
		}
	}
	for _, name := range basic {
		delete(further, name)
	}
	return append(slices.Clone(basic), slices.Sorted(maps.Keys(further))...)
}
