// Package sample draws random NodePools, NodeClaims and EC2NodeClasses in v1 and v1beta1 that the API server accepts, with
// every optional field sometimes missing. The tests of the conversion use it, with and without a real API server.
package sample

import (
	"strings"

	"pgregory.net/rapid"
)

type tree = map[string]any

const (
	poolKind      = "NodePool"
	claimKind     = "NodeClaim"
	nodeClassKind = "EC2NodeClass"

	coreGroup = "karpenter.sh"
	awsGroup  = "karpenter.k8s.aws"
)

// Kinds returns the names of the kinds that Object knows.
func Kinds() []string { return []string{poolKind, claimKind, nodeClassKind} }

// Object draws an object of a kind in a version, v1 or v1beta1.
func Object(t *rapid.T, kind, version string) map[string]any {
	return map[string]func(*rapid.T, string) tree{poolKind: pool, claimKind: claim, nodeClassKind: class}[kind](t, version)
}

func chance(t *rapid.T, label string) bool { return rapid.Bool().Draw(t, label) }

func pick[V any](t *rapid.T, label string, values ...V) V {
	return rapid.SampledFrom(values).Draw(t, label)
}

// maybe sets key half of the time.
func maybe(t *rapid.T, into tree, key string, value func() any) {
	if chance(t, "has "+key) {
		into[key] = value()
	}
}

func listOf(t *rapid.T, label string, from, to int, item func() any) []any {
	out := make([]any, rapid.IntRange(from, to).Draw(t, label))
	for i := range out {
		out[i] = item()
	}
	return out
}

func duration(t *rapid.T) any {
	return pick(t, "duration", "0s", "30s", "1m", "60m", "1h", "1h0m", "720h", "24h")
}

func nillable(t *rapid.T) any {
	if rapid.IntRange(0, 4).Draw(t, "never") == 0 {
		return "Never"
	}
	return duration(t)
}

func quantity(t *rapid.T) any {
	return pick[any](t, "quantity", "1000", int64(1000), "1k", "2000Gi", "0.5")
}

func requirement(t *rapid.T, v1 bool) any {
	out := tree{"key": pick(t, "key", "kubernetes.io/arch", "karpenter.sh/capacity-type", "karpenter.k8s.aws/instance-cpu", "team")}
	operators := []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}
	if v1 {
		operators = append(operators, "Gte", "Lte")
	}
	operator := rapid.SampledFrom(operators).Draw(t, "operator")
	out["operator"] = operator
	switch operator {
	case "In":
		out["values"] = listOf(t, "values", 1, 3, func() any { return pick(t, "value", "a", "b", "c") })
	case "NotIn":
		maybe(t, out, "values", func() any { return listOf(t, "values", 0, 2, func() any { return "x" }) })
	case "Gt", "Lt", "Gte", "Lte":
		out["values"] = []any{pick(t, "number", "0", "1", "4", "15", "9223372036854775807")}
	}
	if operator != "In" {
		maybe(t, out, "minValues", func() any { return int64(1) })
	}
	return out
}

func taint(t *rapid.T) any {
	out := tree{"key": pick(t, "key", "nvidia.com/gpu", "batch"), "effect": pick(t, "effect", "NoSchedule", "NoExecute")}
	maybe(t, out, "value", func() any { return "true" })
	return out
}

func kubelet(t *rapid.T) any {
	out := tree{}
	maybe(t, out, "maxPods", func() any { return rapid.Int64Range(0, 250).Draw(t, "maxPods") })
	maybe(t, out, "clusterDNS", func() any { return []any{"10.0.0.10"} })
	if chance(t, "evictionSoft") {
		out["evictionSoft"] = tree{"memory.available": "5%"}
		out["evictionSoftGracePeriod"] = tree{"memory.available": duration(t)}
	}
	maybe(t, out, "cpuCFSQuota", func() any { return chance(t, "quota") })
	return out
}

// claimFields fills what pool templates and claims share.
func claimFields(t *rapid.T, v1 bool) tree {
	out := tree{"requirements": listOf(t, "requirements", 0, 4, func() any { return requirement(t, v1) })}
	maybe(t, out, "taints", func() any { return listOf(t, "taints", 0, 2, func() any { return taint(t) }) })
	maybe(t, out, "startupTaints", func() any { return listOf(t, "taints", 0, 2, func() any { return taint(t) }) })
	name := pick(t, "class", "default", "gpu")
	if v1 {
		out["nodeClassRef"] = tree{"group": pick(t, "group", awsGroup, "karpenter.example.com"), "kind": pick(t, "kind", "EC2NodeClass", "OtherClass"), "name": name}
		maybe(t, out, "expireAfter", func() any { return nillable(t) })
		maybe(t, out, "terminationGracePeriod", func() any { return duration(t) })
		return out
	}
	maybe(t, out, "kubelet", func() any { return kubelet(t) })
	maybe(t, out, "nodeClassRef", func() any {
		ref := tree{"name": name}
		maybe(t, ref, "kind", func() any { return pick(t, "kind", "EC2NodeClass", "OtherClass") })
		maybe(t, ref, "apiVersion", func() any {
			return pick(t, "apiVersion", "karpenter.k8s.aws/v1beta1", "karpenter.k8s.aws/v1", "karpenter.example.com/v1alpha1")
		})
		return ref
	})
	return out
}

func budget(t *rapid.T, v1 bool) any {
	out := tree{"nodes": pick(t, "nodes", "10%", "0", "5", "100%")}
	if !v1 && rapid.IntRange(0, 5).Draw(t, "no nodes") == 0 {
		delete(out, "nodes")
	}
	if chance(t, "schedule") {
		out["schedule"] = pick(t, "cron", "0 9-17 * * 1-5", "@daily")
		if v1 || chance(t, "duration") {
			out["duration"] = pick(t, "duration", "1h", "8h", "60m")
		}
	}
	if v1 {
		maybe(t, out, "reasons", func() any { return listOf(t, "reasons", 0, 1, func() any { return "Drifted" }) })
	}
	return out
}

func disruption(t *rapid.T, v1 bool) tree {
	out := tree{}
	budgets := func() any { return listOf(t, "budgets", 0, 3, func() any { return budget(t, v1) }) }
	policies := []string{"WhenEmpty", "WhenUnderutilized"}
	if v1 {
		policies = []string{"WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"}
	} else {
		maybe(t, out, "expireAfter", func() any { return nillable(t) })
	}
	maybe(t, out, "consolidationPolicy", func() any { return rapid.SampledFrom(policies).Draw(t, "policy") })
	maybe(t, out, "consolidateAfter", func() any { return nillable(t) })
	maybe(t, out, "budgets", budgets)
	return out
}

func metadata(t *rapid.T) tree {
	out := tree{"name": "x", "uid": "u", "resourceVersion": "7", "labels": tree{coreGroup + "/nodepool": "p"}}
	maybe(t, out, "annotations", func() any { return tree{"karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v2"} })
	return out
}

func pool(t *rapid.T, version string) tree {
	v1 := version == "v1"
	fields := claimFields(t, v1)
	template := tree{"spec": fields}
	maybe(t, template, "metadata", func() any { return tree{"labels": tree{"team": "a"}} })
	spec := tree{"template": template}
	maybe(t, spec, "limits", func() any { return tree{"cpu": quantity(t)} })
	switch {
	case v1:
		maybe(t, spec, "disruption", func() any { return disruption(t, v1) })
		if chance(t, "static") {
			delete(spec, "limits")
			spec["replicas"] = int64(3)
		} else {
			maybe(t, spec, "weight", func() any { return rapid.Int64Range(1, 100).Draw(t, "weight") })
		}
	default:
		maybe(t, spec, "disruption", func() any { return disruption(t, v1) })
		maybe(t, pick(t, "where", spec, fields), "weight", func() any { return rapid.Int64Range(1, 100).Draw(t, "weight") })
		maybe(t, fields, "resources", func() any { return tree{} })
	}
	return tree{"apiVersion": coreGroup + "/" + version, "kind": poolKind, "metadata": metadata(t), "spec": spec, "status": tree{"nodes": int64(2)}}
}

func claim(t *rapid.T, version string) tree {
	spec := claimFields(t, version == "v1")
	maybe(t, spec, "resources", func() any { return tree{"requests": tree{"cpu": quantity(t)}} })
	return tree{"apiVersion": coreGroup + "/" + version, "kind": claimKind, "metadata": metadata(t), "spec": spec, "status": tree{"providerID": "aws:///a/i-1"}}
}

func term(t *rapid.T, v1 bool) any {
	kinds := []string{"id", "name", "tags"}
	if v1 {
		kinds = append(kinds, "ssmParameter")
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "term"); kind {
	case "id":
		return tree{"id": pick(t, "id", "ami-1", "ami-2")}
	case "name":
		out := tree{"name": pick(t, "name", "my-image-*", "b")}
		maybe(t, out, "owner", func() any { return "self" })
		return out
	case "ssmParameter":
		return tree{"ssmParameter": pick(t, "parameter", "/my/ami", "arn:aws:ssm:us-west-2::parameter/x")}
	default:
		return tree{"tags": tree{"team": "a"}}
	}
}

func ebs(t *rapid.T, v1 bool) any {
	out := tree{"volumeSize": pick(t, "size", "100Gi", "1Ti"), "volumeType": "gp3"}
	maybe(t, out, "encrypted", func() any { return chance(t, "encrypted") })
	if chance(t, "snapshot") {
		out["snapshotID"] = "snap-1"
		if v1 {
			maybe(t, out, "volumeInitializationRate", func() any { return int64(200) })
		}
	}
	return out
}

func images(t *rapid.T, spec tree, v1 bool) {
	if !v1 {
		family := pick(t, "family", "AL2", "AL2023", "Bottlerocket", "Ubuntu", "Custom", "Windows2019", "Windows2022")
		spec["amiFamily"] = family
		if family == "Ubuntu" || family == "Custom" || chance(t, "selector") {
			spec["amiSelectorTerms"] = listOf(t, "terms", 1, 3, func() any { return term(t, v1) })
		} else if chance(t, "empty selector") {
			spec["amiSelectorTerms"] = []any{}
		}
		return
	}
	if chance(t, "alias") {
		family := pick(t, "family", "AL2", "AL2023", "Bottlerocket", "Windows2025")
		version := "latest"
		if family != "Windows2025" {
			version = pick(t, "version", "latest", "v20240807")
		}
		spec["amiSelectorTerms"] = []any{tree{"alias": strings.ToLower(family) + "@" + version}}
		maybe(t, spec, "amiFamily", func() any { return pick(t, "family", family, "Custom") })
		return
	}
	spec["amiFamily"] = pick(t, "family", "AL2", "AL2023", "Custom", "Windows2022")
	spec["amiSelectorTerms"] = listOf(t, "terms", 1, 3, func() any { return term(t, v1) })
}

func class(t *rapid.T, version string) tree {
	v1 := version == "v1"
	spec := tree{
		"subnetSelectorTerms":        []any{tree{"tags": tree{"karpenter.sh/discovery": "my-cluster"}}},
		"securityGroupSelectorTerms": []any{tree{"id": "sg-1"}, tree{"name": "nodes"}},
	}
	images(t, spec, v1)
	spec[pick(t, "identity", "role", "instanceProfile")] = "nodes"
	maybe(t, spec, "userData", func() any { return "#!/bin/bash\n" })
	maybe(t, spec, "tags", func() any { return tree{"Environment": "production"} })
	maybe(t, spec, "blockDeviceMappings", func() any {
		return listOf(t, "mappings", 0, 2, func() any { return tree{"deviceName": pick(t, "device", "/dev/xvda", "/dev/xvdb"), "ebs": ebs(t, v1)} })
	})
	options := tree{"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": int64(1), "httpTokens": "required"}
	maybe(t, spec, "metadataOptions", func() any {
		for _, key := range []string{"httpEndpoint", "httpProtocolIPv6", "httpPutResponseHopLimit", "httpTokens"} {
			if chance(t, "no "+key) {
				delete(options, key)
			}
		}
		return options
	})
	if v1 {
		maybe(t, spec, "kubelet", func() any { return kubelet(t) })
		maybe(t, spec, "ipPrefixCount", func() any { return int64(1) })
		maybe(t, spec, "cpuOptions", func() any { return tree{"nestedVirtualization": "enabled"} })
		maybe(t, spec, "enclaveOptions", func() any { return tree{"enabled": true} })
		maybe(t, spec, "capacityReservationSelectorTerms", func() any { return []any{tree{"id": "cr-1"}} })
	}
	return tree{"apiVersion": awsGroup + "/" + version, "kind": nodeClassKind, "metadata": metadata(t), "spec": spec, "status": tree{"instanceProfile": "p"}}
}
