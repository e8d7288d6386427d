package local

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"karpenter/internal/cloud/simaws"
	"karpenter/internal/cloud/simaws/boot"
	"karpenter/internal/cloud/simaws/catalog"
)

func testInstance(t *testing.T, name string, edit func(*simaws.Instance)) *simaws.Instance {
	t.Helper()
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	m := &simaws.Instance{
		Type: name, Info: types.Type(name), Family: "AL2023", Arch: "x86_64", Region: "us-west-2", Zone: "us-west-2a",
		NodeName: "ip-10-0-0-1.us-west-2.compute.internal", PrivateIP: "10.0.0.1", ProviderID: "aws:///us-west-2a/i-1", VolumeGiB: 20,
	}
	if m.Info == nil {
		t.Fatalf("no type %s", name)
	}
	if edit != nil {
		edit(m)
	}
	return m
}

func TestRegistrationResources(t *testing.T) {
	for name, c := range map[string]struct {
		kind                  string
		edit                  func(*simaws.Instance)
		capacity, allocatable map[corev1.ResourceName]string
	}{
		"what the image reserves": {
			kind:        "m5.large", // 29 pods, so 11×29+255 MiB
			capacity:    map[corev1.ResourceName]string{"cpu": "2", "memory": "7969177Ki", "pods": "29", "ephemeral-storage": "20Gi"},
			allocatable: map[corev1.ResourceName]string{"cpu": "1930m", "memory": "7279001Ki", "pods": "29", "ephemeral-storage": "17Gi"},
		},
		"what the user data says": {
			kind: "m5.large",
			edit: func(m *simaws.Instance) {
				m.Node = boot.Node{
					MaxPods: 110, PodsPerCore: 10, KubeReserved: map[string]string{"cpu": "500m"}, SystemReserved: map[string]string{"cpu": "100m"},
					EvictionHard: map[string]string{"nodefs.available": "5Gi"},
				}
			},
			allocatable: map[corev1.ResourceName]string{"cpu": "1400m", "pods": "20", "ephemeral-storage": "14Gi"},
		},
		"local disks": {
			kind:     "m5d.large",
			edit:     func(m *simaws.Instance) { m.Node.LocalStorage = "raid0" },
			capacity: map[corev1.ResourceName]string{"ephemeral-storage": "75G"},
		},
		"devices": {
			kind:     "g4dn.12xlarge",
			capacity: map[corev1.ResourceName]string{"nvidia.com/gpu": "4"},
		},
		"Bottlerocket reserves for the pods that it takes": {
			kind:        "m5.large",
			edit:        func(m *simaws.Instance) { m.Family, m.Node.MaxPods = "Bottlerocket", 10 },
			allocatable: map[corev1.ResourceName]string{"memory": "7493017Ki"}, // 7969177 − (11×10+255+100)×1024
		},
		"more reserved than there is": {
			kind:        "t3.nano",
			edit:        func(m *simaws.Instance) { m.Node.SystemReserved = map[string]string{"memory": "2Gi"} },
			allocatable: map[corev1.ResourceName]string{"memory": "0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			node, err := registration(testInstance(t, c.kind, c.edit), kubeletFacts{version: "v1.37.1", port: 10250})
			if err != nil {
				t.Fatal(err)
			}
			for _, list := range []struct {
				what      string
				got       corev1.ResourceList
				wantNames map[corev1.ResourceName]string
			}{{"capacity", node.Status.Capacity, c.capacity}, {"allocatable", node.Status.Allocatable, c.allocatable}} {
				for name, want := range list.wantNames {
					if got := list.got[name]; got.Cmp(resource.MustParse(want)) != 0 {
						t.Errorf("%s of %s: %s, want %s", list.what, name, got.String(), want)
					}
				}
			}
		})
	}
}

func TestRegistrationRefusesNonsense(t *testing.T) {
	for name, edit := range map[string]func(*simaws.Instance){
		"reserved":  func(m *simaws.Instance) { m.Node.SystemReserved = map[string]string{"cpu": "lots"} },
		"threshold": func(m *simaws.Instance) { m.Node.EvictionHard = map[string]string{"memory.available": "lots%"} },
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := registration(testInstance(t, "m5.large", edit), kubeletFacts{}); err == nil {
				t.Error("it was accepted")
			}
		})
	}
}

func TestRegistrationOfOtherSystems(t *testing.T) {
	for _, c := range []struct{ kind, family, arch, wantOS, wantArch string }{
		{"m5.large", "Windows", "x86_64", "windows", "amd64"},
		{"m6g.large", "AL2023", "arm64", "linux", "arm64"},
	} {
		node, err := registration(testInstance(t, c.kind, func(m *simaws.Instance) { m.Family, m.Arch = c.family, c.arch }), kubeletFacts{})
		if err != nil {
			t.Fatal(err)
		}
		if os, arch := node.Labels[corev1.LabelOSStable], node.Labels[corev1.LabelArchStable]; os != c.wantOS || arch != c.wantArch {
			t.Errorf("%s of %s: %s/%s, want %s/%s", c.kind, c.family, os, arch, c.wantOS, c.wantArch)
		}
		if slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			t.Error("a node must not be ready before its kubelet says so")
		}
		for _, condition := range node.Status.Conditions {
			if condition.LastTransitionTime.IsZero() || condition.LastHeartbeatTime.IsZero() {
				t.Errorf("condition %s does not say since when it holds", condition.Type)
			}
		}
	}
}
