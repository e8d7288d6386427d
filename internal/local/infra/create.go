package infra

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BootstrapSecret is the Secret that CreateCluster makes for Machines to name.
const BootstrapSecret = "join"

// bootstrapData are what kubeadm would be told on a node: taints that Cluster API and Karpenter remove when they know the node.
const bootstrapData = `apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
nodeRegistration:
  taints:
    - {key: node.cluster.x-k8s.io/uninitialized, effect: NoSchedule}
    - {key: karpenter.sh/unregistered, effect: NoExecute}
`

// Cluster is one to make.
type Cluster struct {
	Namespace, Name string
	FailureDomains  []string
	// Kubeconfig leads to the workload cluster.
	Kubeconfig []byte
}

// CreateCluster makes a Cluster with its infrastructure, a control plane that runs already, and what Machines need to join. What exists stays,
// except for the way to the workload cluster, which may be another after a restart.
func CreateCluster(ctx context.Context, kube client.Client, cluster Cluster) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(cluster.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the workload cluster: %w", err)
	}
	at, err := url.Parse(config.Host)
	if err != nil {
		return fmt.Errorf("the address of the workload cluster: %w", err)
	}
	port, err := strconv.ParseInt(at.Port(), 10, 32)
	if err != nil {
		return fmt.Errorf("the address of the workload cluster, %s: %w", config.Host, err)
	}
	endpoint := map[string]any{"host": at.Hostname(), "port": port}
	domains := make([]any, len(cluster.FailureDomains))
	for i, name := range cluster.FailureDomains {
		domains[i] = name
	}
	reference := func(kind string) map[string]any {
		return map[string]any{"apiGroup": Group, "kind": kind, "name": cluster.Name}
	}
	for _, o := range []*unstructured.Unstructured{
		made(object("SimCluster"), map[string]any{"controlPlaneEndpoint": endpoint, "failureDomains": domains}),
		made(object("SimControlPlane"), map[string]any{}),
		made(core("Cluster"), map[string]any{"controlPlaneEndpoint": endpoint, "infrastructureRef": reference("SimCluster"), "controlPlaneRef": reference("SimControlPlane")}),
	} {
		o.SetNamespace(cluster.Namespace)
		o.SetName(cluster.Name)
		if err := kube.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	labels := map[string]string{coreGroup + "/cluster-name": cluster.Name}
	for _, secret := range []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig", Labels: labels}, Type: coreGroup + "/secret", Data: map[string][]byte{bootstrapKey: cluster.Kubeconfig}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: BootstrapSecret, Labels: labels}, Type: coreGroup + "/secret", Data: map[string][]byte{bootstrapKey: []byte(bootstrapData)}},
	} {
		err := kube.Create(ctx, secret)
		if apierrors.IsAlreadyExists(err) && secret.Name != BootstrapSecret {
			err = kube.Update(ctx, secret)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating Secret %s: %w", secret.Name, err)
		}
	}
	return nil
}

func made(o *unstructured.Unstructured, spec map[string]any) *unstructured.Unstructured {
	o.Object["spec"] = spec
	return o
}

// MachineDeployment is one to make.
type MachineDeployment struct {
	Name, Cluster, Namespace string
	// Labels and Annotations are the MachineDeployment's own.
	Labels, Annotations map[string]string
	// FailureDomain, InstanceType and Capacity are those of its instances.
	FailureDomain, InstanceType string
	Capacity                    map[string]string
	// HideCapacity leaves the template's status without it.
	HideCapacity bool
	Replicas     int64
	// Set makes a MachineSet instead.
	Set bool
}

// CreateMachineDeployment makes a MachineDeployment and the SimMachineTemplate of the same name. What exists stays.
func CreateMachineDeployment(ctx context.Context, kube client.Client, d MachineDeployment) error {
	capacity := map[string]any{}
	for name, amount := range d.Capacity {
		capacity[name] = amount
	}
	template := made(object("SimMachineTemplate"), map[string]any{
		"hideCapacity": d.HideCapacity, "template": map[string]any{"spec": map[string]any{"instanceType": d.InstanceType, "capacity": capacity}},
	})
	instance := map[string]any{
		"clusterName": d.Cluster, "bootstrap": map[string]any{"dataSecretName": BootstrapSecret},
		"infrastructureRef": map[string]any{"apiGroup": Group, "kind": "SimMachineTemplate", "name": d.Name},
	}
	if d.FailureDomain != "" {
		instance["failureDomain"] = d.FailureDomain
	}
	kind, label := "MachineDeployment", coreGroup+"/deployment-name"
	if d.Set {
		kind, label = "MachineSet", coreGroup+"/set-name"
	}
	selected := map[string]any{label: d.Name}
	deployment := made(core(kind), map[string]any{
		"clusterName": d.Cluster, "replicas": d.Replicas, "selector": map[string]any{"matchLabels": selected},
		"template": map[string]any{"metadata": map[string]any{"labels": selected}, "spec": instance},
	})
	if !d.Set {
		deployment.Object["spec"].(map[string]any)["rollout"] = map[string]any{"strategy": map[string]any{"type": "OnDelete"}}
	}
	deployment.SetLabels(d.Labels)
	deployment.SetAnnotations(d.Annotations)
	for _, o := range []*unstructured.Unstructured{template, deployment} {
		o.SetNamespace(d.Namespace)
		o.SetName(d.Name)
		if err := kube.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}
