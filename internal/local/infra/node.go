package infra

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// bootstrapKey is the key of a bootstrap Secret under which Cluster API expects the data.
const bootstrapKey = "value"

// joinConfiguration is the part of kubeadm's of that name that a node shows.
type joinConfiguration struct {
	NodeRegistration struct {
		Taints           []corev1.Taint `json:"taints"`
		KubeletExtraArgs []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"kubeletExtraArgs"`
	} `json:"nodeRegistration"`
}

// node is the Node that an instance's kubelet registers, with what the cloud controller adds.
func (m *machineReconciler) node(ctx context.Context, instance *unstructured.Unstructured, of *owners) (*corev1.Node, error) {
	domain, kind := text(instance, "status", "failureDomain"), text(instance, "spec", "instanceType")
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: instance.GetName(), Labels: map[string]string{
			corev1.LabelHostname: instance.GetName(), corev1.LabelOSStable: string(corev1.Linux), corev1.LabelArchStable: text(instance, "spec", "architecture"),
			corev1.LabelInstanceTypeStable: kind, corev1.LabelTopologyZone: domain,
		}},
		Spec: corev1.NodeSpec{ProviderID: fmt.Sprintf("sim:///%s/%s/%s", domain, instance.GetNamespace(), instance.GetName())},
	}
	capacity, err := capacityOf(instance)
	if err != nil {
		return nil, err
	}
	node.Status.Capacity, node.Status.Allocatable = capacity, capacity.DeepCopy()
	node.Status.NodeInfo.Architecture, node.Status.NodeInfo.OperatingSystem = node.Labels[corev1.LabelArchStable], string(corev1.Linux)
	secret := &corev1.Secret{}
	name := text(of.machine, "spec", "bootstrap", "dataSecretName")
	if err := m.kube.Get(ctx, client.ObjectKey{Namespace: instance.GetNamespace(), Name: name}, secret); err != nil {
		return nil, fmt.Errorf("reading bootstrap Secret %s/%s of Machine %s: %w", instance.GetNamespace(), name, of.machine.GetName(), err)
	}
	if err := configure(node, secret.Data[bootstrapKey]); err != nil {
		return nil, fmt.Errorf("bootstrap Secret %s/%s: %w", instance.GetNamespace(), name, err)
	}
	return node, nil
}

func capacityOf(instance *unstructured.Unstructured) (corev1.ResourceList, error) {
	fields, _, _ := unstructured.NestedMap(instance.Object, "spec", "capacity")
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("SimMachine %s: spec.capacity: %w", instance.GetName(), err)
	}
	var capacity corev1.ResourceList
	if err := json.Unmarshal(text, &capacity); err != nil {
		return nil, fmt.Errorf("SimMachine %s: spec.capacity: %w", instance.GetName(), err)
	}
	if _, ok := capacity[corev1.ResourcePods]; !ok {
		capacity[corev1.ResourcePods] = resource.MustParse("110") // the kubelet's default
	}
	return capacity, nil
}

// configure gives a node what its bootstrap data say.
func configure(node *corev1.Node, data []byte) error {
	var join joinConfiguration
	if err := yaml.Unmarshal(data, &join); err != nil {
		return fmt.Errorf("not a JoinConfiguration of kubeadm: %w", err)
	}
	node.Spec.Taints = join.NodeRegistration.Taints
	for _, arg := range join.NodeRegistration.KubeletExtraArgs {
		if arg.Name != "node-labels" {
			continue
		}
		for pair := range strings.SplitSeq(arg.Value, ",") {
			key, value, ok := strings.Cut(pair, "=")
			if !ok {
				return fmt.Errorf("node-labels %q: write key=value", arg.Value)
			}
			node.Labels[key] = value
		}
	}
	return nil
}
