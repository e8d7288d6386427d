package local

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	capiv1alpha1 "karpenter/api/capi/v1alpha1"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/local/infra"
	"karpenter/internal/local/plane"
)

// The providers that a local cluster can have.
const (
	ProviderAWS        = "aws"
	ProviderClusterAPI = "cluster-api"
)

const (
	// machinesNamespace is where the objects of Cluster API are.
	machinesNamespace = metav1.NamespaceDefault
	// systemNode begins the names of the nodes of the cluster's own pods, which no Machine is behind.
	systemNode = "control-plane-"
)

// zones are the failure domains of the simulated infrastructure.
var zones = []string{"zone-a", "zone-b", "zone-c"}

// machines are Cluster API and the simulated infrastructure of a cluster.
type machines struct {
	infra *infra.Infra
	// apart is the management cluster's control plane, if it has one of its own.
	apart *plane.Plane
}

// stop ends the simulated infrastructure.
func (m *machines) stop() {
	if m.infra != nil {
		m.infra.Stop()
		m.infra = nil
	}
}

// simulator is what is simulated instead of a cloud.
func (c *Cluster) simulator() string {
	if c.opts.Provider == ProviderClusterAPI {
		return "Cluster API"
	}
	return "the AWS simulator"
}

// ownManifests are what this cluster has by its provider.
func (c *Cluster) ownManifests() []string {
	fill := strings.NewReplacer("THIS-CLUSTER", c.opts.ClusterName, "https://THIS-ENDPOINT", c.plane.Endpoint())
	var own []string
	karpenter := karpenterCAPIManifest
	if c.opts.Provider != ProviderClusterAPI {
		own, karpenter = append(own, systemAWSManifest), karpenterManifest
	}
	if !c.opts.NoKarpenter {
		own = append(own, fill.Replace(karpenter))
	}
	return own
}

// karpenterKinds are our CRDs, without the node classes of other providers.
func (c *Cluster) karpenterKinds() []*apiextensionsv1.CustomResourceDefinition {
	other := capiv1alpha1.SchemeGroupVersion.Group
	if c.opts.Provider == ProviderClusterAPI {
		other = awsv1.SchemeGroupVersion.Group
	}
	return slices.DeleteFunc(service.Definitions(), func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.Spec.Group == other })
}

// startClusterAPI starts Cluster API's controllers and the simulated infrastructure, and makes the Cluster that this one is.
func (c *Cluster) startClusterAPI(ctx context.Context) error {
	c.capi = &machines{}
	management := c.plane
	c.Management = c.Client
	if c.opts.ManagementApart {
		var err error
		if management, err = c.startManagement(ctx); err != nil {
			return err
		}
	}
	kinds, err := infra.Kinds()
	if err != nil {
		return err
	}
	if err := management.Install(ctx, kinds); err != nil {
		return err
	}
	if err := management.StartClusterAPI(ctx, plane.ClusterAPIIn(filepath.Dir(c.opts.Binary))); err != nil {
		return err
	}
	if c.capi.infra, err = infra.Start(ctx, infra.Options{Management: management.Config, Nodes: kubelets{c.nodes}, BootTime: c.opts.BootTime}); err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return infra.CreateCluster(ctx, c.Management, infra.Cluster{Namespace: machinesNamespace, Name: c.opts.ClusterName, FailureDomains: zones, Kubeconfig: kubeconfig})
}

// startManagement starts a control plane for Cluster API alone.
func (c *Cluster) startManagement(ctx context.Context) (*plane.Plane, error) {
	c.tell("starting the management cluster")
	apart, err := plane.Start(ctx, plane.Options{Binary: c.opts.Binary, Dir: filepath.Join(c.opts.Dir, "management"), Controllers: true})
	if err != nil {
		return nil, fmt.Errorf("starting the management cluster: %w", err)
	}
	c.capi.apart = apart
	if c.Management, err = client.NewWithWatch(apart.Config, client.Options{Scheme: c.Client.Scheme()}); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return apart, nil
}

// StopManagement ends the API server, the controllers and the infrastructure of a management cluster that is apart.
func (c *Cluster) StopManagement() error {
	if c.capi == nil || c.capi.apart == nil {
		return errors.New("there is no management cluster apart from this one")
	}
	c.capi.stop()
	c.capi.apart.Stop()
	c.capi.apart = nil
	return nil
}

// StartManagement starts again what StopManagement has ended.
func (c *Cluster) StartManagement(ctx context.Context) error { return c.startClusterAPI(ctx) }

// machineSettings are those of the controller that lead it to Cluster API.
func (c *Cluster) machineSettings() map[string]string {
	settings := map[string]string{"PROVIDER": ProviderClusterAPI}
	if c.capi.apart != nil {
		settings["CLUSTER_API_KUBECONFIG"] = c.capi.apart.Kubeconfig
	}
	return settings
}

// joinSystem registers the nodes that the cluster's own pods run on.
func (c *Cluster) joinSystem(ctx context.Context) error {
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110")}
	for i := range c.systemNodes() {
		name, zone := fmt.Sprint(systemNode, i), zones[i]
		if err := (kubelets{c.nodes}).Join(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: string(corev1.Linux), corev1.LabelArchStable: "amd64", corev1.LabelTopologyZone: zone,
				corev1.LabelInstanceTypeStable: "control-plane", "node-role.kubernetes.io/control-plane": "",
			}},
			Spec: corev1.NodeSpec{
				ProviderID: "sim:///" + zone + "/" + name,
				Taints:     []corev1.Taint{{Key: "CriticalAddonsOnly", Value: "true", Effect: corev1.TaintEffectNoSchedule}},
			},
			Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity.DeepCopy()},
		}); err != nil {
			return err
		}
	}
	return nil
}

// The annotations by which scalable resources say what their nodes have and cost.
const (
	capacityAnnotation = "capacity.cluster-autoscaler.kubernetes.io/"
	sizeAnnotation     = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
)

// deployments are the MachineDeployments to start with. Those without annotated capacity leave it to their template's status.
var deployments = []struct {
	name, zone, kind, cpu, memory, price string
	annotated                            bool
}{
	{"small-a", "zone-a", "small", "2", "8Gi", "0.10", true},
	{"small-b", "zone-b", "small", "2", "8Gi", "0.10", true},
	{"medium-a", "zone-a", "medium", "4", "16Gi", "0.19", true},
	{"medium-b", "zone-b", "medium", "4", "16Gi", "0.19", true},
	{"large-a", "zone-a", "large", "8", "32Gi", "0.37", false},
	{"large-c", "zone-c", "large", "8", "32Gi", "0.37", false},
	{"memory-b", "zone-b", "memory", "4", "32Gi", "0.26", true},
	{"xlarge-c", "zone-c", "xlarge", "16", "64Gi", "0.72", false},
}

// createMachineDefaults makes the MachineDeployments to start with, and for Karpenter the pool and the class.
func (c *Cluster) createMachineDefaults(ctx context.Context) error {
	c.tell("creating %d MachineDeployments", len(deployments))
	for _, d := range deployments {
		annotations := map[string]string{
			capiv1alpha1.PriceAnnotationKey: d.price, sizeAnnotation + "min-size": "0", sizeAnnotation + "max-size": "50",
			capacityAnnotation + "labels": fmt.Sprintf("%s=%s,%s=%s", corev1.LabelInstanceTypeStable, d.kind, corev1.LabelTopologyZone, d.zone),
		}
		if d.annotated {
			maps.Copy(annotations, map[string]string{capacityAnnotation + "cpu": d.cpu, capacityAnnotation + "memory": d.memory, capacityAnnotation + "maxPods": "110"})
		}
		if err := infra.CreateMachineDeployment(ctx, c.Management, infra.MachineDeployment{
			Name: d.name, Cluster: c.opts.ClusterName, Namespace: machinesNamespace, FailureDomain: d.zone, InstanceType: d.kind, HideCapacity: d.annotated,
			Labels: map[string]string{capiv1alpha1.LabelMember: ""}, Annotations: annotations, Capacity: map[string]string{"cpu": d.cpu, "memory": d.memory, "pods": "110"},
		}); err != nil {
			return err
		}
	}
	if c.opts.NoKarpenter {
		return nil
	}
	c.tell("creating NodePool default and ClusterAPINodeClass default")
	return createDefaults(ctx, c.Client, defaultsCAPIManifest)
}

// launchedMachines lists the instances of the simulated infrastructure by their names.
func (c *Cluster) launchedMachines(bool) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: infra.Group, Version: infra.Version, Kind: "SimMachineList"})
	if err := c.Management.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing SimMachines: %w", err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

// endMachines is what a scenario cannot do here.
func endMachines(bool, []string) error {
	return errors.New("only the AWS simulator takes instances back; kubectl deletes Machines")
}

// kubelets are those of Machines: kwok's.
type kubelets struct{ n *nodeKeeper }

// Join implements infra.Nodes.
func (k kubelets) Join(ctx context.Context, node *corev1.Node) error {
	node = node.DeepCopy()
	node.Annotations = map[string]string{kwokAnnotation: managed, attachAnnotation: "true"}
	h := fnv.New32a()
	_, _ = h.Write([]byte(node.Name))
	id := sha256.Sum256([]byte(node.Name))
	s := &node.Status
	s.Conditions = conditions("KubeletNotReady", "container runtime network not ready", corev1.ConditionFalse, metav1.Now())
	s.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.3.%d.%d", byte(h.Sum32()>>8), byte(h.Sum32()))},
		{Type: corev1.NodeHostName, Address: node.Name},
		{Type: plane.KubeletAddress, Address: "localhost"},
	}
	s.DaemonEndpoints.KubeletEndpoint.Port = k.n.kubelet.port
	s.NodeInfo = corev1.NodeSystemInfo{
		Architecture: node.Labels[corev1.LabelArchStable], OperatingSystem: string(corev1.Linux), KubeletVersion: k.n.kubelet.version, OSImage: "simulated",
		MachineID: fmt.Sprintf("%x", id[:16]), SystemUUID: node.Name, BootID: fmt.Sprintf("%x", id[16:]), ContainerRuntimeVersion: "kwok://0.8.0",
	}
	err := k.n.kube.Create(ctx, node)
	if apierrors.IsAlreadyExists(err) {
		return nil // by this instance, before its status was written: a name belongs to one Machine
	}
	if err != nil {
		return fmt.Errorf("registering node %s: %w", node.Name, err)
	}
	if err := k.n.leases.touch(ctx, &node.ObjectMeta); err != nil {
		return err
	}
	k.n.tell("node %s joined: %s in %s", node.Name, node.Labels[corev1.LabelInstanceTypeStable], node.Labels[corev1.LabelTopologyZone])
	return nil
}

// Leave implements infra.Nodes.
func (k kubelets) Leave(_ context.Context, name, providerID string) error {
	k.n.Left(simaws.Instance{NodeName: name, ProviderID: providerID}, "terminated")
	return nil
}
