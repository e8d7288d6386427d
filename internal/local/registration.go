package local

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"karpenter/internal/cloud/simaws"
	"karpenter/internal/cloud/simaws/catalog"
	"karpenter/internal/local/plane"
)

// kwokAnnotation says who pretends to be a node's kubelet. kwok takes those whose value is managed, and leaves alone
// those whose instance is switched off.
const (
	kwokAnnotation = "kwok.x-k8s.io/node"
	managed        = "fake"
	switchedOff    = "switched-off"
)

// attachAnnotation leaves attaching volumes to kube-controller-manager, as kubelets do.
const attachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"

// memoryShare is how much of an instance's memory its kernel shows: the rest goes to firmware, page tables and crash
// kernels. Real instances show between 0.93 (small ones) and 0.985.
const memoryShare = 0.95

const (
	ki  = int64(1) << 10
	gi  = int64(1) << 30
	dec = resource.DecimalSI
	bin = resource.BinarySI
)

// kubeletFacts are what an instance's kubelet knows beside the instance itself.
type kubeletFacts struct {
	// version is that of the API server.
	version string
	// port is where the API server reaches kwok.
	port int32
}

// registration is the Node object that an instance's kubelet registers, completed with what the cloud controller adds.
// It is not ready yet.
func registration(m *simaws.Instance, k kubeletFacts) (*corev1.Node, error) {
	capacity := capacityOf(m, k)
	allocatable, err := allocatableOf(m, capacity)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", m.NodeName, err)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        m.NodeName,
			Labels:      labelsOf(m),
			Annotations: map[string]string{kwokAnnotation: managed, attachAnnotation: "true"},
		},
		Spec: corev1.NodeSpec{ProviderID: m.ProviderID},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: allocatable,
			Conditions:      conditions("KubeletNotReady", "container runtime network not ready", corev1.ConditionFalse, metav1.Now()),
			Addresses:       addressesOf(m),
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: k.port}},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture: archOf(m), OperatingSystem: osOf(m), KubeletVersion: k.version, OSImage: m.Family,
				MachineID: strings.TrimPrefix(m.InstanceID, "i-"), SystemUUID: m.InstanceID, BootID: bootID(m), ContainerRuntimeVersion: "kwok://0.8.0",
			},
		},
	}
	for _, taint := range m.Node.Taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: corev1.TaintEffect(taint.Effect)})
	}
	return node, nil
}

// bootID is another one after every reboot, in the form of the kernel's.
func bootID(m *simaws.Instance) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s/%d", m.InstanceID, m.Boot))
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// conditions are those of a kubelet whose readiness is as given since a time, and that lacks nothing else.
func conditions(reason, message string, ready corev1.ConditionStatus, since metav1.Time) []corev1.NodeCondition {
	list := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: reason, Message: message}}
	for _, pressure := range []struct {
		kind   corev1.NodeConditionType
		reason string
	}{
		{corev1.NodeMemoryPressure, "KubeletHasSufficientMemory"},
		{corev1.NodeDiskPressure, "KubeletHasNoDiskPressure"},
		{corev1.NodePIDPressure, "KubeletHasSufficientPID"},
	} {
		status := corev1.ConditionFalse
		if ready == corev1.ConditionUnknown {
			status = corev1.ConditionUnknown
		}
		list = append(list, corev1.NodeCondition{Type: pressure.kind, Status: status, Reason: pressure.reason})
	}
	for i := range list {
		list[i].LastTransitionTime, list[i].LastHeartbeatTime = since, since
	}
	return list
}

func labelsOf(m *simaws.Instance) map[string]string {
	labels := maps.Clone(m.Node.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, map[string]string{
		corev1.LabelHostname: m.NodeName, corev1.LabelArchStable: archOf(m), corev1.LabelOSStable: osOf(m),
		"beta.kubernetes.io/arch": archOf(m), "beta.kubernetes.io/os": osOf(m), "beta.kubernetes.io/instance-type": m.Type,
		corev1.LabelInstanceTypeStable: m.Type,
		corev1.LabelTopologyZone:       m.Zone, corev1.LabelTopologyRegion: m.Region,
		corev1.LabelFailureDomainBetaZone: m.Zone, corev1.LabelFailureDomainBetaRegion: m.Region,
		"topology.k8s.aws/zone-id": m.ZoneID,
		volumeZoneLabel:            m.Zone, // as the driver for volumes labels its nodes
	})
	return labels
}

func addressesOf(m *simaws.Instance) []corev1.NodeAddress {
	list := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: m.PrivateIP}}
	if m.IPv6 != "" {
		list = append(list, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: m.IPv6})
	}
	return append(list,
		corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: m.PrivateDNS},
		corev1.NodeAddress{Type: corev1.NodeHostName, Address: m.PrivateDNS},
		corev1.NodeAddress{Type: plane.KubeletAddress, Address: "localhost"},
	)
}

func archOf(m *simaws.Instance) string {
	if m.Arch == "x86_64" {
		return "amd64"
	}
	return m.Arch
}

func osOf(m *simaws.Instance) string {
	if m.Family == "Windows" {
		return string(corev1.Windows)
	}
	return string(corev1.Linux)
}

// capacityOf is what the kubelet finds on the instance, with the devices that device plugins would add.
func capacityOf(m *simaws.Instance, k kubeletFacts) corev1.ResourceList {
	storage := m.VolumeGiB * gi
	if strings.EqualFold(m.Node.LocalStorage, "raid0") && m.Info.TotalDiskGB() > 0 {
		storage = int64(m.Info.TotalDiskGB()) * 1e9
	}
	list := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(m.Info.VCPUs), dec),
		corev1.ResourceMemory:           *resource.NewQuantity(int64(float64(m.Info.MemoryMiB)*memoryShare*1024)*ki, bin),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(storage, bin),
		corev1.ResourcePods:             *resource.NewQuantity(podsOf(m), dec),
	}
	count := func(name corev1.ResourceName, n int) {
		if n > 0 {
			had := list[name]
			list[name] = *resource.NewQuantity(had.Value()+int64(n), dec)
		}
	}
	for _, gpu := range m.Info.GPUs {
		switch strings.ToLower(gpu.Manufacturer) {
		case "nvidia":
			count("nvidia.com/gpu", gpu.Count)
		case "amd":
			count("amd.com/gpu", gpu.Count)
		case "habana":
			count("habana.ai/gaudi", gpu.Count)
		}
	}
	for _, device := range m.Info.Neuron {
		count("aws.amazon.com/neuron", device.Count)
		count("aws.amazon.com/neuroncore", device.Count*device.Cores)
	}
	count("vpc.amazonaws.com/pod-eni", m.Info.BranchENIs)
	return list
}

// podsOf is how many pods the kubelet takes: what it was told, or else what the instance has addresses for.
func podsOf(m *simaws.Instance) int64 {
	pods := addressPods(m.Info)
	if osOf(m) == string(corev1.Windows) {
		pods = 110 // the kubelet's own default; addresses are shared differently there
	}
	if m.Node.MaxPods > 0 {
		pods = int64(m.Node.MaxPods)
	}
	if m.Node.PodsPerCore > 0 {
		pods = min(pods, int64(m.Node.PodsPerCore)*int64(m.Info.VCPUs))
	}
	return pods
}

// addressPods is every address of the default network card's interfaces but each one's first, and two pods that use
// the host's.
func addressPods(t *catalog.Type) int64 {
	interfaces := t.Network.MaxENIs
	if t.Network.DefaultCard < len(t.Network.Cards) {
		interfaces = t.Network.Cards[t.Network.DefaultCard].MaxENIs
	}
	return int64(interfaces*(t.Network.IPv4PerENI-1) + 2)
}

// allocatableOf is what is left for pods: capacity less what the kubelet reserves and the room below which it evicts.
func allocatableOf(m *simaws.Instance, capacity corev1.ResourceList) (corev1.ResourceList, error) {
	left := capacity.DeepCopy()
	take := func(name corev1.ResourceName, amount resource.Quantity) {
		if rest, ok := left[name]; ok {
			rest.Sub(amount)
			if rest.Sign() < 0 {
				rest = resource.Quantity{Format: rest.Format}
			}
			left[name] = rest
		}
	}
	reserved := defaultReserve(m, capacity)
	maps.Copy(reserved, m.Node.KubeReserved)
	for _, settings := range []map[string]string{reserved, m.Node.SystemReserved} {
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			amount, err := resource.ParseQuantity(settings[name])
			if err != nil {
				return nil, fmt.Errorf("reserved %s %q: %w", name, settings[name], err)
			}
			take(corev1.ResourceName(name), amount)
		}
	}
	eviction := map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"}
	maps.Copy(eviction, m.Node.EvictionHard)
	for signal, name := range map[string]corev1.ResourceName{"memory.available": corev1.ResourceMemory, "nodefs.available": corev1.ResourceEphemeralStorage} {
		amount, err := threshold(eviction[signal], capacity[name])
		if err != nil {
			return nil, fmt.Errorf("eviction threshold %s: %w", signal, err)
		}
		take(name, amount)
	}
	return left, nil
}

// threshold is an eviction threshold, which is a quantity or a share of the capacity.
func threshold(text string, capacity resource.Quantity) (resource.Quantity, error) {
	share, ok := strings.CutSuffix(text, "%")
	if !ok {
		return resource.ParseQuantity(text)
	}
	percent, err := strconv.ParseFloat(share, 64)
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("%q is neither a quantity nor a percentage", text)
	}
	return *resource.NewQuantity(int64(float64(capacity.Value())*percent/100), capacity.Format), nil
}

// defaultReserve is what AWS's images reserve for the kubelet where nothing else is said: of memory for every pod that
// may run, of the processor a share that falls with every core.
func defaultReserve(m *simaws.Instance, capacity corev1.ResourceList) map[string]string {
	pods := addressPods(m.Info)
	if m.Family == "Bottlerocket" || m.Family == "Windows" {
		count := capacity[corev1.ResourcePods]
		pods = count.Value()
	}
	var millis float64
	for core := range m.Info.VCPUs {
		switch {
		case core == 0:
			millis += 60
		case core == 1:
			millis += 10
		case core < 4:
			millis += 5
		default:
			millis += 2.5
		}
	}
	return map[string]string{
		"cpu": fmt.Sprintf("%dm", int64(millis)), "memory": fmt.Sprintf("%dMi", 11*pods+255), "ephemeral-storage": "1Gi",
	}
}
