package state

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "karpenter/api/karpenter/v1"
)

// fleet is a made-up cluster of a given size, for measurements: workloads of twenty to a hundred pods with the fields that real
// pods carry, two DaemonSets, a pool, and a claim behind every node.
type fleet struct {
	pool    *v1.NodePool
	nodes   []*corev1.Node
	claims  []*v1.NodeClaim
	pods    []*corev1.Pod
	daemons []*appsv1.DaemonSet
	budgets []*policyv1.PodDisruptionBudget
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) metav1.Time {
	return metav1.NewTime(epoch.Add(time.Duration(seconds) * time.Second))
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

// newFleet makes nodes nodes with perNode pods each, the last of which are pending.
func newFleet(nodes, perNode, pending int) *fleet {
	f := &fleet{pool: &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general", UID: "pool", ResourceVersion: "1"}}}
	f.pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	for i := range nodes {
		f.addNode(i)
	}
	for _, name := range []string{"cni", "proxy"} {
		ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system", UID: types.UID("ds-" + name), ResourceVersion: "1"}}
		ds.Spec.Template.Spec = podSpec(name, "100m", "64Mi")
		f.daemons = append(f.daemons, ds)
	}
	total := nodes*perNode + pending
	for i := range total {
		name := ""
		if i < nodes*perNode {
			name = f.nodes[i%nodes].Name
		}
		f.pods = append(f.pods, f.newPod(i, name))
	}
	for i := range 20 {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("b%d", i), Namespace: fmt.Sprintf("ns%d", i%10), UID: types.UID(fmt.Sprintf("b%d", i)), ResourceVersion: "1"}}
		one := intstr.FromInt32(1)
		b.Spec.MaxUnavailable, b.Spec.Selector = &one, &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("app%d", i)}}
		f.budgets = append(f.budgets, b)
	}
	return f
}

func (f *fleet) addNode(i int) {
	labels := map[string]string{
		v1.NodePoolLabelKey: "general", corev1.LabelHostname: fmt.Sprintf("node-%d", i), corev1.LabelInstanceTypeStable: "m5.4xlarge",
		corev1.LabelTopologyZone: "us-east-1" + string(rune('a'+i%3)), v1.CapacityTypeLabelKey: "spot", v1.NodeRegisteredLabelKey: "true",
		v1.NodeInitializedLabelKey: "true", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelTopologyRegion: "us-east-1",
		"karpenter.k8s.aws/instance-family": "m5", "karpenter.k8s.aws/instance-size": "4xlarge", "karpenter.k8s.aws/instance-category": "m",
		"karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.k8s.aws/instance-cpu": "16", "karpenter.k8s.aws/instance-memory": "65536",
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("node-%d", i), UID: types.UID(fmt.Sprintf("node-uid-%d", i)), ResourceVersion: "1", Labels: labels, CreationTimestamp: at(i),
		Annotations:   map[string]string{"csi.volume.kubernetes.io/nodeid": fmt.Sprintf(`{"ebs.csi.aws.com":"i-%017d"}`, i), "node.alpha.kubernetes.io/ttl": "0"},
		ManagedFields: managed(3),
	}}
	n.Spec.ProviderID = fmt.Sprintf("aws:///us-east-1a/i-%017d", i)
	n.Status.Capacity, n.Status.Allocatable = amounts("16", "64Gi"), amounts("15800m", "60Gi")
	n.Status.Capacity["pods"], n.Status.Allocatable["pods"] = resource.MustParse("110"), resource.MustParse("110")
	for _, c := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: c, Status: "False", Reason: "KubeletIsFine", Message: "kubelet says that all is fine with " + string(c), LastHeartbeatTime: at(i), LastTransitionTime: at(i)})
	}
	for k := range 50 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/team/image-%d@sha256:%064d", k, k), fmt.Sprintf("registry.example.com/team/image-%d:v1.2.3", k)}, SizeBytes: 1 << 28})
	}
	f.nodes = append(f.nodes, n)
	c := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("general-%d", i), UID: types.UID(fmt.Sprintf("claim-uid-%d", i)), ResourceVersion: "1", Labels: labels, CreationTimestamp: at(i), ManagedFields: managed(2)}}
	c.Spec.NodeClassRef = f.pool.Spec.Template.Spec.NodeClassRef
	c.Status.ProviderID, c.Status.NodeName, c.Status.Capacity, c.Status.Allocatable = n.Spec.ProviderID, n.Name, n.Status.Capacity, n.Status.Allocatable
	for _, t := range []string{v1.ConditionLaunched, v1.ConditionRegistered, v1.ConditionInitialized, v1.ConditionReady} {
		c.Status.Conditions = append(c.Status.Conditions, v1.Condition{Type: t, Status: "True", Reason: t, LastTransitionTime: at(i)})
	}
	f.claims = append(f.claims, c)
}

// managed is what the API server keeps about who wrote which field.
func managed(writers int) []metav1.ManagedFieldsEntry {
	var out []metav1.ManagedFieldsEntry
	for i := range writers {
		t := at(i)
		out = append(out, metav1.ManagedFieldsEntry{Manager: fmt.Sprintf("writer-%d", i), Operation: "Update", APIVersion: "v1", Time: &t, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:x":"` + strings.Repeat("x", 900) + `"}`)})
	}
	return out
}

// podSpec is a spec as the API server stores it, with what its webhooks and defaults add.
func podSpec(image, cpu, memory string) corev1.PodSpec {
	grace, yes, fifty := int64(30), true, int64(300)
	c := corev1.Container{
		Name: "main", Image: "registry.example.com/team/" + image + ":v1.2.3", Args: []string{"--listen=:8080", "--log=json"},
		Resources:                corev1.ResourceRequirements{Requests: amounts(cpu, memory), Limits: corev1.ResourceList{"memory": resource.MustParse(memory)}},
		Ports:                    []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
		TerminationMessagePath:   "/dev/termination-log",
		TerminationMessagePolicy: "File", ImagePullPolicy: "IfNotPresent",
		VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}, {Name: "config", MountPath: "/etc/app"}},
	}
	for i := range 8 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: fmt.Sprintf("value-%d-of-%s", i, image)})
	}
	c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http")}}, PeriodSeconds: 10}
	return corev1.PodSpec{
		Containers: []corev1.Container{c}, RestartPolicy: "Always", TerminationGracePeriodSeconds: &grace, DNSPolicy: "ClusterFirst",
		ServiceAccountName: "default", DeprecatedServiceAccount: "default", SecurityContext: &corev1.PodSecurityContext{}, SchedulerName: "default-scheduler",
		Priority: new(int32), EnableServiceLinks: &yes,
		Tolerations: []corev1.Toleration{
			{Key: corev1.TaintNodeNotReady, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &fifty},
			{Key: corev1.TaintNodeUnreachable, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &fifty},
		},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: image}}}},
			{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}},
		},
	}
}

// newPod is pod number i, on a node or pending. Its values are built anew as if they had come over the wire.
func (f *fleet) newPod(i int, node string) *corev1.Pod {
	group := i / 40
	app := fmt.Sprintf("app%d", group)
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-7c5d8f9b6d-%05d", app, i), Namespace: fmt.Sprintf("ns%d", group%10), UID: types.UID(fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012d", i)),
		ResourceVersion: fmt.Sprint(1000 + i), CreationTimestamp: at(i), GenerateName: app + "-7c5d8f9b6d-",
		Labels:          map[string]string{"app": app, "pod-template-hash": "7c5d8f9b6d", "team": fmt.Sprintf("team%d", group%7), "app.kubernetes.io/part-of": "shop"},
		Annotations:     map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "checksum/config": fmt.Sprintf("%064d", group)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-7c5d8f9b6d", UID: types.UID("rs-" + app), Controller: &yes}},
		ManagedFields:   managed(2),
	}}
	p.Spec = podSpec(app, fmt.Sprintf("%dm", 100+50*(group%9)), fmt.Sprintf("%dMi", 128*(1+group%5)))
	if group%4 == 0 {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: "ScheduleAnyway", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
	}
	if node == "" {
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Reason: corev1.PodReasonUnschedulable, LastTransitionTime: at(i), Message: "0/5 nodes are available"}}
		return p
	}
	f.bind(p, node)
	return p
}

// bind makes the pod run on a node.
func (f *fleet) bind(p *corev1.Pod, node string) {
	start := p.CreationTimestamp
	p.Spec.NodeName = node
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &start, HostIP: "10.0.0.1", PodIP: "10.0.1.1", QOSClass: "Burstable", PodIPs: []corev1.PodIP{{IP: "10.0.1.1"}}}
	for _, t := range []corev1.PodConditionType{"PodReadyToStartContainers", corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: "True", LastTransitionTime: start})
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Ready: true, Image: p.Spec.Containers[0].Image, ImageID: fmt.Sprintf("sha256:%064d", 7), ContainerID: fmt.Sprintf("containerd://%064d", 7),
		State:              corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}},
		AllocatedResources: p.Spec.Containers[0].Resources.Requests, Resources: &corev1.ResourceRequirements{Requests: p.Spec.Containers[0].Resources.Requests},
	}}
}
