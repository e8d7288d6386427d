package infra

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// reconcileCluster says that what Machines share is there.
func reconcileCluster(ctx context.Context, kube client.Client, r reconcile.Request) (reconcile.Result, error) {
	cluster := object("SimCluster")
	if err := kube.Get(ctx, r.NamespacedName, cluster); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	status := map[string]any{"initialization": map[string]any{"provisioned": true}, "conditions": ready(cluster, "True", "Provisioned", "")}
	names, _, _ := unstructured.NestedStringSlice(cluster.Object, "spec", "failureDomains")
	var domains []any
	for _, name := range names {
		domains = append(domains, map[string]any{"name": name, "controlPlane": false})
	}
	if len(domains) > 0 {
		status["failureDomains"] = domains
	}
	return reconcile.Result{}, setStatus(ctx, kube, cluster, status)
}

// reconcileControlPlane says that the control plane is there, which is somebody else's.
func reconcileControlPlane(ctx context.Context, kube client.Client, r reconcile.Request) (reconcile.Result, error) {
	plane := object("SimControlPlane")
	if err := kube.Get(ctx, r.NamespacedName, plane); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{}, setStatus(ctx, kube, plane, map[string]any{
		"initialization": map[string]any{"controlPlaneInitialized": true}, "externalManagedControlPlane": true, "conditions": ready(plane, "True", "Available", ""),
	})
}

// reconcileTemplate says what a node has that is made from a template, by which clusters are scaled from zero.
func reconcileTemplate(ctx context.Context, kube client.Client, r reconcile.Request) (reconcile.Result, error) {
	template := object("SimMachineTemplate")
	if err := kube.Get(ctx, r.NamespacedName, template); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if flag(template, "spec", "hideCapacity") {
		return reconcile.Result{}, setStatus(ctx, kube, template, map[string]any{"capacity": nil, "nodeInfo": nil})
	}
	capacity, _, err := unstructured.NestedMap(template.Object, "spec", "template", "spec", "capacity")
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("SimMachineTemplate %s: %w", r.NamespacedName, err)
	}
	return reconcile.Result{}, setStatus(ctx, kube, template, map[string]any{
		"capacity": capacity,
		"nodeInfo": map[string]any{"architecture": text(template, "spec", "template", "spec", "architecture"), "operatingSystem": "linux"},
	})
}
