// Package capi plays whole clusters with Cluster API: its real controllers, on the simulated infrastructure.
package capi

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/local/infra"
	"karpenter/test/harness"
	"karpenter/test/harness/clusterapi"
)

// patience is how long something may take on a busy computer.
const patience = 3 * time.Minute

func capi(version, kind string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: version, Kind: kind})
	return o
}

// until waits for something to come true, and says what it saw last otherwise.
func until(t *testing.T, what string, done func() (bool, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		ok, seen := done()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("it did not come to this: %s; last seen: %s", what, seen)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// machines are those of a MachineDeployment, sorted by name.
func machines(t *testing.T, kube client.Client, deployment string) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(capi("v1beta2", "MachineList").GroupVersionKind())
	if err := kube.List(t.Context(), list, client.InNamespace(clusterapi.Namespace), client.MatchingLabels{"cluster.x-k8s.io/deployment-name": deployment}); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
		return slices.Compare([]string{a.GetName()}, []string{b.GetName()})
	})
	return list.Items
}

func nodes(t *testing.T, kube client.Client) map[string]*corev1.Node {
	t.Helper()
	var list corev1.NodeList
	if err := kube.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	found := map[string]*corev1.Node{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	return found
}

func scale(t *testing.T, kube client.Client, deployment string, replicas int) {
	t.Helper()
	o := capi("v1beta2", "MachineDeployment")
	o.SetNamespace(clusterapi.Namespace)
	o.SetName(deployment)
	if err := kube.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))); err != nil {
		t.Fatal(err)
	}
}

// The real controllers make Machines of a MachineDeployment, the simulated infrastructure makes nodes of them, and those that are marked are
// the ones that are removed.
func TestMachinesOfAMachineDeploymentBecomeNodes(t *testing.T) {
	t.Parallel()
	cluster := harness.Start(t, harness.Options{Controllers: true})
	clusterapi.Start(t, cluster, time.Second)
	kube := cluster.Client
	if err := infra.CreateMachineDeployment(t.Context(), kube, infra.MachineDeployment{
		Name: "large-a", Cluster: clusterapi.Cluster, Namespace: clusterapi.Namespace, FailureDomain: "zone-a", InstanceType: "large", Capacity: map[string]string{"cpu": "8", "memory": "32Gi"},
	}); err != nil {
		t.Fatal(err)
	}

	t.Run("what a template's node would have is known before there is one", func(t *testing.T) {
		template := &unstructured.Unstructured{}
		template.SetGroupVersionKind(schema.GroupVersionKind{Group: infra.Group, Version: infra.Version, Kind: "SimMachineTemplate"})
		until(t, "status.capacity", func() (bool, string) {
			err := kube.Get(t.Context(), client.ObjectKey{Namespace: clusterapi.Namespace, Name: "large-a"}, template)
			cpu, _, _ := unstructured.NestedString(template.Object, "status", "capacity", "cpu")
			arch, _, _ := unstructured.NestedString(template.Object, "status", "nodeInfo", "architecture")
			return cpu == "8" && arch == "amd64", fmt.Sprint(template.Object["status"], err)
		})
	})

	scale(t, kube, "large-a", 5)
	until(t, "five Machines with a ready node each", func() (bool, string) {
		found, seen := machines(t, kube, "large-a"), ""
		ready := 0
		for _, m := range found {
			name, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
			id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
			if node := nodes(t, kube)[name]; node != nil && id != "" && node.Spec.ProviderID == id && node.Labels[corev1.LabelTopologyZone] == "zone-a" {
				ready++
			}
			seen += fmt.Sprintf("%s node %q id %q; ", m.GetName(), name, id)
		}
		return len(found) == 5 && ready == 5, seen
	})

	t.Run("the older version is converted", func(t *testing.T) {
		old := capi("v1beta1", "MachineDeployment")
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: clusterapi.Namespace, Name: "large-a"}, old); err != nil {
			t.Fatal(err)
		}
		// A reference has an apiVersion in v1beta1, and only a group in v1beta2.
		if version, _, _ := unstructured.NestedString(old.Object, "spec", "template", "spec", "infrastructureRef", "apiVersion"); version != infra.Group+"/"+infra.Version {
			t.Errorf("apiVersion of the infrastructure: %q", version)
		}
	})
	t.Run("the webhooks validate", func(t *testing.T) {
		bad := capi("v1beta2", "MachineDeployment")
		bad.SetNamespace(clusterapi.Namespace)
		bad.SetName("large-a")
		err := kube.Patch(t.Context(), bad, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"selector":{"matchLabels":{"other":"one"}}}}`)))
		if err == nil {
			t.Error("a selector that does not select its template is accepted")
		}
	})

	// The MachineSet would end the newest or random ones by itself: mark two at both ends of the list, and one in the middle.
	found := machines(t, kube, "large-a")
	marked := []string{found[0].GetName(), found[2].GetName(), found[4].GetName()}
	for _, name := range marked {
		o := capi("v1beta2", "Machine")
		o.SetNamespace(clusterapi.Namespace)
		o.SetName(name)
		if err := kube.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":"yes"}}}`))); err != nil {
			t.Fatal(err)
		}
	}
	scale(t, kube, "large-a", 2)
	until(t, "the two Machines that were not marked, and their nodes", func() (bool, string) {
		left := machines(t, kube, "large-a")
		all := nodes(t, kube)
		return len(left) == 2 && len(all) == 2 && left[0].GetName() == found[1].GetName() && left[1].GetName() == found[3].GetName(), fmt.Sprint(len(left), " Machines, ", len(all), " nodes")
	})
}
