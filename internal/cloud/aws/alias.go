package aws

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/internal/cloud/aws/shape"
)

// variant is a kind of instance that a family has an image of its own for.
type variant string

const (
	standard  variant = "standard"
	nvidia    variant = "nvidia"
	neuron    variant = "neuron"
	windowsOS variant = "windows"
)

// aliasImage is one image that an alias stands for: where SSM has its id, and what instances it is for.
type aliasImage struct {
	path    string
	variant variant
}

// aliasImages lists the images of an alias under a Kubernetes version (major.minor).
func aliasImages(alias awsv1.Alias, version string) []aliasImage {
	switch alias.Family {
	case awsv1.AMIFamilyAL2:
		return al2Images(alias, version)
	case awsv1.AMIFamilyAL2023:
		return al2023Images(alias, version)
	case awsv1.AMIFamilyBottlerocket:
		return bottlerocketImages(alias, version)
	}
	year := strings.TrimPrefix(alias.Family, "Windows")
	return []aliasImage{{
		fmt.Sprintf("/aws/service/ami-windows-latest/Windows_Server-%s-English-Core-EKS_Optimized-%s/image_id", year, version), windowsOS,
	}}
}

func al2Images(alias awsv1.Alias, version string) []aliasImage {
	path := func(kind string) string {
		image := "recommended"
		if alias.Pinned() {
			image = fmt.Sprintf("amazon-eks%s-node-%s-%s", kind, version, alias.Version)
		}
		return fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2%s/%s/image_id", version, kind, image)
	}
	return []aliasImage{{path(""), standard}, {path("-arm64"), standard}, {path("-gpu"), nvidia}, {path("-gpu"), neuron}}
}

func al2023Images(alias awsv1.Alias, version string) []aliasImage {
	path := func(arch string, v variant) string {
		image := "recommended"
		if alias.Pinned() {
			image = fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", arch, v, version, alias.Version)
		}
		return fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/%s/image_id", version, arch, v, image)
	}
	return []aliasImage{
		{path("x86_64", standard), standard},
		{path("x86_64", nvidia), nvidia},
		{path("x86_64", neuron), neuron},
		{path("arm64", standard), standard},
		{path("arm64", nvidia), nvidia},
	}
}

func bottlerocketImages(alias awsv1.Alias, version string) []aliasImage {
	path := func(arch, kind string) string {
		return fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/%s/image_id", version, kind, arch, strings.TrimPrefix(alias.Version, "v"))
	}
	return []aliasImage{
		{path("x86_64", ""), standard},
		{path("x86_64", ""), neuron},
		{path("x86_64", "-nvidia"), nvidia},
		{path("arm64", ""), standard},
		{path("arm64", "-nvidia"), nvidia},
	}
}

// variantNeeds are the requirements that keep instances of other kinds from an image.
func variantNeeds(v variant, family string) []corev1.NodeSelectorRequirement {
	switch v {
	case standard:
		return []corev1.NodeSelectorRequirement{
			{Key: awsv1.LabelInstanceGPUCount, Operator: corev1.NodeSelectorOpDoesNotExist},
			{Key: awsv1.LabelInstanceAcceleratorCount, Operator: corev1.NodeSelectorOpDoesNotExist},
		}
	case nvidia:
		return []corev1.NodeSelectorRequirement{{Key: awsv1.LabelInstanceGPUCount, Operator: corev1.NodeSelectorOpExists}}
	case neuron:
		return []corev1.NodeSelectorRequirement{{Key: awsv1.LabelInstanceAcceleratorCount, Operator: corev1.NodeSelectorOpExists}}
	case windowsOS:
		return []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{string(corev1.Windows)}},
			{Key: corev1.LabelWindowsBuild, Operator: corev1.NodeSelectorOpIn, Values: []string{shape.WindowsBuild(family)}},
		}
	}
	return nil
}
