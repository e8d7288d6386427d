package oracle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"karpenter/internal/engine/pack"
	engine "karpenter/internal/engine/world"
	"karpenter/internal/state"
	"karpenter/internal/state/toworld"
)

// keys and values are few, so that selectors meet and contradict each other, and every pod that there can be is asked about.
var (
	keys   = []string{"app", "version", "tier"}
	values = []string{"", "a", "b"} // the first stands for no label
)

// everyPod lists the labels that pods can have.
func everyPod() []labels.Set {
	list := []labels.Set{{}}
	for _, k := range keys {
		var next []labels.Set
		for _, have := range list {
			for _, v := range values {
				with := labels.Merge(have, nil)
				if v != "" {
					with[k] = v
				}
				next = append(next, with)
			}
		}
		list = next
	}
	return list
}

func (w *world) labels(percent int) map[string]string {
	out := map[string]string{}
	for _, k := range keys {
		if w.chance(percent) {
			out[k] = pick(w, values[1:])
		}
	}
	return out
}

// ownerSelector is one that a workload may have, now and then one that nothing can have or that cannot be read.
func (w *world) ownerSelector() *metav1.LabelSelector {
	if w.chance(5) {
		return nil
	}
	s := &metav1.LabelSelector{MatchLabels: w.labels(40)}
	for range w.IntN(3) {
		e := metav1.LabelSelectorRequirement{Key: pick(w, keys), Operator: pick(w, []metav1.LabelSelectorOperator{
			metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
		})}
		if (e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn) != w.chance(3) {
			e.Values = []string{pick(w, values[1:])}
			if w.chance(30) {
				e.Values = append(e.Values, pick(w, values[1:]))
			}
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s
}

// workloads are Services and owners of pods in two namespaces, with few names.
func (w *world) workloads() []runtime.Object {
	spaces := []string{"default", "other"}
	var out []runtime.Object
	for i := range w.IntN(5) {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: pick(w, spaces), Name: fmt.Sprint("svc", i)}}
		if !w.chance(10) {
			svc.Spec.Selector = w.labels(40)
		}
		out = append(out, svc)
	}
	for _, space := range spaces {
		for _, name := range []string{"x", "y"} {
			meta := metav1.ObjectMeta{Namespace: space, Name: name}
			if w.chance(60) {
				out = append(out, &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: w.labels(50)}})
			}
			if w.chance(60) {
				out = append(out, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: w.ownerSelector()}})
			}
			if w.chance(60) {
				out = append(out, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: w.ownerSelector()}})
			}
		}
	}
	return out
}

// owners are what pods may say made them: kinds that count, others of the same name, and owners that do not control.
func (w *world) owners() []metav1.OwnerReference {
	var out []metav1.OwnerReference
	yes, controlled := true, false
	for range w.IntN(3) {
		r := pick(w, []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ReplicationController"},
			{APIVersion: "apps/v1", Kind: "ReplicaSet"},
			{APIVersion: "apps/v1", Kind: "StatefulSet"},
			{APIVersion: "apps/v1", Kind: "DaemonSet"},
			{APIVersion: "batch/v1", Kind: "Job"},
			{APIVersion: "argoproj.io/v1alpha1", Kind: "ReplicaSet"},
			{APIVersion: "extensions/v1beta1", Kind: "ReplicaSet"},
			{APIVersion: "a/b/c", Kind: "ReplicaSet"},
		})
		if r.Name = pick(w, []string{"x", "y", "z"}); !controlled && w.chance(80) {
			r.Controller, controlled = &yes, true
		}
		out = append(out, r)
	}
	return out
}

// The selector that we deduce for a pod without spread constraints picks the same pods as the one that kube-scheduler deduces, and is
// none where that is empty, whatever Services and owners there are.
func TestN1_TheDeducedSelectorIsKubeSchedulers(t *testing.T) {
	every := everyPod()
	some, none := 0, 0
	for seed := range uint64(5000) {
		w := &world{Rand: rand.New(rand.NewPCG(seed, 3))}
		objects := w.workloads()
		factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		if err := fill(factory, objects); err != nil {
			t.Fatal(err)
		}
		conv := toworld.NewConverter(toworld.Options{})
		for _, o := range objects {
			if svc, ok := o.(*corev1.Service); ok {
				conv.PutService(svc)
			} else if key, workload, ok := toworld.KeyOf(o); ok {
				conv.Workloads[key] = workload
			}
		}
		core, apps := factory.Core().V1(), factory.Apps().V1()
		for range 20 {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(w, []string{"default", "other"}), Labels: pick(w, every), OwnerReferences: w.owners()}}
			theirs := helper.DefaultSelector(pod, core.Services().Lister(), core.ReplicationControllers().Lister(), apps.ReplicaSets().Lister(), apps.StatefulSets().Lister())
			ours := conv.DefaultSelector(pod)
			if theirs.Empty() != (ours == nil) {
				t.Fatalf("seed %d: kube-scheduler deduces %q, we deduce %v for %v", seed, theirs, ours, pod)
			}
			if ours == nil {
				none++
				continue
			}
			some++
			for _, set := range every {
				if got, want := toworld.Matches(*ours, set), theirs.Matches(set); got != want {
					t.Fatalf("seed %d: of pods with %v: %t, kube-scheduler says %t by %q; for %v", seed, set, got, want, theirs, pod)
				}
			}
		}
	}
	if some < 10000 || none < 10000 {
		t.Errorf("%d pods have a selector, %d have none: too few of one kind", some, none)
	}
	t.Logf("%d selectors of each side against %d pods, and %d without", some, len(every), none)
}

// addDefaults gives the pods of a generated cluster Services and owners, and the cluster default constraints.
func (w *world) addDefaults() {
	yes := true
	for i := range 1 + w.IntN(3) {
		svc := &corev1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: pick(w, []string{"default", "other"}), Name: fmt.Sprint("svc", i)},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": pick(w, apps)}},
		}
		if w.chance(30) {
			svc.Spec.Selector["version"] = "1"
		}
		w.others = append(w.others, svc)
	}
	for _, space := range []string{"default", "other"} {
		for _, app := range apps {
			w.others = append(w.others, &appsv1.ReplicaSet{
				TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}, ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: app},
				Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
			})
		}
	}
	for _, list := range [][]*corev1.Pod{w.bound, w.pending} {
		for _, p := range list {
			if w.chance(60) && len(p.OwnerReferences) == 0 {
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: p.Labels["app"], Controller: &yes}}
			}
		}
	}
	w.defaults = []corev1.TopologySpreadConstraint{{MaxSkew: int32(1 + w.IntN(2)), TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule}}
	if w.chance(40) {
		w.defaults = append(w.defaults, corev1.TopologySpreadConstraint{MaxSkew: int32(1 + w.IntN(2)), TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule})
	}
	if w.chance(30) {
		w.defaults = append(w.defaults, corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway})
	}
}

// Plans with default constraints hold against a kube-scheduler that has the same.
func TestN1_PlansWithDefaultSpreadHoldAgainstTheScheduler(t *testing.T) {
	judgeAll(t, func(w *world) state.Options {
		w.addDefaults()
		return state.Options{DefaultSpread: w.defaults}
	})
}

// addLimits gives types a limit of volumes, and more pods a volume.
func (w *world) addLimits() {
	for i := range w.catalog.InstanceTypes {
		if w.chance(70) {
			w.catalog.InstanceTypes[i].Allocatable[engine.AttachResource(csiDriver)] = fmt.Sprint(w.IntN(4))
		}
	}
	for _, p := range w.pending {
		if len(p.Spec.Volumes) == 0 && w.chance(50) {
			w.addVolume(p)
		}
	}
}

// Plans for pods with volumes hold against nodes on which the driver says what their type promises.
func TestN2_PlansWithVolumeLimitsHoldAgainstTheScheduler(t *testing.T) {
	judgeAll(t, func(w *world) state.Options {
		w.addLimits()
		return state.Options{}
	})
}

// judgeAll plans generated clusters after a change to them, and has the plans judged.
func judgeAll(t *testing.T, prepare func(*world) state.Options) {
	t.Helper()
	const clusters = 400 // a thousand were judged once, without a breach
	seeds := make(chan uint64)
	var judged, failed atomic.Int64
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for seed := range seeds {
				breaches, answers := judgeOne(t.Context(), seed, prepare)
				judged.Add(int64(answers))
				for _, breach := range breaches {
					if failed.Add(1) <= 20 {
						t.Errorf("seed %d: %s", seed, breach)
					}
				}
			}
		})
	}
	for i := range uint64(clusters) {
		seeds <- i
	}
	close(seeds)
	wait.Wait()
	if t.Logf("%d answers judged, %d wrong", judged.Load(), failed.Load()); judged.Load() < clusters {
		t.Error("too little was judged")
	}
}

func judgeOne(ctx context.Context, seed uint64, prepare func(*world) state.Options) (breaches []string, answers int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := generate(seed)
	options := prepare(w)
	snapshot, problems, err := w.snapshot(options)
	if err != nil || len(problems) > 0 {
		return []string{fmt.Sprintf("loading: %v %v", err, problems)}, 0
	}
	return w.holdAgainst(ctx, snapshot, pack.Solve(snapshot, pack.Options{}))
}
