package userdata

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	// clusterName is wider than EKS's rule by the dot, for clusters that are not EKS's. Bootstrap scripts put the name
	// into sed expressions and file names unquoted.
	clusterName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	endpoint    = regexp.MustCompile(`^https://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~/-]*)?$`)
	amount      = regexp.MustCompile(`^[+-]?[0-9.]+([A-Za-z]{1,2}|[eE][+-]?[0-9]+)?$`)
	percentage  = regexp.MustCompile(`^[0-9.]+%$`)
	settingKey  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.-]*$`)
)

// check refuses whatever could not be carried to the instance unharmed, in an order that does not depend on maps.
func (o *Options) check() error {
	for _, step := range []func() error{o.checkCluster, o.checkLabels, o.checkTaints, o.Kubelet.check} {
		if err := step(); err != nil {
			return err
		}
	}
	if o.InstanceStore != "" && o.InstanceStore != RAID0 {
		return &InputError{Field: "spec.instanceStorePolicy", Wrong: quoted(string(o.InstanceStore)) + " is not a policy", Cure: "use RAID0 or leave it out"}
	}
	return nil
}

func (o *Options) checkCluster() error {
	if !clusterName.MatchString(o.ClusterName) {
		return &InputError{
			Field: "cluster name", Wrong: quoted(o.ClusterName) + " is not a name of a cluster",
			Cure: "set CLUSTER_NAME to 1 to 100 letters, digits, dots, hyphens and underscores",
		}
	}
	if !endpoint.MatchString(o.Endpoint) {
		return &InputError{
			Field: "cluster endpoint", Wrong: quoted(o.Endpoint) + " is not the URL of an API server",
			Cure: "set CLUSTER_ENDPOINT to a URL such as https://example.eks.amazonaws.com",
		}
	}
	if _, err := base64.StdEncoding.DecodeString(o.CABundle); err != nil || strings.ContainsAny(o.CABundle, "\r\n") {
		return &InputError{
			Field: "cluster certificate", Wrong: "is not base64 on one line",
			Cure: "set CLUSTER_CA_BUNDLE to what certificateAuthority.data is in the description of the EKS cluster",
		}
	}
	if o.ServiceCIDR != "" {
		if _, err := netip.ParsePrefix(o.ServiceCIDR); err != nil {
			return &InputError{
				Field: "cluster service range", Wrong: quoted(o.ServiceCIDR) + " is not a range of addresses",
				Cure: "give it as 10.100.0.0/16 or fd00::/108",
			}
		}
	}
	return nil
}

func (o *Options) checkLabels() error {
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		if !isLabelKey(key) {
			return &InputError{Field: "label " + quoted(key), Wrong: "is not a label key", Cure: "use letters, digits, '-', '_' and '.', and a DNS name before a '/' if any"}
		}
		if value := o.Labels[key]; !isLabelValue(value) {
			return &InputError{Field: "label " + quoted(key), Wrong: quoted(value) + " is not a label value", Cure: "use at most 63 letters, digits, '-', '_' and '.'"}
		}
	}
	return nil
}

func (o *Options) checkTaints() error {
	for _, taint := range o.Taints {
		if !isLabelKey(taint.Key) || !isLabelValue(taint.Value) {
			return &InputError{Field: "taint " + quoted(taint.Key), Wrong: quoted(taint.String()) + " is not a taint", Cure: "give key and value the syntax of labels"}
		}
		switch taint.Effect {
		case "NoSchedule", "PreferNoSchedule", "NoExecute":
		default:
			return &InputError{Field: "taint " + quoted(taint.Key), Wrong: quoted(taint.Effect) + " is not an effect", Cure: "use NoSchedule, PreferNoSchedule or NoExecute"}
		}
	}
	return nil
}

func (k *Kubelet) check() error {
	for _, address := range k.ClusterDNS {
		if ip, err := netip.ParseAddr(address); err != nil || ip.Zone() != "" {
			return &InputError{Field: "spec.kubelet.clusterDNS", Wrong: quoted(address) + " is not an IP address", Cure: "give addresses such as 10.100.0.10"}
		}
	}
	for _, group := range []struct {
		name     string
		values   map[string]string
		percents bool
	}{
		{"systemReserved", k.SystemReserved, false},
		{"kubeReserved", k.KubeReserved, false},
		{"evictionHard", k.EvictionHard, true},
		{"evictionSoft", k.EvictionSoft, true},
	} {
		for _, key := range slices.Sorted(maps.Keys(group.values)) {
			if err := checkAmount(group.name, key, group.values[key], group.percents); err != nil {
				return err
			}
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(k.EvictionSoftGracePeriod)) {
		if grace := k.EvictionSoftGracePeriod[signal]; grace < 0 || !settingKey.MatchString(signal) {
			return &InputError{Field: kubeletField("evictionSoftGracePeriod", signal), Wrong: "is not a signal with a time", Cure: "give for example memory.available: 1m30s"}
		}
	}
	return nil
}

func checkAmount(group, key, value string, percents bool) error {
	if !settingKey.MatchString(key) {
		return &InputError{Field: kubeletField(group, key), Wrong: "is not a key of " + group, Cure: "use letters, digits, '.' and '-'"}
	}
	if amount.MatchString(value) || percents && percentage.MatchString(value) {
		return nil
	}
	cure := "give a quantity such as 100m or 1Gi"
	if percents {
		cure = "give a quantity such as 500Mi or a percentage such as 10%"
	}
	return &InputError{Field: kubeletField(group, key), Wrong: quoted(value) + " is not an amount", Cure: cure}
}

// kubeletField names a value of spec.kubelet. The key is cut short like any value that an error repeats.
func kubeletField(group, key string) string {
	if settingKey.MatchString(key) && len(key) <= quotedBytes {
		return fmt.Sprintf("spec.kubelet.%s[%s]", group, key)
	}
	return fmt.Sprintf("spec.kubelet.%s[%s]", group, quoted(key))
}

// refuseExtra is for families that have no way to hand a field to the kubelet that is not among the known ones.
func (k *Kubelet) refuseExtra(family Family) error {
	if len(k.Extra) == 0 {
		return nil
	}
	name := slices.Sorted(maps.Keys(k.Extra))[0]
	return &InputError{Field: "spec.kubelet." + name, Wrong: "cannot be passed on by AMI family " + string(family), Cure: "use AL2023, or set it in spec.userData"}
}

// graces writes times in the way that kubelets read them.
func graces(periods map[string]time.Duration) map[string]string {
	if periods == nil {
		return nil
	}
	texts := make(map[string]string, len(periods))
	for signal, period := range periods {
		texts[signal] = period.String()
	}
	return texts
}
