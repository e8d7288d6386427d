package main

import (
	"karpenter/cloud"
	"karpenter/cloud/cloudtest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "karpenter/api/karpenter/v1"
)

func TestConformance(t *testing.T) {
	cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
		now, room := time.Unix(1_000_000, 0), 100
		class := &RackNodeClass{}
		class.Name, class.Spec.Image = "default", "one"
		rack := &Rack{Dir: t.TempDir(), Room: func() int { return room }}
		spec := karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: groupVersion.Group, Kind: "RackNodeClass", Name: "default"},
			Resources:    karpv1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}
		impossible := spec.DeepCopy()
		impossible.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1000")
		return cloudtest.Harness{
			Start: func() cloud.Provider {
				return &Provider{
					Rack: rack, Now: func() time.Time { return now }, Fence: func() error { return nil },
					Class: func(name string) *RackNodeClass {
						if name != class.Name {
							return nil
						}
						return class
					},
				}
			},
			Class: "default", Spec: spec, Impossible: *impossible,
			Now: func() time.Time { return now }, Advance: func(d time.Duration) { now = now.Add(d) },
			Left: func(n int) {
				all, err := rack.List()
				if err != nil {
					t.Fatal(err)
				}
				if room = len(all) + n; n < 0 {
					room = 100
				}
			},
			Change: func() {
				class = class.DeepCopyObject().(*RackNodeClass)
				class.Spec.Image = "two"
			},
			Cannot: map[cloudtest.Ability]string{
				cloudtest.Reboots: "a rack has no such button",
				cloudtest.Tags:    "what is written on a server stays as it was at its start",
			},
		}
	})
}
