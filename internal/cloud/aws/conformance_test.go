package aws

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/cloud"
	"karpenter/cloud/cloudtest"
	"karpenter/internal/cloud/simaws"
)

func (w *testWorld) harness() cloudtest.Harness {
	spec := w.claim("x", onDemandOnly, typeIs("m5.large", "c5.large", "m5.xlarge")).Spec
	impossible := spec.DeepCopy()
	impossible.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100000")}
	return cloudtest.Harness{
		Class: "default", Spec: spec, Impossible: *impossible, Now: w.clock.Now, Advance: w.advance,
		Left: func(n int) {
			w.sim.ClearStock()
			if n >= 0 {
				w.must(w.sim.SetStock(simaws.StockRule{Type: "*", Zone: "*", CapacityType: "*"}))
				w.must(w.sim.SetStock(simaws.StockRule{Type: "m5.large", Zone: "us-west-2a", CapacityType: "on-demand", Count: n}))
			}
		},
		TagKeys: [2]string{"Name", awsv1.TagNodeClaim}, // others the shipped policies do not allow
		Change: func() {
			class := w.class("default").DeepCopy()
			for i := range class.Status.AMIs {
				class.Status.AMIs[i].ID += "0"
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.classes["default"] = class
		},
		Start: func() cloud.Provider {
			w.reborn()
			return w.Provider
		},
	}
}

func TestAWS_Conformance(t *testing.T) {
	t.Parallel()
	cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
		w := newWorld(t)
		w.load()
		return w.harness()
	})
}

// TestAWS_ConformanceUnderFaults runs the same suite while answers get lost after the effect, calls are throttled and new
// instances stay invisible for a while.
func TestAWS_ConformanceUnderFaults(t *testing.T) {
	t.Parallel()
	cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
		w := newWorld(t, func(s *simaws.Options, o *Options) { s.Timing.Consistency = 5 * time.Second })
		w.load()
		for _, f := range []simaws.Fault{
			{Kind: simaws.FaultDrop, Action: "ec2:CreateFleet", Percent: 30},
			{Kind: simaws.FaultDrop, Action: "ec2:TerminateInstances", Percent: 30},
			{Kind: simaws.FaultDrop, Action: "ec2:CreateLaunchTemplate", Percent: 30},
			{Kind: simaws.FaultError, Action: "ec2:*", Percent: 10, Code: "RequestLimitExceeded", Status: 503},
			{Kind: simaws.FaultError, Action: "ec2:*", Percent: 5, Code: "InternalError", Status: 500},
		} {
			w.must(w.sim.AddFault(f))
		}
		h := w.harness()
		h.Advance(time.Minute)
		return h
	})
}
