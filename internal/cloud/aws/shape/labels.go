package shape

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/internal/engine/world"
)

// category splits names such as m7i-flex, u-6tb1 and p6-b300 into letters and generation. The part with tb is the size of the
// memory of the older u instances.
var category = regexp.MustCompile(`^([a-z]+)(?:-[0-9]+tb)?([0-9]+)`)

// Labels returns the labels that every node of the type carries, in the region and with the family's operating system.
func Labels(m *Type, family, region string) world.Labels {
	familyName, size, _ := strings.Cut(m.Name, ".")
	labels := map[string]string{
		corev1.LabelInstanceTypeStable:         m.Name,
		corev1.LabelArchStable:                 m.Arch,
		corev1.LabelOSStable:                   OS(family),
		awsv1.LabelInstanceFamily:              familyName,
		awsv1.LabelInstanceSize:                size,
		awsv1.LabelInstanceCPU:                 number(m.VCPUs),
		awsv1.LabelInstanceCPUManufacturer:     kebab(m.Manufacturer),
		awsv1.LabelInstanceCPUClockSpeedMHz:    number(int64(math.Round(m.ClockGHz * 1000))),
		awsv1.LabelInstanceMemory:              number(m.MemoryMiB),
		awsv1.LabelInstanceHypervisor:          m.Hypervisor,
		awsv1.LabelInstanceEncryptionInTransit: strconv.FormatBool(m.EncryptsTransit),
		awsv1.LabelNitroSandbox:                strconv.FormatBool(m.Enclaves),
		awsv1.LabelInstanceCapabilityFlex:      strconv.FormatBool(strings.Contains(familyName, "-flex")),
	}
	if region != "" {
		labels[corev1.LabelTopologyRegion] = region
	}
	if build, ok := windowsBuilds[family]; ok {
		labels[corev1.LabelWindowsBuild] = build
	}
	if parts := category.FindStringSubmatch(familyName); parts != nil {
		labels[awsv1.LabelInstanceCategory], labels[awsv1.LabelInstanceGeneration] = parts[1], parts[2]
	}
	put := func(key string, n int64) {
		if n > 0 {
			labels[key] = number(n)
		}
	}
	put(awsv1.LabelInstanceEBSBandwidth, m.EBSMbps)
	put(awsv1.LabelInstanceNetworkBandwidth, bandwidth(m))
	if m.DiskNVMe {
		put(awsv1.LabelInstanceLocalNVMe, m.DiskGB)
	}
	addDeviceLabels(labels, m)
	return world.NewLabels(labels)
}

// addDeviceLabels describes accelerators where the instance has one kind; of several kinds no label could name one.
func addDeviceLabels(labels map[string]string, m *Type) {
	if len(m.GPUs) == 1 {
		gpu := m.GPUs[0]
		labels[awsv1.LabelInstanceGPUName] = kebab(gpu.Name)
		labels[awsv1.LabelInstanceGPUManufacturer] = kebab(gpu.Manufacturer)
		labels[awsv1.LabelInstanceGPUCount] = number(gpu.Count)
		labels[awsv1.LabelInstanceGPUMemory] = number(gpu.MemoryMiB)
	}
	switch {
	case len(m.Neuron) == 1:
		labels[awsv1.LabelInstanceAcceleratorName] = kebab(m.Neuron[0].Name)
		labels[awsv1.LabelInstanceAcceleratorManufacturer] = "aws"
		labels[awsv1.LabelInstanceAcceleratorCount] = number(m.Neuron[0].Count)
	case len(m.Neuron) == 0 && len(m.Inference) == 1:
		labels[awsv1.LabelInstanceAcceleratorName] = kebab(m.Inference[0].Name)
		labels[awsv1.LabelInstanceAcceleratorManufacturer] = kebab(m.Inference[0].Manufacturer)
		labels[awsv1.LabelInstanceAcceleratorCount] = number(m.Inference[0].Count)
	}
}

// windowsBuilds are the builds of Windows by AMI family.
var windowsBuilds = map[string]string{
	awsv1.AMIFamilyWindows2019: "10.0.17763",
	awsv1.AMIFamilyWindows2022: "10.0.20348",
	awsv1.AMIFamilyWindows2025: "10.0.26100",
}

// WindowsBuild is the build of Windows that the family runs, or "" for others.
func WindowsBuild(family string) string { return windowsBuilds[family] }

// OS is the operating system of an AMI family.
func OS(family string) string {
	if _, ok := windowsBuilds[family]; ok {
		return string(corev1.Windows)
	}
	return string(corev1.Linux)
}

func kebab(s string) string { return strings.ReplaceAll(strings.ToLower(s), " ", "-") }

func number(n int64) string { return strconv.FormatInt(n, 10) }
