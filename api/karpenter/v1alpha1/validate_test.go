package v1alpha1

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
)

func TestA42_A43_A44_A45_Validate(t *testing.T) {
	in := func(key string, op corev1.NodeSelectorOperator, values ...string) []Requirement {
		return []Requirement{{Key: key, Operator: op, Values: values}}
	}
	capacity := func(name corev1.ResourceName, amount string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(amount)}
	}
	for _, c := range []struct {
		name string
		spec NodeOverlaySpec
		want string // part of the message; empty if there is nothing wrong
	}{
		{"nothing", NodeOverlaySpec{}, ""},
		{"a price", NodeOverlaySpec{Price: new("1.25")}, ""},
		{"a price of nothing", NodeOverlaySpec{Price: new("0")}, ""},
		{"a price below zero", NodeOverlaySpec{Price: new("-1")}, `spec.price: Invalid value: "-1": must be dollars an hour without a sign, for example "1.25"`},
		{"a price that is no number", NodeOverlaySpec{Price: new("1e400")}, "spec.price: Invalid value"},
		{"both", NodeOverlaySpec{Price: new("1"), PriceAdjustment: new("+1")}, "spec.priceAdjustment: Forbidden: cannot be used together with spec.price; remove one of the two"},
		{"a share", NodeOverlaySpec{PriceAdjustment: new("-15.5%")}, ""},
		{"all of it", NodeOverlaySpec{PriceAdjustment: new("-100%")}, ""},
		{"more than all of it", NodeOverlaySpec{PriceAdjustment: new("-101%")}, "spec.priceAdjustment: Invalid value"},
		{"no sign", NodeOverlaySpec{PriceAdjustment: new("10%")}, "must be a change with its sign"},
		{"a device", NodeOverlaySpec{Capacity: capacity("example.com/fuse", "2")}, ""},
		{"huge pages", NodeOverlaySpec{Capacity: capacity("hugepages-2Mi", "4Gi")}, ""},
		{"a GPU", NodeOverlaySpec{Capacity: capacity("nvidia.com/gpu", "1")}, ""},
		{"cpu", NodeOverlaySpec{Capacity: capacity("cpu", "4")}, "spec.capacity[cpu]: Forbidden: comes with the instance type"},
		{"pods", NodeOverlaySpec{Capacity: capacity("pods", "4")}, "spec.capacity[pods]: Forbidden"},
		{"volumes", NodeOverlaySpec{Capacity: capacity("attachable-volumes-csi-ebs.csi.aws.com", "4")}, "said by the CSI driver"},
		{"less than nothing", NodeOverlaySpec{Capacity: capacity("example.com/fuse", "-1")}, "must be a whole number of 0 or more"},
		{"half", NodeOverlaySpec{Capacity: capacity("example.com/fuse", "500m")}, `spec.capacity[example.com/fuse]: Invalid value: "500m": must be a whole number`},
		{"no name", NodeOverlaySpec{Capacity: capacity("example.com/", "1")}, "spec.capacity[example.com/]: Invalid value"},
		{"a pool", NodeOverlaySpec{Requirements: in(karpv1.NodePoolLabelKey, "In", "general")}, ""},
		{"NotIn without values", NodeOverlaySpec{Requirements: in("team", "NotIn")}, "spec.requirements[0].values: Required value: operator NotIn needs at least one"},
		{"a host", NodeOverlaySpec{Requirements: in(corev1.LabelHostname, "In", "x")}, "spec.requirements[0].key"},
		{"a contradiction", NodeOverlaySpec{Requirements: append(in("team", "In", "a"), in("team", "In", "b")...)}, "spec.requirements[1]"},
	} {
		problems := (&NodeOverlay{Spec: c.spec}).Validate(karpv1.CoreLabelRules())
		if got := problems.ToAggregate(); (got == nil) != (c.want == "") || got != nil && !strings.Contains(got.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		}
	}
}

func TestA47_ReadyIsValidationSucceeded(t *testing.T) {
	o := &NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "o", Generation: 3}}
	set, now := o.StatusConditions(), time.Unix(1, 0)
	if root := set.Root(); root.Status != metav1.ConditionUnknown {
		t.Errorf("before anything is known: %+v", root)
	}
	set.SetFalse(karpv1.ConditionValidationSucceeded, ReasonConflict, "no", now)
	if root := set.Root(); root.Status != metav1.ConditionFalse {
		t.Errorf("in conflict: %+v", root)
	}
	set.SetTrue(karpv1.ConditionValidationSucceeded, now)
	if root := set.Root(); root.Status != metav1.ConditionTrue || root.ObservedGeneration != 3 {
		t.Errorf("in the end: %+v", root)
	}
}
