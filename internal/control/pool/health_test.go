package pool_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktest "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control/pool"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

func TestL14_PoolsWhoseInstancesDoNotJoinAreHeldBack(t *testing.T) {
	clock := clocktest.NewFakeClock(time.Now())
	r := pool.NewHealth(cluster.Client, awsv1.EC2NodeClassGroupKind, clock)
	p := newPool("sickly", "any")
	create(t, p)
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: p.Name}}
	judge := func(r *pool.Health, want metav1.ConditionStatus) karpv1.Condition {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Client.Get(t.Context(), request.NamespacedName, p); err != nil {
			t.Fatal(err)
		}
		got := *p.StatusConditions().Get(karpv1.ConditionNodeRegistrationHealthy)
		if got.Status != want {
			t.Errorf("%+v, want %s", got, want)
		}
		return got
	}
	judge(r, metav1.ConditionUnknown)

	claim := claimOf(p.Name, "any", "", "")
	claim.OwnerReferences = []metav1.OwnerReference{{UID: p.UID}}
	stranger := claimOf(p.Name, "stranger", "", "")
	stranger.OwnerReferences = []metav1.OwnerReference{{UID: "an earlier pool of that name"}}
	r.Joined(claim)
	r.Failed(stranger, "", "")
	r.Failed(stranger, "", "")
	judge(r, metav1.ConditionTrue)
	if until, _ := r.Paused(p.Name); !until.IsZero() {
		t.Errorf("paused until %s by instances of another pool", until)
	}

	r.Failed(claim, "LaunchFailed", "no such image")
	r.Failed(claim, "LaunchFailed", "no such image")
	if bad := judge(r, metav1.ConditionFalse); bad.Reason != "LaunchFailed" || bad.Message != "no such image" {
		t.Errorf("%+v does not say what went wrong", bad)
	}
	until, why := r.Paused(p.Name)
	if until.Sub(clock.Now()) != time.Minute || !strings.Contains(why, "no such image") {
		t.Errorf("paused until %s because %q", until, why)
	}
	clock.Step(time.Minute)
	if until, _ := r.Paused(p.Name); !until.IsZero() {
		t.Errorf("still paused until %s", until)
	}

	judge(pool.NewHealth(cluster.Client, awsv1.EC2NodeClassGroupKind, clock), metav1.ConditionFalse) // a restart does not forget

	r.Failed(claim, "LaunchFailed", "no such image")
	claim.CreationTimestamp = metav1.NewTime(clock.Now().Add(time.Second))
	r.Failed(claim, "LaunchFailed", "no such image")
	if until, _ := r.Paused(p.Name); until.Sub(clock.Now()) != 5*time.Minute {
		t.Errorf("paused until %s, want five minutes after a second burst", until)
	}
	p.Annotations = map[string]string{karpv1.RetryAnnotationKey: "now"} // somebody wants it to be tried
	if err := cluster.Client.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	judge(r, metav1.ConditionUnknown)
	if until, why := r.Paused(p.Name); !until.IsZero() {
		t.Errorf("still paused until %s: %s", until, why)
	}
	r.Failed(claim, "Unauthorized", "not allowed")
	r.Failed(claim, "Unauthorized", "not allowed")
	judge(r, metav1.ConditionFalse)
	p.StatusConditions().SetTrue(karpv1.ConditionNodeClassReady, clock.Now().Add(time.Minute)) // AWS allows it now
	if err := cluster.Client.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	judge(r, metav1.ConditionUnknown)

	r.Failed(claim, "LaunchFailed", "no such image")
	r.Failed(claim, "LaunchFailed", "no such image")
	judge(r, metav1.ConditionFalse)
	p.Status.NodeClassObservedGeneration++ // the class is another
	if err := cluster.Client.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	judge(r, metav1.ConditionUnknown)
	if until, why := r.Paused(p.Name); !until.IsZero() {
		t.Errorf("another class, and still paused until %s: %s", until, why)
	}

	r.Failed(claim, "LaunchFailed", "no such image")
	r.Failed(claim, "LaunchFailed", "no such image")
	judge(r, metav1.ConditionFalse)
	p.Spec.Weight = new(int32(7)) // somebody has changed something: a new chance
	if err := cluster.Client.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	judge(r, metav1.ConditionUnknown)
}

// mirrorOf follows nothing but what it is given.
func mirrorOf(objects ...state.Object) *state.Mirror {
	m := state.NewMirror(state.MirrorOptions{
		Types: func(string) ([]string, []*world.InstanceType, uint64, error) { return nil, nil, 1, nil }, Now: time.Now,
	})
	for _, obj := range objects {
		m.Put(obj)
	}
	m.SetSynced()
	return m
}

func TestA29_PoolsShowWhatTheyHold(t *testing.T) {
	p := newPool("counted", "any")
	create(t, p)
	claim := claimOf(p.Name, "counted-1", "", "")
	claim.UID = "counted-1"
	claim.Status.ProviderID = "aws:///us-east-1a/i-0000000000000001"
	claim.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3"), corev1.ResourceMemory: resource.MustParse("15Gi")}
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi")}
	r := &pool.Count{Client: cluster.Client, Class: awsv1.EC2NodeClassGroupKind, Mirror: mirrorOf(p, claim), Clock: clocktest.NewFakeClock(time.Now()), Log: slog.New(slog.DiscardHandler)}
	if _, err := r.Once(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Get(t.Context(), types.NamespacedName{Name: p.Name}, p); err != nil {
		t.Fatal(err)
	}
	want := map[corev1.ResourceName]string{"cpu": "4", "memory": "16Gi", "pods": "0", "ephemeral-storage": "0", "nodes": "1"}
	for name, quantity := range want {
		if got, ok := p.Status.Resources[name]; !ok || got.Cmp(resource.MustParse(quantity)) != 0 {
			t.Errorf("%s is %s, want %s", name, got.String(), quantity)
		}
	}
	if p.Status.Nodes == nil || *p.Status.Nodes != 1 {
		t.Errorf("nodes %v, want 1", p.Status.Nodes)
	}
	version := p.ResourceVersion
	if _, err := r.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Get(t.Context(), types.NamespacedName{Name: p.Name}, p); err != nil || p.ResourceVersion != version {
		t.Errorf("written again although nothing has changed: %v", err)
	}
}
