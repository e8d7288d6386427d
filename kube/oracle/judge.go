// Package oracle asks kube-scheduler's own filter plugins whether a pod may go onto a node, so that the engine's plans
// can be held against the program that will carry them out.
package oracle

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Judge holds one cluster: nodes, the pods on them, and what pods refer to.
type Judge struct {
	framework framework.Framework
	snapshot  *cache.Snapshot
}

// NewJudge loads a cluster. Pods are those with a node; objects are namespaces, volumes, their claims and classes,
// CSI nodes and drivers, and, with default spread constraints, Services and owners of pods. The context ends what runs in the background.
func NewJudge(ctx context.Context, nodes []*corev1.Node, pods []*corev1.Pod, objects []runtime.Object, spread ...corev1.TopologySpreadConstraint) (*Judge, error) {
	metrics.Register()
	profile, err := defaultProfile()
	if err != nil {
		return nil, err
	}
	for i := range profile.PluginConfig {
		if args, ok := profile.PluginConfig[i].Args.(*config.PodTopologySpreadArgs); ok && len(spread) > 0 {
			args.DefaultConstraints, args.DefaultingType = spread, config.ListDefaulting
		}
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	snapshot := cache.NewSnapshot(pods, nodes)
	filters, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithMutableSnapshotLister(snapshot),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithParallelism(1),
		frameworkruntime.WithLogger(klog.Background()),
	)
	if err != nil {
		return nil, fmt.Errorf("building the scheduler's plugins: %w", err)
	}
	if err := fill(factory, objects); err != nil {
		return nil, err
	}
	if hasVolumes(objects) {
		// The volume plugin keeps a cache of its own behind the informers, so they have to run.
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
	}
	return &Judge{framework: filters, snapshot: snapshot}, nil
}

// Bind puts a pod onto the node that it names, Unbind takes it off. Only pods that NewJudge was given may come and go:
// the snapshot's lists of nodes with affinity are made from those.
func (j *Judge) Bind(pod *corev1.Pod) error {
	home, err := j.node(pod.Spec.NodeName)
	if err != nil {
		return err
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return fmt.Errorf("reading pod %s: %w", pod.Name, err)
	}
	home.AddPodInfo(info)
	return nil
}

// Unbind is the opposite of Bind.
func (j *Judge) Unbind(pod *corev1.Pod) error {
	home, err := j.node(pod.Spec.NodeName)
	if err != nil {
		return err
	}
	return home.RemovePod(klog.Background(), pod)
}

func (j *Judge) node(name string) (fwk.NodeInfo, error) {
	info, err := j.snapshot.NodeInfos().Get(name)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	return info, nil
}

// Refuses says why the filters do not let a pod that is on no node onto a node, while every other pod is where it is; it
// is empty if they do.
func (j *Judge) Refuses(ctx context.Context, pod *corev1.Pod, node string) (string, error) {
	info, err := j.node(node)
	if err != nil {
		return "", err
	}
	unbound := pod.DeepCopy()
	unbound.Spec.NodeName = ""
	state := framework.NewCycleState()
	allowed, status, _ := j.framework.RunPreFilterPlugins(ctx, state, unbound)
	if !status.IsSuccess() {
		return status.Plugin() + ": " + status.Message(), nil
	}
	if !allowed.AllNodes() && !allowed.NodeNames.Has(node) {
		return "the pre-filters allow other nodes only", nil
	}
	if status := j.framework.RunFilterPlugins(ctx, state, unbound, info); !status.IsSuccess() {
		return status.Plugin() + ": " + status.Message(), nil
	}
	return "", nil
}

// defaultProfile is the default scheduler without dynamic resource allocation, which the engine does not plan for.
func defaultProfile() (*config.KubeSchedulerProfile, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("reading the scheduler's defaults: %w", err)
	}
	profile := &defaults.Profiles[0]
	profile.Plugins.MultiPoint.Enabled = slices.DeleteFunc(profile.Plugins.MultiPoint.Enabled, func(p config.Plugin) bool { return p.Name == names.DynamicResources })
	return profile, nil
}

// fill puts objects where listers read them without waiting for a watch.
func fill(factory informers.SharedInformerFactory, objects []runtime.Object) error {
	for _, object := range objects {
		var err error
		switch object.(type) {
		case *corev1.Namespace:
			err = factory.Core().V1().Namespaces().Informer().GetIndexer().Add(object)
		case *corev1.Service:
			err = factory.Core().V1().Services().Informer().GetIndexer().Add(object)
		case *corev1.ReplicationController:
			err = factory.Core().V1().ReplicationControllers().Informer().GetIndexer().Add(object)
		case *appsv1.ReplicaSet:
			err = factory.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(object)
		case *appsv1.StatefulSet:
			err = factory.Apps().V1().StatefulSets().Informer().GetIndexer().Add(object)
		}
		if err != nil {
			return fmt.Errorf("loading an object: %w", err)
		}
	}
	return nil
}

func hasVolumes(objects []runtime.Object) bool {
	for _, object := range objects {
		switch object.(type) {
		case *corev1.PersistentVolume, *corev1.PersistentVolumeClaim, *storagev1.CSINode:
			return true
		}
	}
	return false
}
