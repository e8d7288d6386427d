package aws

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	scaling "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	awsv1 "karpenter/api/aws/v1"
)

func TestNodeGroup_ManagedImages(t *testing.T) {
	for kind, want := range map[string]string{
		"AL2_x86_64":                 "al2@latest amd64 0",
		"AL2_x86_64_GPU":             "al2@latest amd64 0",
		"AL2_ARM_64":                 "al2@latest arm64 0",
		"AL2023_x86_64_STANDARD":     "al2023@latest amd64 0",
		"AL2023_ARM_64_NVIDIA":       "al2023@latest arm64 0",
		"BOTTLEROCKET_ARM_64":        "bottlerocket@latest arm64 0",
		"BOTTLEROCKET_x86_64_NVIDIA": "bottlerocket@latest amd64 0",
		"BOTTLEROCKET_x86_64_FIPS":   "bottlerocket@latest amd64 1",
		"WINDOWS_CORE_2022_x86_64":   "windows2022@latest amd64 0",
		"WINDOWS_FULL_2019_x86_64":   "windows2019@latest amd64 1",
	} {
		g := &NodeGroup{}
		g.useFamily(kind)
		if got := g.Class.AMISelectorTerms[0].Alias + " " + g.Arch + " " + string(rune('0'+len(g.Left))); got != want {
			t.Errorf("%s: got %s, want %s", kind, got, want)
		}
	}
}

func TestNodeGroup_ImageNames(t *testing.T) {
	for name, want := range map[string]string{
		"amazon-eks-node-al2023-x86_64-standard-1.34-v20250920":                                         "al2023",
		"amazon-eks-node-1.31-v20250704":                                                                "al2",
		"amazon-eks-gpu-node-1.31-v20250704":                                                            "al2",
		"bottlerocket-aws-k8s-1.34-x86_64-v1.50.0-c0ffee":                                               "bottlerocket",
		"Windows_Server-2022-English-Core-EKS_Optimized-1.34-2025.10.11":                                "windows2022",
		"resolve:ssm:/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended": "al2023",
		"our-own-image": "",
	} {
		if got := aliasOfImage(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestNodeGroup_Distribution(t *testing.T) {
	for _, c := range []struct {
		base, share int32
		want        string
		left        int
	}{
		{0, 100, "on-demand", 0},
		{2, 100, "on-demand", 0},
		{0, 0, "spot", 0},
		{2, 0, "spot on-demand", 1},
		{0, 30, "spot on-demand", 1},
	} {
		g := &NodeGroup{CapacityTypes: []string{"on-demand"}}
		g.useDistribution(&scaling.InstancesDistribution{OnDemandBaseCapacity: aws.Int32(c.base), OnDemandPercentageAboveBaseCapacity: aws.Int32(c.share)})
		if got := strings.Join(g.CapacityTypes, " "); got != c.want || len(g.Left) != c.left {
			t.Errorf("%d and %d %%: got %s, left %v, want %s", c.base, c.share, got, g.Left, c.want)
		}
	}
}

func TestNodeGroup_Tags(t *testing.T) {
	g := &NodeGroup{}
	on := func(key, value string) scaling.TagDescription {
		return scaling.TagDescription{Key: aws.String(key), Value: aws.String(value), PropagateAtLaunch: aws.Bool(true)}
	}
	g.useTags([]scaling.TagDescription{
		on("team", "payments"), on("Name", "node"), on("kubernetes.io/cluster/c", "owned"), on("k8s.io/cluster-autoscaler/enabled", "true"), on("eks:cluster-name", "c"),
		on("k8s.io/cluster-autoscaler/node-template/label/tier", "web"), on("k8s.io/cluster-autoscaler/node-template/taint/tier", "web:NoSchedule"),
		{Key: aws.String("quiet"), Value: aws.String("x")},
	})
	if diff := cmp.Diff(map[string]string{"team": "payments"}, g.Class.Tags); diff != "" {
		t.Errorf("tags:\n%s", diff)
	}
	if g.Labels["tier"] != "web" || len(g.Taints) != 1 || g.Taints[0].Value != "web" || g.Taints[0].Effect != "NoSchedule" || g.Tags["quiet"] != "x" {
		t.Errorf("labels %v, taints %v, tags %v", g.Labels, g.Taints, g.Tags)
	}
}

// disksOf are the disks of a group's class.
func disksOf(g *NodeGroup) string {
	var out []string
	for _, d := range g.Class.BlockDeviceMappings {
		out = append(out, aws.ToString(d.DeviceName)+" "+d.EBS.VolumeSize.String())
	}
	return strings.Join(out, ", ")
}

// The size of a managed group's disk is that of the disk that holds images and pods, which every image family has elsewhere.
func TestNodeGroup_Disk(t *testing.T) {
	for alias, want := range map[string]string{
		"al2023@latest": "/dev/xvda 80Gi", "al2@latest": "/dev/xvda 80Gi", "bottlerocket@latest": "/dev/xvda 4Gi, /dev/xvdb 80Gi",
		"windows2022@latest": "/dev/sda1 80Gi", "windows2019@latest": "/dev/sda1 80Gi", "windows2025@latest": "/dev/sda1 80Gi", "": "/dev/xvda 80Gi",
	} {
		g := &NodeGroup{}
		if alias != "" {
			g.Class.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: alias}}
		}
		g.useDisk(80)
		if got := disksOf(g); got != want {
			t.Errorf("%s: %s, want %s", alias, got, want)
		}
	}
	for image, want := range map[ekstypes.AMITypes]string{
		ekstypes.AMITypesAl2023X8664Standard: "/dev/xvda 80Gi", ekstypes.AMITypesBottlerocketArm64: "/dev/xvda 4Gi, /dev/xvdb 80Gi", ekstypes.AMITypesWindowsCore2022X8664: "/dev/sda1 80Gi",
	} {
		g := &NodeGroup{}
		if err := (&groupReader{}).readManaged(t.Context(), g, &ekstypes.Nodegroup{AmiType: image, DiskSize: aws.Int32(80)}); err != nil {
			t.Fatal(err)
		}
		if got := disksOf(g); got != want {
			t.Errorf("a managed group of %s: %s, want %s", image, got, want)
		}
	}
}
