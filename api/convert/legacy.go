package convert

import (
	"fmt"
	"strings"
)

// The alpha kinds: what NodePool and EC2NodeClass were called before v1beta1.
const (
	alphaPoolVersion  = "v1alpha5"
	alphaClassVersion = "v1alpha1"

	provisionerKind  = "Provisioner"
	nodeTemplateKind = "AWSNodeTemplate"
)

var (
	provisionerFields = []string{
		"annotations", "labels", "taints", "startupTaints", "requirements", "kubeletConfiguration", "kubelet", "provider",
		"providerRef", "ttlSecondsAfterEmpty", "ttlSecondsUntilExpired", "limits", "weight", "consolidation",
	}
	nodeTemplateFields = []string{
		"amiFamily", "context", "instanceProfile", "subnetSelector", "securityGroupSelector", "tags", "launchTemplate",
		"launchTemplateName", "metadataOptions", "blockDeviceMappings", "userData", "amiSelector", "detailedMonitoring",
		"apiVersion", "kind",
	}
	// sameInClass are the fields of an AWSNodeTemplate that an EC2NodeClass has too.
	sameInClass = []string{
		"context", "instanceProfile", "tags", "metadataOptions", "blockDeviceMappings", "userData", "detailedMonitoring",
	}
)

// report collects what a person should know about a conversion.
type report struct {
	warnings []string
	alpha    bool // the object is of an alpha version, where fields have other names
}

// alphaNames are the names of fields before v1beta1.
var alphaNames = strings.NewReplacer(
	"spec.disruption.expireAfter:", "spec.ttlSecondsUntilExpired:",
	"spec.template.spec.nodeClassRef:", "spec.providerRef:",
	"spec.template.spec.kubelet:", "spec.kubeletConfiguration:",
	"spec.template.metadata.annotations[", "spec.annotations[",
)

// warn adds a sentence that begins with the field.
func (r *report) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if r.alpha {
		text = alphaNames.Replace(text)
	}
	r.warnings = append(r.warnings, text)
}

// fromProvisioner makes a v1beta1 NodePool of a v1alpha5 Provisioner, and an EC2NodeClass too if the Provisioner holds the
// provider's settings itself.
func fromProvisioner(in map[string]any, profile string, r *report) ([]map[string]any, error) {
	root := node{tree: clone(in)}
	spec, err := root.child("spec")
	if err != nil {
		return nil, err
	}
	if err := spec.only(provisionerFields); err != nil {
		return nil, err
	}
	claim, err := alphaClaim(spec, r)
	if err != nil {
		return nil, err
	}
	template := map[string]any{"spec": claim}
	if metadata := spec.some("labels", "annotations"); len(metadata) > 0 {
		template["metadata"] = metadata
	}
	pool := map[string]any{"template": template}
	if pool["disruption"], err = alphaDisruption(spec, r); err != nil {
		return nil, err
	}
	limits, err := spec.child("limits")
	if err != nil {
		return nil, err
	}
	if limits.has("resources") {
		pool["limits"] = limits.tree["resources"]
	}
	if spec.has("weight") {
		pool["weight"] = spec.tree["weight"]
	}
	out := []map[string]any{renamed(root, coreGroup, poolKind, pool)}
	if !spec.has("provider") {
		return out, nil
	}
	provider, err := spec.child("provider")
	if err != nil {
		return nil, err
	}
	class, err := alphaClass(provider, profile, r)
	if err != nil {
		return nil, err
	}
	name := nameOf(out[0])
	claim["nodeClassRef"] = map[string]any{"name": name}
	r.warn("spec.provider: became an EC2NodeClass of its own, called %q", name)
	return append(out, renamed(node{tree: map[string]any{"metadata": map[string]any{"name": name}}}, awsGroup, nodeClassKind, class)), nil
}

// alphaClaim collects what moved into the template of the pool.
func alphaClaim(spec node, r *report) (map[string]any, error) {
	claim := spec.some("taints", "startupTaints")
	requirements, err := alphaRequirements(spec, r)
	if err != nil {
		return nil, err
	}
	claim["requirements"] = requirements
	for _, key := range []string{"kubeletConfiguration", "kubelet"} {
		if !spec.has(key) {
			continue
		}
		kubelet, err := spec.child(key)
		if err != nil {
			return nil, err
		}
		if kubelet.has("containerRuntime") {
			delete(kubelet.tree, "containerRuntime")
			r.warn("spec.%s.containerRuntime: removed, containerd is the only one", key)
		}
		if len(kubelet.tree) > 0 {
			claim["kubelet"] = kubelet.tree
		}
	}
	ref, err := spec.child("providerRef")
	if err != nil {
		return nil, err
	}
	name, err := ref.text("name")
	if err != nil {
		return nil, err
	}
	if name != "" {
		claim["nodeClassRef"] = map[string]any{"name": name}
	}
	return claim, nil
}

// alphaRequirements writes out what v1alpha5 added to the requirements when a Provisioner did not speak about it.
func alphaRequirements(spec node, r *report) ([]any, error) {
	items, err := spec.items("requirements")
	if err != nil {
		return nil, err
	}
	out := []any{}
	seen := map[string]bool{}
	for _, item := range items {
		key, err := item.text("key")
		if err != nil {
			return nil, err
		}
		if key == awsGroup+"/instance-pods" {
			r.warn("%s: label %s does not exist any more; the requirement was removed", item.path, key)
			continue
		}
		seen[key] = true
		out = append(out, item.tree)
	}
	labels, err := spec.child("labels")
	if err != nil {
		return nil, err
	}
	for key := range labels.tree {
		seen[key] = true
	}
	add := func(key, operator string, values ...any) {
		if !seen[key] {
			out = append(out, map[string]any{"key": key, "operator": operator, "values": values})
		}
	}
	add("kubernetes.io/os", "In", "linux")
	add("kubernetes.io/arch", "In", "amd64")
	add("karpenter.sh/capacity-type", "In", "on-demand")
	if !seen["node.kubernetes.io/instance-type"] && !seen[awsGroup+"/instance-family"] && !seen[awsGroup+"/instance-category"] && !seen[awsGroup+"/instance-generation"] {
		add(awsGroup+"/instance-category", "In", "c", "m", "r")
		add(awsGroup+"/instance-generation", "Gt", "2")
	}
	return out, nil
}

func alphaDisruption(spec node, r *report) (map[string]any, error) {
	consolidation, err := spec.child("consolidation")
	if err != nil {
		return nil, err
	}
	empty, hasEmpty, err := spec.seconds("ttlSecondsAfterEmpty")
	if err != nil {
		return nil, err
	}
	out := map[string]any{"consolidationPolicy": policyEmpty, "consolidateAfter": "Never", "expireAfter": "Never"}
	switch {
	case consolidation.tree["enabled"] == true:
		if hasEmpty {
			r.warn("spec.ttlSecondsAfterEmpty: not kept beside consolidation.enabled; empty nodes are removed by consolidation")
		}
		out["consolidationPolicy"], out["consolidateAfter"] = policyUnderutilized, defaultConsolidateAfter
	case hasEmpty:
		out["consolidateAfter"] = empty
	}
	expire, hasExpire, err := spec.seconds("ttlSecondsUntilExpired")
	if hasExpire {
		out["expireAfter"] = expire
	}
	return out, err
}

// fromNodeTemplate makes a v1beta1 EC2NodeClass of a v1alpha1 AWSNodeTemplate.
func fromNodeTemplate(in map[string]any, profile string, r *report) (map[string]any, error) {
	root := node{tree: clone(in)}
	spec, err := root.child("spec")
	if err != nil {
		return nil, err
	}
	class, err := alphaClass(spec, profile, r)
	if err != nil {
		return nil, err
	}
	return renamed(root, awsGroup, nodeClassKind, class), nil
}

func alphaClass(spec node, profile string, r *report) (map[string]any, error) {
	if err := spec.only(nodeTemplateFields); err != nil {
		return nil, err
	}
	for _, key := range []string{"launchTemplate", "launchTemplateName"} {
		if spec.has(key) {
			return nil, &FieldError{Field: spec.field(key), Detail: "launch templates of your own cannot be used any more; describe the instances with amiSelectorTerms, userData, blockDeviceMappings and securityGroupSelectorTerms"}
		}
	}
	class := spec.some(sameInClass...)
	class["amiFamily"] = familyAL2 // the default of v1alpha1
	if spec.has("amiFamily") {
		class["amiFamily"] = spec.tree["amiFamily"]
	}
	if !spec.has("instanceProfile") {
		if profile == "" {
			return nil, &FieldError{Field: spec.field("instanceProfile"), Detail: "is missing: v1alpha1 took it from the global setting aws.defaultInstanceProfile, v1 has no such setting; add it, or give --instance-profile"}
		}
		class["instanceProfile"] = profile
	}
	for _, selector := range []struct{ from, to string }{
		{"subnetSelector", "subnetSelectorTerms"},
		{"securityGroupSelector", "securityGroupSelectorTerms"},
		{"amiSelector", "amiSelectorTerms"},
	} {
		terms, err := selectorTerms(spec, selector.from, r)
		if err != nil {
			return nil, err
		}
		if terms != nil {
			class[selector.to] = terms
		}
	}
	return class, nil
}

// renamed returns an object of a new kind with the metadata of root.
func renamed(root node, group, kind string, spec map[string]any) map[string]any {
	out := map[string]any{"apiVersion": group + "/" + versionBeta, "kind": kind, "spec": spec}
	if root.has("metadata") {
		out["metadata"] = root.tree["metadata"]
	}
	return out
}

// some returns the named fields that have a value.
func (n node) some(keys ...string) map[string]any {
	out := map[string]any{}
	for _, key := range keys {
		if n.has(key) {
			out[key] = n.tree[key]
		}
	}
	return out
}

// only refuses fields that are not in known.
func (n node) only(known []string) error {
	names := " " + strings.Join(known, " ") + " "
	for _, key := range sortedKeys(n.tree) {
		if !strings.Contains(names, " "+key+" ") {
			return &FieldError{Field: n.field(key), Detail: "is not a field of this kind"}
		}
	}
	return nil
}

// seconds reads a whole number of seconds as a duration.
func (n node) seconds(key string) (text string, found bool, err error) {
	if !n.has(key) {
		return "", false, nil
	}
	value, ok := n.tree[key].(int64)
	if !ok || value < 0 {
		return "", false, &FieldError{Field: n.field(key), Detail: "must be a whole number of seconds, is " + describe(n.tree[key])}
	}
	switch {
	case value > 0 && value%3600 == 0:
		return fmt.Sprintf("%dh", value/3600), true, nil
	case value > 0 && value%60 == 0:
		return fmt.Sprintf("%dm", value/60), true, nil
	}
	return fmt.Sprintf("%ds", value), true, nil
}
