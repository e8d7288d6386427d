package userdata

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// kubeletFlags are the arguments for images whose bootstrap script takes flags of the kubelet and not its
// configuration file. Values that list pairs are in double quotes: the scripts of AL2 and Windows write the arguments
// into a service definition, which splits them at blanks again. Nothing in the values needs escaping after check.
func (o *Options) kubeletFlags() []string {
	taints := make([]string, 0, len(o.Taints)+1)
	for _, taint := range o.joinTaints() {
		taints = append(taints, taint.String())
	}
	k := &o.Kubelet
	flags := []string{
		`--node-labels="` + pairs(o.joinLabels(), "=") + `"`,
		`--register-with-taints="` + strings.Join(taints, ",") + `"`,
	}
	flags = appendNumber(flags, "--max-pods", k.MaxPods)
	flags = appendNumber(flags, "--pods-per-core", k.PodsPerCore)
	flags = appendPairs(flags, "--system-reserved", "=", k.SystemReserved)
	flags = appendPairs(flags, "--kube-reserved", "=", k.KubeReserved)
	flags = appendPairs(flags, "--eviction-hard", "<", k.EvictionHard)
	flags = appendPairs(flags, "--eviction-soft", "<", k.EvictionSoft)
	flags = appendPairs(flags, "--eviction-soft-grace-period", "=", graces(k.EvictionSoftGracePeriod))
	flags = appendNumber(flags, "--eviction-max-pod-grace-period", k.EvictionMaxPodGracePeriod)
	flags = appendNumber(flags, "--image-gc-high-threshold", k.ImageGCHighThresholdPercent)
	flags = appendNumber(flags, "--image-gc-low-threshold", k.ImageGCLowThresholdPercent)
	if k.CPUCFSQuota != nil {
		flags = append(flags, "--cpu-cfs-quota="+strconv.FormatBool(*k.CPUCFSQuota))
	}
	return flags
}

func appendNumber(flags []string, name string, value *int32) []string {
	if value == nil {
		return flags
	}
	return append(flags, name+"="+strconv.Itoa(int(*value)))
}

func appendPairs(flags []string, name, between string, values map[string]string) []string {
	if len(values) == 0 {
		return flags
	}
	return append(flags, name+`="`+pairs(values, between)+`"`)
}

// pairs lists a map sorted by key.
func pairs(values map[string]string, between string) string {
	list := make([]string, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		list = append(list, key+between+values[key])
	}
	return strings.Join(list, ",")
}
