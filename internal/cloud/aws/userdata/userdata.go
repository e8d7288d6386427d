package userdata

import (
	"encoding/base64"
	"time"
)

// Family is an AMI family by the name that it has in spec.amiFamily. It decides the format of user data.
type Family string

// The families that there are.
const (
	AL2          Family = "AL2"
	AL2023       Family = "AL2023"
	Bottlerocket Family = "Bottlerocket"
	Windows2019  Family = "Windows2019"
	Windows2022  Family = "Windows2022"
	Windows2025  Family = "Windows2025"
	Custom       Family = "Custom"
)

// MaxBytes is what EC2 takes as user data, counted before base64.
const MaxBytes = 16384

// warnBytes is nine tenths of MaxBytes: from there on the next label can be the one that does not fit.
const warnBytes = MaxBytes * 9 / 10

// maxInput bounds what is taken apart. Merging can shorten user data, as TOML loses its comments, but not by so much.
const maxInput = 4 * MaxBytes

// InstanceStorePolicy says what becomes of the disks that are built into an instance.
type InstanceStorePolicy string

// RAID0 joins the built-in disks into one, which holds the node's ephemeral storage. The zero value leaves them alone.
const RAID0 InstanceStorePolicy = "RAID0"

// Options is everything that goes into user data. Labels and Taints are those of the claim; what every instance of
// Karpenter carries in addition is added by Render, and labels that a kubelet may not set on itself are left out.
type Options struct {
	ClusterName string
	// Endpoint is the URL of the API server.
	Endpoint string
	// CABundle is the certificate of the API server in base64, or empty where the instance can find it by itself.
	CABundle string
	// ServiceCIDR is the address range of Services. Only AL2023 needs it.
	ServiceCIDR string

	Labels map[string]string
	Taints []Taint

	Kubelet Kubelet

	InstanceStore InstanceStorePolicy
	// AMIVersion is the version of a Bottlerocket image, for example 1.46.0 or latest; empty if it is not known.
	AMIVersion string

	// UserData is spec.userData as it was written; empty if there is none.
	UserData string
}

// Taint is put on the node before its first pod.
type Taint struct {
	Key, Value, Effect string
}

// Kubelet holds spec.kubelet with every expression resolved for the instance types of one launch.
// A nil pointer, map or slice leaves the setting to the image.
type Kubelet struct {
	ClusterDNS                  []string
	MaxPods                     *int32
	PodsPerCore                 *int32
	SystemReserved              map[string]string
	KubeReserved                map[string]string
	EvictionHard                map[string]string
	EvictionSoft                map[string]string
	EvictionSoftGracePeriod     map[string]time.Duration
	EvictionMaxPodGracePeriod   *int32 // seconds
	ImageGCHighThresholdPercent *int32
	ImageGCLowThresholdPercent  *int32
	CPUCFSQuota                 *bool
	// Extra has any other field of the kubelet's configuration file by name, as JSON. Only AL2023 can carry it.
	Extra map[string]string
}

// Document is user data for an instance.
type Document struct {
	// Text is what the instance reads.
	Text string
	// Ignored has a sentence for each setting that was asked for and left out because the image would refuse it or has
	// no use for it. The instance boots without them.
	Ignored []string
}

// Base64 is the text in the form that EC2's API takes.
func (d Document) Base64() string {
	return base64.StdEncoding.EncodeToString([]byte(d.Text))
}

// NearLimit reports whether the text is within a tenth of MaxBytes.
func (d Document) NearLimit() bool {
	return len(d.Text) >= warnBytes
}

// Render writes the user data of an instance. The error is an *InputError or a *SizeError.
func Render(family Family, o Options) (Document, error) {
	if len(o.UserData) > maxInput {
		return Document{}, &SizeError{Size: len(o.UserData), OfUser: len(o.UserData)}
	}
	var doc Document
	var err error
	switch family {
	case AL2:
		doc, err = renderAL2(o)
	case AL2023:
		doc, err = renderAL2023(o)
	case Bottlerocket:
		doc, err = renderBottlerocket(o)
	case Windows2019, Windows2022, Windows2025:
		doc, err = renderWindows(family, o)
	case Custom:
		doc = Document{Text: o.UserData}
	default:
		err = &InputError{
			Field: "spec.amiFamily", Wrong: quoted(string(family)) + " is not a family",
			Cure: "use AL2, AL2023, Bottlerocket, Windows2019, Windows2022, Windows2025 or Custom",
		}
	}
	if err != nil {
		return Document{}, err
	}
	if len(doc.Text) > MaxBytes {
		return Document{}, &SizeError{Size: len(doc.Text), OfUser: len(o.UserData)}
	}
	return doc, nil
}
