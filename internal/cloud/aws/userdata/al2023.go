package userdata

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"
)

// renderAL2023 writes an archive whose last part is a NodeConfig. nodeadm merges all NodeConfigs that it finds, later
// ones over earlier ones, so ours decides wherever the user's says something else.
func renderAL2023(o Options) (Document, error) {
	if err := o.check(); err != nil {
		return Document{}, err
	}
	if o.ServiceCIDR == "" {
		return Document{}, &InputError{
			Field: "cluster service range", Wrong: "is not known, and AMI family AL2023 needs it",
			Cure: "allow eks:DescribeCluster, from which it is read",
		}
	}
	config, err := o.nodeConfig()
	if err != nil {
		return Document{}, err
	}
	parts, err := userParts(o.UserData, true)
	if err != nil {
		return Document{}, err
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return Document{}, fmt.Errorf("writing the NodeConfig: %w", err)
	}
	return Document{Text: writeArchive(append(parts, newPart(typeNodeConfig, "# Karpenter Generated NodeConfig\n"+string(text))))}, nil
}

// nodeConfig is the object that nodeadm reads. Labels are a flag because the configuration file of a kubelet has no
// field for them.
func (o *Options) nodeConfig() (map[string]any, error) {
	kubelet, err := o.kubeletConfig()
	if err != nil {
		return nil, err
	}
	cluster := map[string]any{
		"name":              o.ClusterName,
		"apiServerEndpoint": o.Endpoint,
		"cidr":              o.ServiceCIDR,
	}
	if o.CABundle != "" {
		cluster["certificateAuthority"] = o.CABundle
	}
	spec := map[string]any{
		"cluster": cluster,
		"kubelet": map[string]any{
			"config": kubelet,
			"flags":  []any{`--node-labels="` + pairs(o.joinLabels(), "=") + `"`},
		},
	}
	if o.InstanceStore == RAID0 {
		spec["instance"] = map[string]any{"localStorage": map[string]any{"strategy": "RAID0"}}
	}
	return map[string]any{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}, nil
}

// kubeletConfig holds fields of the kubelet's configuration file.
func (o *Options) kubeletConfig() (map[string]any, error) {
	k := &o.Kubelet
	config := make(map[string]any, len(k.Extra)+4)
	for _, name := range slices.Sorted(maps.Keys(k.Extra)) {
		if name == "registerWithTaints" {
			return nil, &InputError{Field: "spec.kubelet.registerWithTaints", Wrong: "is set by Karpenter", Cure: "use taints and startupTaints of the NodePool"}
		}
		if !json.Valid([]byte(k.Extra[name])) {
			return nil, &InputError{Field: "spec.kubelet." + name, Wrong: quoted(k.Extra[name]) + " is not JSON", Cure: "give one JSON value"}
		}
		config[name] = json.RawMessage(k.Extra[name])
	}
	config["registerWithTaints"] = o.taintObjects()
	if len(k.ClusterDNS) > 0 {
		config["clusterDNS"] = k.ClusterDNS
	}
	if k.CPUCFSQuota != nil {
		config["cpuCFSQuota"] = *k.CPUCFSQuota
	}
	for name, number := range map[string]*int32{
		"maxPods": k.MaxPods, "podsPerCore": k.PodsPerCore, "evictionMaxPodGracePeriod": k.EvictionMaxPodGracePeriod,
		"imageGCHighThresholdPercent": k.ImageGCHighThresholdPercent, "imageGCLowThresholdPercent": k.ImageGCLowThresholdPercent,
	} {
		if number != nil {
			config[name] = *number
		}
	}
	for name, values := range map[string]map[string]string{
		"systemReserved": k.SystemReserved, "kubeReserved": k.KubeReserved, "evictionHard": k.EvictionHard,
		"evictionSoft": k.EvictionSoft, "evictionSoftGracePeriod": graces(k.EvictionSoftGracePeriod),
	} {
		if len(values) > 0 {
			config[name] = values
		}
	}
	return config, nil
}

func (o *Options) taintObjects() []any {
	taints := []any{}
	for _, taint := range o.joinTaints() {
		object := map[string]any{"key": taint.Key, "effect": taint.Effect}
		if taint.Value != "" {
			object["value"] = taint.Value
		}
		taints = append(taints, object)
	}
	return taints
}
