package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
)

// app is a workload: so many pods alike, made anew when one goes.
type app struct {
	name     string
	replicas int
	cpu, mem string
	// pdb is how many of its pods may be unavailable, below zero for any; protected is how many have the annotation that keeps them.
	pdb, protected int
	// spread is the topology key that its pods must be spread over, softSpread one that they should be, apart one of whose domains each has
	// at most one of them, and prefers the zone that they should be in.
	spread, softSpread, apart, prefers string

	made int
	uid  types.UID
}

// addApp adds a workload.
func (w *World) addApp(add app) error {
	if slices.ContainsFunc(w.apps, func(a *app) bool { return a.name == add.name }) {
		return fmt.Errorf("there are two workloads with the name %s", add.name)
	}
	a := &add
	pod, n := a.pod(0), int32(a.replicas)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: a.name}, Spec: appsv1.ReplicaSetSpec{
		Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
	}}
	if err := w.owner.Create(context.Background(), set); err != nil {
		return fmt.Errorf("adding workload %s: %w", a.name, err)
	}
	a.uid = set.UID
	w.apps = append(w.apps, a)
	w.wanted++
	if a.pdb < 0 {
		return nil
	}
	most := intstr.FromInt32(int32(a.pdb))
	return w.owner.Create(context.Background(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: a.name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
	})
}

// Scale changes how many pods a workload has.
func (w *World) Scale(name string, replicas int) error {
	for _, a := range w.apps {
		if a.name != name {
			continue
		}
		a.replicas = replicas
		w.wanted++
		set := &appsv1.ReplicaSet{}
		if err := w.owner.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, set); err != nil {
			return err
		}
		n := int32(replicas)
		set.Spec.Replicas = &n
		return w.owner.Update(context.Background(), set)
	}
	return fmt.Errorf("there is no workload with the name %s", name)
}

// keepApps makes and deletes pods until each workload has as many as it wants.
func (w *World) keepApps() error {
	ctx := context.Background()
	for _, a := range w.apps {
		if w.pods.stay[a.name] == a.replicas {
			continue
		}
		var have []*corev1.Pod
		protected := 0
		w.server.Each(&corev1.Pod{}, func(o client.Object) {
			if pod := o.(*corev1.Pod); pod.DeletionTimestamp == nil && pod.Labels["app"] == a.name {
				have = append(have, pod)
				if pod.Annotations[karpv1.DoNotDisruptAnnotationKey] != "" {
					protected++
				}
			}
		})
		for n := len(have); n < a.replicas; n++ {
			a.made++
			if err := w.owner.Create(ctx, a.pod(a.protected-protected)); err != nil {
				return err
			}
			protected++
		}
		for n := len(have) - a.replicas; n > 0; n-- {
			at := w.draw.IntN(len(have))
			if err := w.owner.Delete(ctx, have[at].DeepCopy()); client.IgnoreNotFound(err) != nil {
				return err
			}
			have = slices.Delete(have, at, at+1)
		}
	}
	return nil
}

// pod is the next pod of a workload, protected if more of those are to be made.
func (a *app) pod(protect int) *corev1.Pod {
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("%s-%d", a.name, a.made), Labels: map[string]string{"app": a.name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: a.name, UID: a.uid, Controller: &yes}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(a.cpu), corev1.ResourceMemory: resource.MustParse(a.mem)}},
		}}},
	}
	spread := func(key string, otherwise corev1.UnsatisfiableConstraintAction) {
		if key != "" {
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: otherwise, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			})
		}
	}
	spread(a.spread, corev1.DoNotSchedule)
	spread(a.softSpread, corev1.ScheduleAnyway)
	affinity := &corev1.Affinity{}
	if a.apart != "" {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: a.apart, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
		}}
		pod.Spec.Affinity = affinity
	}
	if a.prefers != "" {
		affinity.NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{a.prefers}}}},
		}}}
		pod.Spec.Affinity = affinity
	}
	if protect > 0 {
		pod.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	}
	return pod
}

// poolSpec says what a pool is like; what is below zero or empty is left as it is by default.
type poolSpec struct {
	name         string
	limits       map[string]string
	budget       int
	after, grace time.Duration
	expire       time.Duration // 0 for never
	capacity     string
	minValues    int // of instance families
	replicas     *int64
}

// class is a class whose nodes can run anything, with images that are not the newest.
func (w *World) class(name string) *awsv1.EC2NodeClass {
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	class.Spec.Role = nodeRole
	class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@v20250704"}}
	class.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": clusterName}}}
	class.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": clusterName}}}
	return class
}

// pool is a pool of the class of its name that can launch anything.
func (w *World) pool(name string) *karpv1.NodePool {
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{foreignKey: "keep"}}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: name}
	return pool
}

// addPool adds a class and a pool.
func (w *World) addPool(spec poolSpec) error {
	ctx := context.Background()
	if err := w.owner.Create(ctx, w.class(spec.name)); err != nil {
		return err
	}
	pool := w.pool(spec.name)
	if len(spec.limits) > 0 {
		pool.Spec.Limits = karpv1.Limits{}
		for name, text := range spec.limits {
			pool.Spec.Limits[corev1.ResourceName(name)] = resource.MustParse(text)
		}
	}
	if spec.budget >= 0 {
		pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: fmt.Sprint(spec.budget)}}
		w.budgets[spec.name] = spec.budget
	} else {
		w.shares[spec.name] = true
	}
	pool.Spec.Disruption.ConsolidateAfter = karpv1.NewNillableDuration(max(0, spec.after))
	if spec.grace >= 0 {
		pool.Spec.Template.Spec.TerminationGracePeriod = new(karpv1.NewDuration(spec.grace))
	}
	if spec.capacity != "" {
		pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{spec.capacity}}}
	}
	if spec.minValues > 0 {
		pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: awsv1.LabelInstanceFamily, Operator: corev1.NodeSelectorOpExists, MinValues: &spec.minValues})
	}
	if spec.expire > 0 {
		pool.Spec.Template.Spec.ExpireAfter = karpv1.NewNillableDuration(spec.expire)
	}
	pool.Spec.Replicas = spec.replicas
	return w.owner.Create(ctx, pool)
}

// EditPool changes a pool as its owner does.
func (w *World) EditPool(name string, edit func(*karpv1.NodePool)) error {
	ctx := context.Background()
	pool := &karpv1.NodePool{}
	if err := w.owner.Get(ctx, types.NamespacedName{Name: name}, pool); err != nil {
		return err
	}
	before := pool.DeepCopy()
	edit(pool)
	return w.owner.Patch(ctx, pool, client.MergeFrom(before))
}
