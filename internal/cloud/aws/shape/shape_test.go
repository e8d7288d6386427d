package shape

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/internal/engine/world"
)

func ptr[T any](v T) *T { return &v }

func m5large() *Type {
	return &Type{
		Name: "m5.large", Arch: AMD64, Hypervisor: "nitro", Manufacturer: "Intel", VCPUs: 2, MemoryMiB: 8192, IPv4PerENI: 10, ENA: true,
		Cards: []Card{{Index: 0, MaxENIs: 3}}, UsageClasses: []string{"on-demand", "spot"},
	}
}

func settings(family string) *Settings { return &Settings{Family: family, MemoryOverhead: 0.075} }

func TestAWS_1_8_KubeReserved(t *testing.T) {
	for cores, want := range map[int64]int64{1: 60, 2: 70, 3: 75, 4: 80, 8: 90, 16: 110, 96: 310, 192: 550} {
		if got := kubeletCPU(cores); got != want {
			t.Errorf("%d cores: got %dm, want %dm", cores, got, want)
		}
	}
}

func TestAWS_1_8_Pods(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*Settings)
		want int64
	}{
		{"by addresses", func(*Settings) {}, 29},
		{"one interface kept", func(s *Settings) { s.ReservedENIs = 1 }, 20},
		{"all interfaces kept", func(s *Settings) { s.ReservedENIs = 3 }, 0},
		{"more kept than there are", func(s *Settings) { s.ReservedENIs = 9 }, 0},
		{"maxPods", func(s *Settings) { s.Kubelet = &awsv1.KubeletConfiguration{MaxPods: ptr(int32(110))} }, 110},
		{"podsPerCore", func(s *Settings) { s.Kubelet = &awsv1.KubeletConfiguration{PodsPerCore: ptr(int32(4))} }, 8},
		{"podsPerCore 0 is none", func(s *Settings) { s.Kubelet = &awsv1.KubeletConfiguration{PodsPerCore: ptr(int32(0))} }, 29},
		{"podsPerCore on Bottlerocket", func(s *Settings) {
			s.Family, s.Kubelet = awsv1.AMIFamilyBottlerocket, &awsv1.KubeletConfiguration{PodsPerCore: ptr(int32(4))}
		}, 29},
		{"Windows", func(s *Settings) { s.Family = awsv1.AMIFamilyWindows2022 }, 110},
		{"an EFA device on the first card", func(s *Settings) {
			s.Interfaces = []*awsv1.NetworkInterface{{InterfaceType: "interface"}, {DeviceIndex: 1, InterfaceType: "efa-only"}}
		}, 20},
	} {
		s := settings(awsv1.AMIFamilyAL2023)
		tt.edit(s)
		if got := Pods(m5large(), s); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestAWS_1_8_Memory(t *testing.T) {
	arm := m5large()
	arm.Arch = ARM64
	s := settings(awsv1.AMIFamilyAL2023)
	if got := memory(m5large(), s) / mib; got != 7577 {
		t.Errorf("amd64: got %d MiB, want 7577", got)
	}
	if got := memory(arm, s) / mib; got != 7518 {
		t.Errorf("arm64: got %d MiB, want 7518", got)
	}
	s.Learned = map[string]int64{"m5.large": 123 * mib}
	if got := memory(m5large(), s); got != 123*mib {
		t.Errorf("learned: got %d", got)
	}
}

func TestAWS_1_8_Storage(t *testing.T) {
	disk := func(name, size string, root bool) *awsv1.BlockDeviceMapping {
		return &awsv1.BlockDeviceMapping{DeviceName: ptr(name), RootVolume: root, EBS: &awsv1.BlockDevice{VolumeSize: ptr(resource.MustParse(size))}}
	}
	for _, tt := range []struct {
		name, family string
		disks        []*awsv1.BlockDeviceMapping
		raid         bool
		want         int64
	}{
		{"default", awsv1.AMIFamilyAL2023, nil, false, 20 * gib},
		{"Windows", awsv1.AMIFamilyWindows2019, nil, false, 50 * gib},
		{"the family's device", awsv1.AMIFamilyBottlerocket, []*awsv1.BlockDeviceMapping{disk("/dev/xvda", "8Gi", false), disk("/dev/xvdb", "100Gi", false)}, false, 100 * gib},
		{"another device", awsv1.AMIFamilyAL2023, []*awsv1.BlockDeviceMapping{disk("/dev/xvdz", "100Gi", false)}, false, 20 * gib},
		{"the root volume", awsv1.AMIFamilyAL2023, []*awsv1.BlockDeviceMapping{disk("/dev/xvda", "8Gi", false), disk("/dev/xvdz", "30Gi", true)}, false, 30 * gib},
		{"Custom: the last", awsv1.AMIFamilyCustom, []*awsv1.BlockDeviceMapping{disk("/dev/a", "8Gi", false), disk("/dev/b", "9Gi", false)}, false, 9 * gib},
		{"RAID0", awsv1.AMIFamilyAL2023, nil, true, 75e9},
	} {
		m := m5large()
		m.DiskGB = 75
		s := settings(tt.family)
		s.Disks, s.RAID0 = tt.disks, tt.raid
		if got := storage(m, s); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestAWS_1_8_Overhead(t *testing.T) {
	for _, tt := range []struct {
		name    string
		family  string
		kubelet awsv1.KubeletConfiguration
		want    string // cpu in millicores, memory in MiB, storage in GiB
	}{
		{"defaults", awsv1.AMIFamilyAL2023, awsv1.KubeletConfiguration{}, "1930 6903 17"},
		{"Bottlerocket counts the pods that it has", awsv1.AMIFamilyBottlerocket, awsv1.KubeletConfiguration{MaxPods: ptr(int32(10))}, "1930 7112 17"},
		{"AL2023 counts by addresses whatever maxPods says", awsv1.AMIFamilyAL2023, awsv1.KubeletConfiguration{MaxPods: ptr(int32(10))}, "1930 6903 17"},
		{"kubeReserved by key", awsv1.AMIFamilyAL2023, awsv1.KubeletConfiguration{KubeReserved: map[string]string{"cpu": "500m"}}, "1500 6903 17"},
		{"systemReserved", awsv1.AMIFamilyAL2023, awsv1.KubeletConfiguration{SystemReserved: map[string]string{"cpu": "30m", "memory": "3Mi", "ephemeral-storage": "1Gi", "pid": "100"}}, "1900 6900 16"},
		{"evictionHard", awsv1.AMIFamilyAL2023, awsv1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "500Mi", "nodefs.available": "50%"}}, "1930 6503 9"},
		{"evictionHard in full turns it off", awsv1.AMIFamilyAL2023, awsv1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "100%"}}, "1930 7003 17"},
		{"evictionSoft does not count", awsv1.AMIFamilyAL2023, awsv1.KubeletConfiguration{EvictionSoft: map[string]string{"memory.available": "1Gi"}}, "1930 6903 17"},
		{"more than there is", awsv1.AMIFamilyAL2023, awsv1.KubeletConfiguration{SystemReserved: map[string]string{"memory": "1Ti"}}, "1930 0 17"},
	} {
		s := settings(tt.family)
		s.Kubelet = &tt.kubelet
		r := Allocatable(m5large(), s, Capacity(m5large(), s))
		if got := fmt.Sprint(r[world.CPU], r[world.Memory]/mib, r[world.Storage]/gib); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestAWS_1_4_Category(t *testing.T) {
	for name, want := range map[string]string{
		"m5.large": "m 5", "u-6tb1.metal": "u 1", "u7i-12tb.224xlarge": "u 7", "p6-b300.48xlarge": "p 6", "m7i-flex.large": "m 7",
		"trn1.2xlarge": "trn 1", "im4gn.large": "im 4", "is4gen.medium": "is 4", "hpc7a.96xlarge": "hpc 7",
	} {
		m := m5large()
		m.Name = name
		l := Labels(m, awsv1.AMIFamilyAL2023, "us-east-1")
		c, _ := l.Get(awsv1.LabelInstanceCategory)
		g, _ := l.Get(awsv1.LabelInstanceGeneration)
		if got := c + " " + g; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestAWS_1_9_Incompatible(t *testing.T) {
	metal := m5large()
	metal.BareMetal, metal.Hypervisor = true, ""
	a1, arm := m5large(), m5large()
	a1.Name, arm.Arch = "a1.large", ARM64
	for _, tt := range []struct {
		name string
		m    *Type
		s    Settings
		fits bool
	}{
		{"plain", m5large(), Settings{Family: awsv1.AMIFamilyAL2023}, true},
		{"a1 with AL2023", a1, Settings{Family: awsv1.AMIFamilyAL2023}, false},
		{"a1 with Bottlerocket", a1, Settings{Family: awsv1.AMIFamilyBottlerocket}, true},
		{"Windows on arm64", arm, Settings{Family: awsv1.AMIFamilyWindows2022}, false},
		{"nested virtualization", m5large(), Settings{NestedVirtualization: true}, false},
		{"placement", m5large(), Settings{Placement: "cluster"}, false},
		{"11.9 connection tracking on bare metal of Nitro", metal, Settings{ConnectionTracking: true}, true},
		{"a card that is not there", m5large(), Settings{Interfaces: []*awsv1.NetworkInterface{{NetworkCardIndex: 1, InterfaceType: "interface"}}}, false},
		{"a device too many", m5large(), Settings{Interfaces: []*awsv1.NetworkInterface{{DeviceIndex: 3, InterfaceType: "interface"}}}, false},
		{"EFA where there is none", m5large(), Settings{Interfaces: []*awsv1.NetworkInterface{{DeviceIndex: 1, InterfaceType: "efa-only"}}}, false},
	} {
		if why := Incompatible(tt.m, &tt.s); (why == "") != tt.fits {
			t.Errorf("%s: got %q", tt.name, why)
		}
	}
}

// TestAllocatable_NeverMoreThanCapacity holds for whatever EC2 and users say.
func TestAllocatable_NeverMoreThanCapacity(t *testing.T) {
	families := []string{awsv1.AMIFamilyAL2, awsv1.AMIFamilyAL2023, awsv1.AMIFamilyBottlerocket, awsv1.AMIFamilyWindows2022, awsv1.AMIFamilyCustom}
	rapid.Check(t, func(t *rapid.T) {
		m := m5large()
		m.VCPUs, m.MemoryMiB = rapid.Int64Range(0, 1000).Draw(t, "cpu"), rapid.Int64Range(0, 1<<25).Draw(t, "memory")
		m.IPv4PerENI, m.MaxEFAs = rapid.Int64Range(0, 100).Draw(t, "addresses"), rapid.Int64Range(0, 32).Draw(t, "efas")
		s := settings(rapid.SampledFrom(families).Draw(t, "family"))
		s.MemoryOverhead, s.ReservedENIs = rapid.Float64Range(0, 2).Draw(t, "overhead"), rapid.Int64Range(0, 5).Draw(t, "reserved")
		s.Kubelet = &awsv1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": rapid.SampledFrom([]string{"5%", "100%", "1Gi", "x"}).Draw(t, "eviction")}}
		capacity := Capacity(m, s)
		for i, v := range Allocatable(m, s, capacity) {
			if v < 0 || v > max(capacity[i], 0) {
				t.Errorf("%s: %d of %d", Resources[i], v, capacity[i])
			}
		}
	})
}
