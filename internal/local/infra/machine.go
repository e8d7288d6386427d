package infra

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	finalizer = Group + "/instance"
	// ReasonInsufficientCapacity and ReasonProvisioningFailed are reasons of the condition Ready.
	ReasonInsufficientCapacity = "InsufficientCapacity"
	ReasonProvisioningFailed   = "ProvisioningFailed"
	// the values of spec.fault
	faultProvisioning, faultNeverJoins = "ProvisioningFailed", "NeverJoins"
)

// machineReconciler launches and ends instances.
type machineReconciler struct {
	kube client.Client
	// live reads past the cache.
	live client.Reader
	opts Options
	// launching is held while the stock is counted and taken from.
	launching sync.Mutex
}

// owners are what a SimMachine belongs to.
type owners struct{ machine, cluster, infra *unstructured.Unstructured }

// Reconcile takes an instance as far as it is by now, and says when it has to be looked at again.
func (m *machineReconciler) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	instance := object("SimMachine")
	if err := m.kube.Get(ctx, r.NamespacedName, instance); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if since := instance.GetDeletionTimestamp(); since != nil {
		return m.end(ctx, instance, since.Time)
	}
	of, err := m.owners(ctx, instance)
	if err != nil || of == nil || flag(of.cluster, "spec", "paused") {
		return reconcile.Result{RequeueAfter: lookAgain}, err
	}
	if !flag(of.cluster, "status", "initialization", "infrastructureProvisioned") || text(of.machine, "spec", "bootstrap", "dataSecretName") == "" {
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	}
	before := instance.DeepCopy()
	if controllerutil.AddFinalizer(instance, finalizer) {
		if err := m.kube.Patch(ctx, instance, client.MergeFrom(before)); err != nil {
			return reconcile.Result{}, fmt.Errorf("SimMachine %s: %w", r.NamespacedName, err)
		}
	}
	launched, err := m.launch(ctx, instance, of)
	if err != nil || launched.IsZero() {
		return reconcile.Result{RequeueAfter: lookAgain}, err
	}
	return m.boot(ctx, instance, of, launched)
}

// owners finds what a SimMachine belongs to, or nothing while Cluster API has not said it.
func (m *machineReconciler) owners(ctx context.Context, instance *unstructured.Unstructured) (*owners, error) {
	of := &owners{machine: core("Machine"), cluster: core("Cluster"), infra: object("SimCluster")}
	references := instance.GetOwnerReferences()
	i := slices.IndexFunc(references, func(o metav1.OwnerReference) bool { return o.Kind == "Machine" })
	if i < 0 {
		return nil, nil
	}
	if err := m.kube.Get(ctx, client.ObjectKey{Namespace: instance.GetNamespace(), Name: references[i].Name}, of.machine); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if err := m.kube.Get(ctx, client.ObjectKey{Namespace: instance.GetNamespace(), Name: text(of.machine, "spec", "clusterName")}, of.cluster); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if err := m.kube.Get(ctx, client.ObjectKey{Namespace: instance.GetNamespace(), Name: text(of.cluster, "spec", "infrastructureRef", "name")}, of.infra); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return of, nil
}

// launch takes an instance from the stock, and returns when that was. Zero is never so far; the status says why.
func (m *machineReconciler) launch(ctx context.Context, instance *unstructured.Unstructured, of *owners) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text(instance, "status", "launchTime")); err == nil {
		return at, nil
	}
	refuse := func(reason, message string) (time.Time, error) {
		return time.Time{}, setStatus(ctx, m.kube, instance, map[string]any{"conditions": ready(instance, metav1.ConditionFalse, reason, message)})
	}
	kind := text(instance, "spec", "instanceType")
	if text(instance, "spec", "fault") == faultProvisioning {
		return refuse(ReasonProvisioningFailed, "simulated: "+kind+" cannot be provisioned")
	}
	domain := domainOf(instance.GetName(), of)
	m.launching.Lock()
	defer m.launching.Unlock()
	left, err := m.inStock(ctx, of.infra, kind, domain)
	if err != nil {
		return time.Time{}, err
	}
	if !left {
		return refuse(ReasonInsufficientCapacity, fmt.Sprintf("no %s left in %s", kind, domain))
	}
	now := time.Now()
	return now, setStatus(ctx, m.kube, instance, map[string]any{
		"launchTime": now.UTC().Format(time.RFC3339Nano), "failureDomain": domain,
		"conditions": ready(instance, metav1.ConditionFalse, "Provisioning", "the instance is being launched"),
	})
}

// domainOf is the failure domain that a Machine asks for, or one of the cluster's.
func domainOf(name string, of *owners) string {
	if domain := text(of.machine, "spec", "failureDomain"); domain != "" {
		return domain
	}
	domains, _, _ := unstructured.NestedStringSlice(of.infra.Object, "spec", "failureDomains")
	if len(domains) == 0 {
		return of.cluster.GetName()
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return domains[h.Sum32()%uint32(len(domains))]
}

// inStock says whether one more instance may run.
func (m *machineReconciler) inStock(ctx context.Context, cluster *unstructured.Unstructured, kind, domain string) (bool, error) {
	stock, _, _ := unstructured.NestedSlice(cluster.Object, "spec", "stock")
	for _, entry := range stock {
		fields, _ := entry.(map[string]any)
		if where, _ := fields["failureDomain"].(string); fields["instanceType"] != kind || where != "" && where != domain {
			continue
		}
		running, err := m.running(ctx, cluster.GetNamespace(), kind, fields["failureDomain"])
		if err != nil {
			return false, err
		}
		if available, _ := fields["available"].(int64); running >= available {
			return false, nil
		}
	}
	return true, nil
}

// running counts the instances of a type that have been launched, in a failure domain or, without one, in all.
func (m *machineReconciler) running(ctx context.Context, namespace, kind string, domain any) (count int64, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(object("SimMachineList").GroupVersionKind())
	if err := m.live.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return 0, fmt.Errorf("counting SimMachines: %w", err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		where, _ := domain.(string)
		if text(o, "spec", "instanceType") == kind && text(o, "status", "launchTime") != "" && (where == "" || where == text(o, "status", "failureDomain")) {
			count++
		}
	}
	return count, nil
}

// boot takes a launched instance to provisioned, and then its node into the cluster.
func (m *machineReconciler) boot(ctx context.Context, instance *unstructured.Unstructured, of *owners, launched time.Time) (reconcile.Result, error) {
	if wait := time.Until(launched.Add(min(m.opts.BootTime/4, provisionAtMost))); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	node, err := m.node(ctx, instance, of)
	if err != nil {
		return reconcile.Result{}, err
	}
	before := instance.DeepCopy()
	if err := unstructured.SetNestedField(instance.Object, node.Spec.ProviderID, "spec", "providerID"); err != nil {
		return reconcile.Result{}, err
	}
	if text(before, "spec", "providerID") != node.Spec.ProviderID {
		if err := m.kube.Patch(ctx, instance, client.MergeFrom(before)); err != nil {
			return reconcile.Result{}, fmt.Errorf("SimMachine %s: %w", instance.GetName(), err)
		}
	}
	addresses := []any{map[string]any{"type": string(corev1.NodeHostName), "address": instance.GetName()}}
	if err := setStatus(ctx, m.kube, instance, map[string]any{
		"initialization": map[string]any{"provisioned": true}, "addresses": addresses, "conditions": ready(instance, metav1.ConditionTrue, "Provisioned", ""),
	}); err != nil {
		return reconcile.Result{}, err
	}
	if wait := time.Until(launched.Add(m.opts.BootTime)); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if flag(instance, "status", "joined") || text(instance, "spec", "fault") == faultNeverJoins {
		return reconcile.Result{}, nil
	}
	if err := m.opts.Nodes.Join(ctx, node); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, setStatus(ctx, m.kube, instance, map[string]any{"joined": true}) // once: a Node that is deleted does not come back by itself
}

// end shuts an instance down.
func (m *machineReconciler) end(ctx context.Context, instance *unstructured.Unstructured, since time.Time) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(instance, finalizer) {
		return reconcile.Result{}, nil
	}
	if text(instance, "status", "launchTime") != "" {
		if wait := time.Until(since.Add(min(m.opts.BootTime, endAtMost))); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, setStatus(ctx, m.kube, instance, map[string]any{"conditions": ready(instance, metav1.ConditionFalse, "Deleting", "the instance is being shut down")})
		}
		if id := text(instance, "spec", "providerID"); id != "" {
			if err := m.opts.Nodes.Leave(ctx, instance.GetName(), id); err != nil {
				return reconcile.Result{}, err
			}
		}
	}
	before := instance.DeepCopy()
	controllerutil.RemoveFinalizer(instance, finalizer)
	if err := m.kube.Patch(ctx, instance, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("SimMachine %s: %w", instance.GetName(), err)
	}
	return reconcile.Result{}, nil
}
