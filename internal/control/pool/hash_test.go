package pool_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/aws"
	"karpenter/internal/control/pool"
)

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		if err := cluster.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

func claimOf(pool, name, hash, version string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: pool},
			Annotations: map[string]string{karpv1.NodePoolHashAnnotationKey: hash, karpv1.NodePoolHashVersionAnnotationKey: version},
		},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: "any"},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{}, ExpireAfter: karpv1.NeverDuration(),
		},
	}
}

// A61: a new way of hashing drifts nobody, and undrifts nobody.
func TestA61_ClaimsAreRestampedWhenTheHashVersionChanges(t *testing.T) {
	p := newPool("restamped", "any")
	p.Annotations = map[string]string{karpv1.NodePoolHashAnnotationKey: "1", karpv1.NodePoolHashVersionAnnotationKey: "v2"}
	calm, drifted := claimOf(p.Name, "calm", "1", "v2"), claimOf(p.Name, "drifted", "0", "v2")
	create(t, p, calm, drifted)
	drifted.Status.Conditions = []karpv1.Condition{{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "NodePoolDrifted", LastTransitionTime: metav1.Now()}}
	if err := cluster.Client.Status().Update(t.Context(), drifted); err != nil {
		t.Fatal(err)
	}
	r := &pool.Hash{Client: cluster.Client, Class: awsv1.EC2NodeClassGroupKind}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: p.Name}}); err != nil {
		t.Fatal(err)
	}
	want := map[client.Object]string{p: p.Hash(), calm: p.Hash(), drifted: "0"}
	for obj, hash := range want {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			t.Fatal(err)
		}
		if a := obj.GetAnnotations(); a[karpv1.NodePoolHashAnnotationKey] != hash || a[karpv1.NodePoolHashVersionAnnotationKey] != karpv1.NodePoolHashVersion {
			t.Errorf("%s: annotations %v, want hash %s", obj.GetName(), a, hash)
		}
	}
}

// L20: pools of another provider are none of our business.
func TestL20_ForeignPoolsAreLeftAlone(t *testing.T) {
	p := newPool("foreign", "any")
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.example.com", Kind: "OtherNodeClass", Name: "any"}
	create(t, p)
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: p.Name}}
	version := p.ResourceVersion
	for _, r := range []reconcile.Reconciler{&pool.Hash{Client: cluster.Client, Class: awsv1.EC2NodeClassGroupKind}, &pool.Ready{Client: cluster.Client, Kind: aws.Kind()}} {
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.Client.Get(t.Context(), request.NamespacedName, p); err != nil {
		t.Fatal(err)
	}
	if p.ResourceVersion != version {
		t.Errorf("the pool was written: annotations %v, conditions %v", p.Annotations, p.Status.Conditions)
	}
}
