package class_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clocktest "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/aws"
	"karpenter/internal/cloud/aws/class"
	"karpenter/internal/control"
)

// A broken instance whose NodeClaim cannot be deleted holds up no other one, is paid for once, and once it is well again keeps no deadline
// by which a later deletion would kill its pods.
func TestS5_AClaimThatIsNotDeletedAfterAllKeepsNoDeadline(t *testing.T) {
	var claims []*karpv1.NodeClaim
	for i := range 11 { // of which two may be replaced
		claims = append(claims, launched(t, fmt.Sprintf("ailing-%02d", i), fmt.Sprintf("i-00000000000003%02d", i)))
	}
	sick := func(numbers ...int) (out clinic) {
		for _, i := range numbers {
			out = append(out, cloud.Ailment{Instance: fmt.Sprintf("i-00000000000003%02d", i), Kind: cloud.SystemStatus, Since: time.Unix(0, 0)})
		}
		return out
	}
	tries := 0
	stubborn := interceptor.NewClient(cluster.Client, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
		if obj.GetName() == claims[0].Name {
			tries++
			return errors.New("not today")
		}
		return c.Delete(ctx, obj, opts...)
	}})
	fake := clocktest.NewFakeClock(time.Unix(10_000, 0))
	r := &class.Ailing{Client: stubborn, Clinic: sick(0, 1), InstanceID: aws.ParseProviderID, Quota: control.NewQuota(fake.Now), Clock: fake, Log: quiet}
	for range 2 {
		if _, err := r.Check(t.Context()); err == nil {
			t.Error("nobody is told that a claim cannot be deleted")
		}
		fake.Step(time.Minute)
	}
	if leaving(t, claims[0]) || !leaving(t, claims[1]) || tries != 2 {
		t.Errorf("the other one goes: %v; %d tries", leaving(t, claims[1]), tries)
	}
	if claims[0].Annotations[karpv1.TerminationTimestampAnnotationKey] == "" {
		t.Error("no deadline was written before the deletion")
	}
	r = &class.Ailing{Client: stubborn, Clinic: sick(), InstanceID: aws.ParseProviderID, Quota: r.Quota, Clock: fake, Log: quiet} // a new process
	if _, err := r.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true} {
		leaving(t, claims[i])
		if _, has := claims[i].Annotations[karpv1.TerminationTimestampAnnotationKey]; has != want {
			t.Errorf("%s: a deadline: %v, want %v", claims[i].Name, has, want)
		}
	}
}
