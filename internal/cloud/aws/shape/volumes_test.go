package shape

import (
	"testing"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/internal/engine/world"
)

// The figures that EC2 gives leave out the first network interface, local disks and accelerators of types that share the limit with
// them: c5.large has 27 of 28, c5d.large 26, g4dn.xlarge 25.
func TestN2_VolumesOfANewNode(t *testing.T) {
	disk := &awsv1.BlockDeviceMapping{EBS: &awsv1.BlockDevice{}}
	interfaces := func(n int) []*awsv1.NetworkInterface { return make([]*awsv1.NetworkInterface, n) }
	for _, c := range []struct {
		name     string
		is       Type
		settings Settings
		want     int64
	}{
		{"less the root volume", Type{EBSAttachments: 27, EBSShared: true}, Settings{Family: awsv1.AMIFamilyAL2023}, 26},
		{"a family with two volumes", Type{EBSAttachments: 27, EBSShared: true}, Settings{Family: awsv1.AMIFamilyBottlerocket}, 25},
		{"volumes of the class", Type{EBSAttachments: 32}, Settings{Family: awsv1.AMIFamilyAL2023, Disks: []*awsv1.BlockDeviceMapping{disk, disk, disk}}, 29},
		{"more interfaces share the limit", Type{EBSAttachments: 27, EBSShared: true}, Settings{Family: awsv1.AMIFamilyAL2023, Interfaces: interfaces(4)}, 23},
		{"or have one of their own", Type{EBSAttachments: 32}, Settings{Family: awsv1.AMIFamilyAL2023, Interfaces: interfaces(4)}, 31},
		{"nothing is left", Type{EBSAttachments: 3, EBSShared: true}, Settings{Family: awsv1.AMIFamilyAL2023, Disks: []*awsv1.BlockDeviceMapping{disk, disk, disk, disk}}, world.NoAttachments},
		{"EC2 does not say", Type{}, Settings{Family: awsv1.AMIFamilyAL2023}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := range c.settings.Interfaces {
				c.settings.Interfaces[i] = &awsv1.NetworkInterface{}
			}
			capacity := Capacity(&c.is, &c.settings)
			if got := capacity[ebsVolumes]; got != c.want {
				t.Errorf("capacity: %d volumes, want %d", got, c.want)
			}
			if got := Allocatable(&c.is, &c.settings, capacity)[ebsVolumes]; got != c.want {
				t.Errorf("allocatable: %d volumes, want %d", got, c.want)
			}
		})
	}
}
