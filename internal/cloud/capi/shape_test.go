package capi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/capi/kinds"
)

// offline is a provider whose caches show what a test puts there.
type offline struct {
	*Provider
	classes map[string]*v1alpha1.ClusterAPINodeClass
	pools   []*karpv1.NodePool
}

func newOffline() *offline {
	w := &offline{classes: map[string]*v1alpha1.ClusterAPINodeClass{}}
	w.Provider = New(Options{
		Clock: clock.RealClock{},
		Class: func(name string) *v1alpha1.ClusterAPINodeClass { return w.classes[name] },
		Classes: func() (out []*v1alpha1.ClusterAPINodeClass) {
			for _, c := range w.classes {
				out = append(out, c)
			}
			return out
		},
		Pools: func(string) []*karpv1.NodePool { return w.pools },
	})
	w.store.synced = []toolscache.InformerSynced{func() bool { return true }}
	w.store.put(&kinds.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "workload"}})
	return w
}

func (w *offline) class(name string, age time.Duration, match map[string]string) *v1alpha1.ClusterAPINodeClass {
	c := &v1alpha1.ClusterAPINodeClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))}}
	if match != nil {
		c.Spec.ScalableResourceSelector = &metav1.LabelSelector{MatchLabels: match}
	}
	w.classes[name] = c
	return c
}

// deployment is one that gives 4 CPUs and 16 GiB.
func deployment(name string, change ...func(*kinds.MachineDeployment)) *kinds.MachineDeployment {
	n := int32(0)
	d := &kinds.MachineDeployment{}
	d.ObjectMeta = metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{v1alpha1.LabelMember: ""},
		Annotations: map[string]string{kinds.CapacityPrefix + "cpu": "4", kinds.CapacityPrefix + "memory": "16Gi"},
	}
	d.Spec.ClusterName, d.Spec.Replicas = "workload", &n
	d.Spec.Selector.MatchLabels = map[string]string{kinds.DeploymentNameLabel: name}
	for _, c := range change {
		c(d)
	}
	return d
}

func annotated(k, v string) func(*kinds.MachineDeployment) {
	return func(d *kinds.MachineDeployment) { d.Annotations[k] = v }
}

func TestCAPI_WhatAMachineDeploymentGives(t *testing.T) {
	w := newOffline()
	w.class("default", 0, nil)
	w.store.put(deployment("large",
		annotated(kinds.CapacityPrefix+"maxPods", "50"), annotated(kinds.CapacityPrefix+"ephemeral-disk", "100Gi"),
		annotated(kinds.CapacityPrefix+"gpu-type", "nvidia.com/gpu"), annotated(kinds.CapacityPrefix+"gpu-count", "2"),
		annotated(kinds.CapacityPrefix+"labels", "kubernetes.io/arch=arm64,disk=ssd"), annotated(v1alpha1.PriceAnnotationKey, "0.75"),
		func(d *kinds.MachineDeployment) {
			d.Spec.Template.Spec.FailureDomain = "rack-1"
			d.Spec.Template.Metadata.Labels = map[string]string{"node.cluster.x-k8s.io/team": "a", "not.passed.on": "x"}
		}))
	got, err := w.Types("default")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.List) != 1 || len(got.List[0].Offerings) != 1 {
		t.Fatalf("%+v", got.List)
	}
	typ := got.List[0]
	text := fmt.Sprint(typ.Name, typ.Labels, got.Resources, typ.Capacity, typ.Allocatable, typ.Offerings[0])
	for _, want := range []string{
		"large", "{kubernetes.io/arch arm64}", "{disk ssd}", "{node.cluster.x-k8s.io/team a}", "nvidia.com/gpu",
		"[4000 17179869184 50 107374182400 2]", "[4000 17075011584 50 96636764160 2]", "{rack-1 on-demand [] 0.75",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(text, "not.passed.on") {
		t.Errorf("Cluster API does not give nodes such a label: %s", text)
	}
	if again, _ := w.Types("default"); again != got {
		t.Error("nothing changed, but another value came back")
	}
}

// TestCAPI_BadInput puts one wrong MachineDeployment beside a right one: the right one stays, and the class says what is wrong.
func TestCAPI_BadInput(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*kinds.MachineDeployment)
		want   []string
	}{
		"no capacity": {
			func(d *kinds.MachineDeployment) { delete(d.Annotations, kinds.CapacityPrefix+"cpu") },
			[]string{"MachineDeployment default/wrong is left out", "cpu", kinds.CapacityPrefix + "cpu", "status.capacity"},
		},
		"no quantity":      {annotated(kinds.CapacityPrefix+"memory", "500mb"), []string{`memory is "500mb"`, "128Gi"}},
		"negative":         {annotated(kinds.CapacityPrefix+"cpu", "-1"), []string{`cpu is "-1"`, `"16"`}},
		"no pods":          {annotated(kinds.CapacityPrefix+"maxPods", "many"), []string{`maxPods is "many"`}},
		"GPUs of no kind":  {annotated(kinds.CapacityPrefix+"gpu-count", "1"), []string{"gpu-type", "nvidia.com/gpu"}},
		"labels":           {annotated(kinds.CapacityPrefix+"labels", "a b=c"), []string{`"a b=c"`, "key=value"}},
		"a label of ours":  {annotated(kinds.CapacityPrefix+"labels", "karpenter.sh/nodepool=x"), []string{"karpenter.sh/nodepool", "remove"}},
		"capacity type":    {annotated(kinds.CapacityPrefix+"labels", "karpenter.sh/capacity-type=cheap"), []string{"cheap", "on-demand or spot"}},
		"taints":           {annotated(kinds.CapacityPrefix+"taints", "a=b"), []string{`"a=b"`, "NoSchedule"}},
		"price":            {annotated(v1alpha1.PriceAnnotationKey, "cheap"), []string{`"cheap"`, `"0.42"`}},
		"price below zero": {annotated(v1alpha1.PriceAnnotationKey, "-1"), []string{`"-1"`}},
		"min size":         {annotated(kinds.MinSizeAnnotation, "some"), []string{`"some"`, "whole number"}},
		"drivers":          {annotated(kinds.CapacityPrefix+"csi-driver", "x"), []string{`"x"`, "driver=limit"}},
		"min over max": {func(d *kinds.MachineDeployment) {
			d.Annotations[kinds.MinSizeAnnotation], d.Annotations[kinds.MaxSizeAnnotation] = "3", "2"
		}, []string{"is 3", "is 2"}},
		"paused":             {annotated(kinds.PausedAnnotation, ""), []string{kinds.PausedAnnotation, "remove"}},
		"paused in its spec": {func(d *kinds.MachineDeployment) { d.Spec.Paused = true }, []string{"spec.paused"}},
		"of no cluster":      {func(d *kinds.MachineDeployment) { d.Spec.ClusterName = "" }, []string{"spec.clusterName", "namespace default"}},
		"of another cluster": {func(d *kinds.MachineDeployment) { d.Spec.ClusterName = "gone" }, []string{`"gone"`, "no such Cluster"}},
		"being deleted":      {func(d *kinds.MachineDeployment) { now := metav1.Now(); d.DeletionTimestamp = &now }, []string{"being deleted"}},
		"failure domain":     {func(d *kinds.MachineDeployment) { d.Spec.Template.Spec.FailureDomain = "row 1/rack 2" }, []string{"failureDomain", "label"}},
		"a taint that the pool has not": {
			annotated(kinds.CapacityPrefix+"taints", "dedicated=gpu:NoSchedule"), []string{"dedicated=gpu:NoSchedule", "NodePool general", "spec.template.spec.taints"},
		},
		"a record that cannot be read": {annotated(v1alpha1.RecordAnnotationKey, ""), []string{v1alpha1.RecordAnnotationKey, "restore it"}},
		"in an older class":            {func(d *kinds.MachineDeployment) { d.Labels["team"] = "old" }, []string{"older ClusterAPINodeClass old", "spec.scalableResourceSelector"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newOffline()
			class := w.class("default", 0, nil)
			w.class("old", time.Hour, map[string]string{"team": "old"})
			pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
			w.pools = append(w.pools, pool)
			w.store.put(deployment("right"))
			w.store.put(deployment("wrong", tt.change))
			w.Reconcile(t.Context(), class)
			c := class.StatusConditions().Get(v1alpha1.ConditionScalableResourcesReady)
			if c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonSomeLeftOut {
				t.Errorf("condition %+v", c)
			}
			for _, want := range tt.want {
				if !strings.Contains(c.Message, want) {
					t.Errorf("%q does not name %q", c.Message, want)
				}
			}
			if got, err := w.Types("default"); err != nil || len(got.List) != 1 || got.List[0].Name != "right" {
				t.Errorf("%v %v", got.List, err)
			}
		})
	}
}

func TestCAPI_ClassConditions(t *testing.T) {
	w := newOffline()
	class := w.class("default", 0, nil)
	w.Reconcile(t.Context(), class)
	if c := class.StatusConditions().Get(v1alpha1.ConditionScalableResourcesReady); c.Reason != v1alpha1.ReasonScalableResourcesNotFound || !strings.Contains(c.Message, v1alpha1.LabelMember) {
		t.Errorf("nothing there: %+v", c)
	}
	w.store.put(deployment("paused", annotated(kinds.PausedAnnotation, "")))
	w.Reconcile(t.Context(), class)
	if c := class.StatusConditions().Root(); c.Status != metav1.ConditionFalse {
		t.Errorf("everything left out: %+v", c)
	}
	if r := launchable(class); cloud.ClassOf(r) != cloud.NotReady {
		t.Errorf("got %v", r)
	}
	w.store.put(deployment("fine"))
	w.Reconcile(t.Context(), class)
	if !class.StatusConditions().IsTrue(karpv1.ConditionReady) || class.Status.ScalableResources[0].PriceSource != v1alpha1.PriceEstimated || class.Status.ScalableResources[0].Price != "" {
		t.Errorf("%+v", class.Status)
	}
	class.Spec.ScalableResourceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	w.Reconcile(t.Context(), class)
	if c := class.StatusConditions().Get(v1alpha1.ConditionValidationSucceeded); c.Reason != v1alpha1.ReasonSelectorInvalid || !strings.Contains(c.Message, "spec.scalableResourceSelector") {
		t.Errorf("selector: %+v", c)
	}
}

// TestCAPI_TaintsOfThePool shows that nodes with taints are used by pools that have the same.
func TestCAPI_TaintsOfThePool(t *testing.T) {
	w := newOffline()
	w.class("default", 0, nil)
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	pool.Spec.Template.Spec.Taints = []karpv1.Taint{{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	w.pools = append(w.pools, pool)
	w.store.put(deployment("tainted", annotated(kinds.CapacityPrefix+"taints", "dedicated=gpu:NoSchedule,slow=x:PreferNoSchedule")))
	if got, err := w.Types("default"); err != nil || len(got.List) != 1 {
		t.Errorf("%v %v", got.List, err)
	}
}

// TestCAPI_OneTypeInSeveralZones shows that MachineDeployments of one instance type are its offerings, and that one that differs is a type of its own.
func TestCAPI_OneTypeInSeveralZones(t *testing.T) {
	w := newOffline()
	w.class("default", 0, nil)
	in := func(zone string) func(*kinds.MachineDeployment) {
		return func(d *kinds.MachineDeployment) {
			d.Spec.Template.Spec.FailureDomain = zone
			d.Annotations[kinds.CapacityPrefix+"labels"] = "node.kubernetes.io/instance-type=m"
		}
	}
	w.store.put(deployment("m-a", in("a")))
	w.store.put(deployment("m-b", in("b"), annotated(kinds.MaxSizeAnnotation, "0")))
	w.store.put(deployment("m-big", in("a"), annotated(kinds.CapacityPrefix+"cpu", "8")))
	got, err := w.Types("default")
	if err != nil || len(got.List) != 2 {
		t.Fatalf("%v %v", got, err)
	}
	if one, other := got.List[0], got.List[1]; one.Name != "default.m-big" || other.Name != "m" || len(other.Offerings) != 2 || !other.Offerings[0].Available || other.Offerings[1].Available {
		t.Errorf("%+v %+v", one, other)
	}
}

// TestCAPI_ANewTemplateIsLikeTheOneBefore: until a template has been read, nodes are what the one before said, so that a rollout does not
// take its MachineDeployment out of use.
func TestCAPI_ANewTemplateIsLikeTheOneBefore(t *testing.T) {
	w := newOffline()
	w.class("default", 0, nil)
	from := func(template string) *kinds.MachineDeployment {
		return deployment("large", func(d *kinds.MachineDeployment) {
			d.Annotations = nil
			d.Spec.Template.Spec.InfrastructureRef.Name = template
		})
	}
	w.store.put(from("v1"))
	w.store.templates[templateOf(&from("v1").Scalable)] = templateStatus{capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi")}}
	for _, template := range []string{"v1", "v2", "v3"} {
		w.store.put(from(template))
		if got, err := w.Types("default"); err != nil || len(got.List) != 1 {
			t.Errorf("%s: %v %v", template, got, err)
		}
	}
}
