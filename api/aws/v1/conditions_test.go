package v1

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
)

func TestClassConditions(t *testing.T) {
	now := time.Date(2025, 6, 18, 8, 0, 0, 0, time.UTC)
	class := &EC2NodeClass{}
	set := class.StatusConditions(true)
	for _, conditionType := range []string{
		ConditionAMIsReady, ConditionSubnetsReady, ConditionSecurityGroupsReady, ConditionInstanceProfileReady,
		ConditionValidationSucceeded, ConditionPlacementGroupReady,
	} {
		if set.IsTrue(karpv1.ConditionReady) {
			t.Errorf("Ready before %s", conditionType)
		}
		set.SetTrue(conditionType, now)
	}
	if got := set.Root(); got.Status != metav1.ConditionUnknown || got.Message != "CapacityReservationsReady=Unknown" {
		t.Errorf("%+v", got)
	}
	set.SetTrue(ConditionCapacityReservationsReady, now)
	if !set.IsTrue(karpv1.ConditionReady) {
		t.Errorf("%+v", set.Root())
	}
	set.SetFalse(ConditionSubnetsReady, ReasonSubnetsNotFound, "", now)
	if got := set.Root(); got.Status != metav1.ConditionFalse || got.Reason != karpv1.ReasonUnhealthyDependents {
		t.Errorf("%+v", got)
	}
}

func TestClassConditions_WithoutReservedCapacity(t *testing.T) {
	class := &EC2NodeClass{}
	if class.StatusConditions(false).Get(ConditionCapacityReservationsReady) != nil {
		t.Error("nobody judges reservations, so Ready must not wait for it")
	}
}
