package sim

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
)

var discard = logr.Discard()

// app is a workload: so many pods alike, made anew when one goes.
type app struct {
	name     string
	replicas int
	cpu, mem string
	made     int
	uid      types.UID
}

// AddApp adds a workload of so many pods.
func (w *World) AddApp(name string, replicas int, cpu, mem string) error {
	a := &app{name: name, replicas: replicas, cpu: cpu, mem: mem}
	pod, n := a.pod(), int32(replicas)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name}, Spec: appsv1.ReplicaSetSpec{
		Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
	}}
	if err := w.owner.Create(context.Background(), set); err != nil {
		return fmt.Errorf("adding workload %s: %w", name, err)
	}
	a.uid = set.UID
	w.apps = append(w.apps, a)
	return nil
}

// Scale changes how many pods a workload has.
func (w *World) Scale(name string, replicas int) {
	for _, a := range w.apps {
		if a.name == name {
			a.replicas = replicas
			w.wanted++
		}
	}
}

// keepApps makes and deletes pods until each workload has as many as it wants.
func (w *World) keepApps() error {
	ctx := context.Background()
	var pods corev1.PodList
	if err := w.owner.List(ctx, &pods); err != nil {
		return err
	}
	for _, a := range w.apps {
		var have []*corev1.Pod
		for i := range pods.Items {
			if pods.Items[i].Labels["app"] == a.name && pods.Items[i].DeletionTimestamp == nil {
				have = append(have, &pods.Items[i])
			}
		}
		for n := len(have); n < a.replicas; n++ {
			a.made++
			if err := w.owner.Create(ctx, a.pod()); err != nil {
				return err
			}
		}
		for n := len(have) - a.replicas; n > 0; n-- {
			at := w.draw.IntN(len(have))
			if err := w.owner.Delete(ctx, have[at]); err != nil {
				return err
			}
			have = append(have[:at], have[at+1:]...)
		}
	}
	return nil
}

func (a *app) pod() *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("%s-%d", a.name, a.made), Labels: map[string]string{"app": a.name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: a.name, UID: a.uid, Controller: &yes}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(a.cpu), corev1.ResourceMemory: resource.MustParse(a.mem)}},
		}}},
	}
}

// AddPool adds a class and a pool that can launch anything.
func (w *World) AddPool(name string, limits corev1.ResourceList, edit ...func(*karpv1.NodePool)) error {
	ctx := context.Background()
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	class.Spec.Role = nodeRole
	class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
	class.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": clusterName}}}
	class.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": clusterName}}}
	if err := w.owner.Create(ctx, class); err != nil {
		return err
	}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.Spec.Limits = karpv1.Limits(limits)
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: name}
	for _, f := range edit {
		f(pool)
	}
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
