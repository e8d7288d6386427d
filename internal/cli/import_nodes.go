package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/aws/awsplug"
)

// groupLabels name the node group that a node is of.
var groupLabels = []string{"eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name", "kops.k8s.io/instancegroup"}

// groupOf is the name of a node's group, or nothing.
func groupOf(node *corev1.Node) string {
	for _, key := range groupLabels {
		if name := node.Labels[key]; name != "" {
			return name
		}
	}
	return ""
}

// instanceOf is the id in aws:///us-west-2a/i-0123.
func instanceOf(node *corev1.Node) string {
	return node.Spec.ProviderID[strings.LastIndexByte(node.Spec.ProviderID, '/')+1:]
}

// nodeGroups are those that Cluster Autoscaler's flags name, and those that it finds by tags and that have nodes. What they are
// made of is what their nodes are.
func (c *clusterFacts) nodeGroups(cluster string) ([]awsplug.NodeGroup, error) {
	if len(c.autoscalers) == 0 {
		return nil, errors.New("the snapshot has no Deployment of Cluster Autoscaler; make it by: kubectl get deployments,nodes,pods -A -o json")
	}
	byGroup := map[string][]*corev1.Node{}
	for _, n := range c.nodes {
		if name := groupOf(n); name != "" && n.Labels[karpv1.NodePoolLabelKey] == "" {
			byGroup[name] = append(byGroup[name], n)
		}
	}
	var groups []awsplug.NodeGroup
	used := map[string]bool{}
	discovers := false
	for _, a := range c.autoscalers {
		discovers = discovers || len(a.discovery) > 0
		for _, s := range a.groups {
			name := labelOfGroup(s.name, slices.Sorted(maps.Keys(byGroup)))
			used[name] = true
			g := awsplug.NodeGroup{Name: cmp.Or(name, shortName(s.name)), Kind: "node group of Cluster Autoscaler", ScalingGroup: s.name, Min: s.min, Max: s.max}
			describe(&g, byGroup[name], cluster)
			groups = append(groups, g)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byGroup)) {
		if discovers && !used[name] {
			g := awsplug.NodeGroup{Name: name, Kind: "node group of Cluster Autoscaler", ScalingGroup: name}
			g.Left = append(g.Left, "sizes: Cluster Autoscaler finds the group by tags, which the snapshot does not have; set spec.limits, or import --from aws")
			describe(&g, byGroup[name], cluster)
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// labelOfGroup finds which of the groups that nodes name is an Auto Scaling group: eks-NAME-ID, eksctl-CLUSTER-nodegroup-NAME-…,
// NAME.CLUSTER or NAME itself. The longest that fits is the one.
func labelOfGroup(scaling string, names []string) string {
	best := ""
	for _, name := range names {
		fits := scaling == name || strings.HasPrefix(scaling, name+".") || strings.Contains("-"+scaling+"-", "-"+name+"-")
		if fits && len(name) > len(best) {
			best = name
		}
	}
	return best
}

// managedName is what EKS calls the Auto Scaling group of a managed node group.
var managedName = regexp.MustCompile(`^eks-(.+)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

func shortName(scaling string) string {
	if m := managedName.FindStringSubmatch(scaling); m != nil {
		return m[1]
	}
	return scaling
}

// describe fills in what can be seen on the nodes of a group.
func describe(g *awsplug.NodeGroup, nodes []*corev1.Node, cluster string) {
	discovery := map[string]string{"karpenter.sh/discovery": cluster}
	g.Class = awsv1.EC2NodeClassSpec{
		Role:                       "KarpenterNodeRole-" + cluster,
		SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: discovery}},
		SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: discovery}},
		AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
	}
	g.Left = append(g.Left, "role, subnets, security groups, disks and user data: the snapshot does not have them; see that role and tags of the class are right, or import --from aws")
	if len(nodes) == 0 {
		g.CapacityTypes = []string{karpv1.CapacityTypeOnDemand}
		g.Left = append(g.Left, "instance types, labels, taints and image: no node of the group is in the snapshot")
		return
	}
	g.Now, g.Largest = int32(len(nodes)), corev1.ResourceList{}
	g.Labels, g.Taints = maps.Clone(nodes[0].Labels), nil
	for _, t := range nodes[0].Spec.Taints {
		// Taints that come and go with the state of a node are no part of the group.
		if !strings.Contains(t.Key, "node.kubernetes.io/") && !strings.Contains(t.Key, "node.cloudprovider.kubernetes.io/") && t.Key != "ToBeDeletedByClusterAutoscaler" && t.Key != "DeletionCandidateOfClusterAutoscaler" {
			g.Taints = append(g.Taints, karpv1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
	for _, n := range nodes {
		g.Types = append(g.Types, n.Labels[corev1.LabelInstanceTypeStable])
		g.CapacityTypes = append(g.CapacityTypes, capacityOf(n))
		g.Instances = append(g.Instances, instanceOf(n))
		maps.DeleteFunc(g.Labels, func(key, value string) bool { return n.Labels[key] != value })
		for kind, size := range n.Status.Capacity {
			if most := g.Largest[kind]; (kind == corev1.ResourceCPU || kind == corev1.ResourceMemory) && size.Cmp(most) > 0 {
				g.Largest[kind] = size
			}
		}
	}
	for _, list := range []*[]string{&g.Types, &g.CapacityTypes} {
		slices.Sort(*list)
		*list = slices.DeleteFunc(slices.Compact(*list), func(s string) bool { return s == "" })
	}
	if alias := aliasOfSystem(nodes[0].Status.NodeInfo.OSImage); alias != "" {
		g.Class.AMISelectorTerms[0].Alias = alias + "@latest"
	} else {
		g.Left = append(g.Left, fmt.Sprintf("image: its nodes run %q, the class takes Amazon Linux 2023", nodes[0].Status.NodeInfo.OSImage))
	}
}

// capacityOf reads the labels by which groups say what their instances are.
func capacityOf(n *corev1.Node) string {
	for _, key := range []string{"eks.amazonaws.com/capacityType", "node-lifecycle", "node.kubernetes.io/lifecycle", "lifecycle"} {
		switch strings.ToLower(n.Labels[key]) {
		case "spot", "ec2spot":
			return karpv1.CapacityTypeSpot
		}
	}
	return karpv1.CapacityTypeOnDemand
}

// aliasOfSystem is the image family of what a kubelet says that it runs on.
func aliasOfSystem(system string) string {
	for _, f := range []struct{ begin, alias string }{
		{"Amazon Linux 2023", "al2023"},
		{"Amazon Linux 2", "al2"},
		{"Bottlerocket", "bottlerocket"},
		{"Windows Server 2019", "windows2019"},
		{"Windows Server 2022", "windows2022"},
		{"Windows Server 2025", "windows2025"},
	} {
		if strings.HasPrefix(system, f.begin) {
			return f.alias
		}
	}
	return ""
}
