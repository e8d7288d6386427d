package simcloud

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
)

func TestC1_ALaunchInTheSimulator(t *testing.T) {
	fake := clocktesting.NewFakeClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	w := Start(t, Options{Clock: fake, NoBoot: true})
	claim := NewClaim("a")
	claim.UID, claim.CreationTimestamp = "uid-a", metav1.NewTime(fake.Now())
	before := w.Called("CreateFleet") // trials of the class
	r := w.Provider.Launch(t.Context(), cloud.Batch{ID: "uid-a", Claims: []*karpv1.NodeClaim{claim}})[0]
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	fake.Step(time.Second)
	if in := w.Living(); len(in) != 1 || in[0].ID != r.Instance.ID || in[0].State != cloud.Running || w.Called("CreateFleet") != before+1 {
		t.Errorf("living: %+v, %d fleets", in, w.Called("CreateFleet")-before)
	}
	w.Restart()
	if in := w.Living(); len(in) != 1 {
		t.Errorf("after a restart: %+v", in)
	}
}
