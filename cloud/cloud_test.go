package cloud

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
)

func claim(name string, zones ...string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}},
		Spec: karpv1.NodeClaimSpec{Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones},
		}},
	}
}

func TestC13_ClassOf(t *testing.T) {
	throttled := &Error{Class: Throttled, Reason: "RequestLimitExceeded", Op: "launch"}
	for _, tt := range []struct {
		name string
		err  error
		want Class
	}{
		{"nil has none", nil, ""},
		{"plain", throttled, Throttled},
		{"wrapped", fmt.Errorf("batch b: %w", throttled), Throttled},
		{"a deadline leaves the effect unknown", context.DeadlineExceeded, Unknown},
		{"so does an error that nobody classified", errors.New("odd"), Unknown},
	} {
		if got := ClassOf(tt.err); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestL4_EveryClassHasAResponse(t *testing.T) {
	for _, class := range []Class{Throttled, NoCapacity, NotReady, Denied, Invalid, NotFound, Transient, InProgress, Unknown} {
		r, ok := responses[class]
		if !ok || r.GiveUp == (r.First > 0) || r.First > r.Most {
			t.Errorf("%s: response %+v", class, r)
		}
	}
}

func TestR1_Token(t *testing.T) {
	base := Token("a", "b", 0)
	if base != Token("a", "b", 0) || base == Token("a", "c", 0) || base == Token("x", "b", 0) || base == Token("a", "b", 1) {
		t.Error("tokens must follow from cluster, batch and attempt")
	}
	if len(base) > 64 {
		t.Errorf("token has %d characters, EC2 takes 64", len(base))
	}
}

func TestR1_DividePutsEqualClaimsTogether(t *testing.T) {
	var claims []*karpv1.NodeClaim
	for i := range 1000 {
		claims = append(claims, claim(fmt.Sprint("web-", i), "a", "b"))
		claims[i].Annotations = map[string]string{karpv1.PlannedPodsAnnotationKey: fmt.Sprint(i)} // no two are for the same pods
	}
	claims = append(claims, claim("other", "c"))
	ids := Divide("plan-1", claims)
	size := map[string]int{}
	for _, id := range ids {
		size[id]++
	}
	if len(size) != 1000/MaxBatch+1 || size[ids[1000]] != 1 {
		t.Errorf("got %d batches, the odd one with %d claims", len(size), size[ids[1000]])
	}
	for id, n := range size {
		if n > MaxBatch {
			t.Errorf("batch %s has %d claims", id, n)
		}
	}
	if Divide("plan-2", claims)[0] == ids[0] {
		t.Error("another plan must have other batches")
	}
}

func TestR3_CheckRefusesClaimsThatDiffer(t *testing.T) {
	a, b := claim("a", "a"), claim("b", "b")
	a.Annotations = map[string]string{BatchAnnotationKey: "x"}
	b.Annotations = map[string]string{BatchAnnotationKey: "x"}
	if err := (Batch{ID: "x", Claims: []*karpv1.NodeClaim{a, b}}).Check(); err == nil {
		t.Error("claims for different zones are not interchangeable")
	}
	if err := (Batch{ID: "y", Claims: []*karpv1.NodeClaim{a}}).Check(); err == nil {
		t.Error("a claim of another batch must be refused")
	}
	if err := (Batch{ID: "x", Claims: []*karpv1.NodeClaim{a}}).Check(); err != nil {
		t.Error(err)
	}
	lone := claim("lone", "a")
	if err := (Batch{ID: BatchID(lone), Claims: []*karpv1.NodeClaim{lone}}).Check(); err != nil {
		t.Error(err)
	}
}
