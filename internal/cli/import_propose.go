package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/aws/awsplug"
)

// proposal is a pool and its class, for one group or for several that are alike.
type proposal struct {
	groups []awsplug.NodeGroup
	pool   *karpv1.NodePool
	class  *awsv1.EC2NodeClass
	// shared says that an earlier proposal has the class.
	shared bool
	left   []string
}

// propose makes a pool for every set of groups that differ only in their sizes and subnets. Classes that are the same are
// proposed once.
func propose(groups []awsplug.NodeGroup, facts *clusterFacts) []*proposal {
	var out []*proposal
	index, names := map[string]*proposal{}, map[string]bool{}
	for _, g := range groups {
		key := likeness(&g)
		if p := index[key]; p != nil {
			p.groups = append(p.groups, g)
			continue
		}
		index[key] = &proposal{groups: []awsplug.NodeGroup{g}}
		out = append(out, index[key])
	}
	classes := map[string]*awsv1.EC2NodeClass{}
	for _, p := range out {
		p.build(unused(objectName(p.groups), names), facts)
		key := text(p.class.Spec)
		if same := classes[key]; same != nil {
			p.class, p.shared = same, true
			p.pool.Spec.Template.Spec.NodeClassRef.Name = same.Name
			continue
		}
		classes[key] = p.class
	}
	return out
}

// text is a value in a form that can be compared.
func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(raw)
}

// likeness is equal for groups that one pool can stand for.
func likeness(g *awsplug.NodeGroup) string {
	class := g.Class
	class.SubnetSelectorTerms = nil
	return text([]any{g.Kind, g.Types, g.Requirements, g.CapacityTypes, g.Arch, keptLabels(g.Labels), g.Labels[lifecycleLabel], g.Taints, g.Lifetime, class})
}

// objectName is the name of a group, or what the names of several begin with, as Kubernetes allows it.
func objectName(groups []awsplug.NodeGroup) string {
	name := groups[0].Name
	for _, g := range groups[1:] {
		n := 0
		for n < len(name) && n < len(g.Name) && name[n] == g.Name[n] {
			n++
		}
		name = name[:n]
	}
	if len(strings.Trim(name, "-_.")) < 3 {
		name = groups[0].Name
	}
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return strings.Trim(name[:min(len(name), 60)], "-")
}

// unused appends a number to a name that is taken.
func unused(name string, taken map[string]bool) string {
	try := name
	for i := 2; taken[try]; i++ {
		try = fmt.Sprintf("%s-%d", name, i)
	}
	taken[try] = true
	return try
}

func (p *proposal) build(name string, facts *clusterFacts) {
	first := &p.groups[0]
	p.class = &awsv1.EC2NodeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: awsv1.SchemeGroupVersion.String(), Kind: awsv1.EC2NodeClassKind},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *first.Class.DeepCopy(),
	}
	for _, g := range p.groups {
		p.left = append(p.left, g.Left...)
		if g.Min > 0 {
			p.left = append(p.left, fmt.Sprintf("the least size %d of %s: a pool scales down to no node; pods that must have room at once need spare pods of low priority", g.Min, g.Name))
		}
	}
	p.fillClass()
	p.pool = &karpv1.NodePool{TypeMeta: metav1.TypeMeta{APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodePool"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	spec := &p.pool.Spec.Template.Spec
	spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: name}
	spec.Requirements = requirements(first, p.class)
	spec.Taints = first.Taints
	spec.ExpireAfter = karpv1.NeverDuration() // as groups do; image updates come by drift
	if first.Lifetime > 0 {
		spec.ExpireAfter = readable(first.Lifetime)
	}
	p.pool.Spec.Template.Labels = p.labels(first)
	after, never := facts.scaleDown()
	p.pool.Spec.Disruption = karpv1.Disruption{ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized, ConsolidateAfter: readable(after)}
	if never {
		p.pool.Spec.Disruption.ConsolidateAfter = karpv1.NeverDuration()
	}
	p.pool.Spec.Limits = p.limits()
	slices.Sort(p.left)
	p.left = slices.Compact(p.left)
}

// readable is a duration as people write it: 10m, not 10m0s.
func readable(d time.Duration) karpv1.NillableDuration {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return karpv1.NillableDuration{Duration: &d, Text: text}
}

// fillClass adds the subnets of the other groups, and what a class cannot be without.
func (p *proposal) fillClass() {
	spec := &p.class.Spec
	for _, g := range p.groups[1:] {
		for _, term := range g.Class.SubnetSelectorTerms {
			if !slices.ContainsFunc(spec.SubnetSelectorTerms, func(t awsv1.SubnetSelectorTerm) bool { return text(t) == text(term) }) {
				spec.SubnetSelectorTerms = append(spec.SubnetSelectorTerms, term)
			}
		}
	}
	if len(spec.AMISelectorTerms) == 0 {
		spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
		p.left = append(p.left, "image: none is known, the class takes Amazon Linux 2023")
	}
	if len(spec.SubnetSelectorTerms) == 0 || len(spec.SecurityGroupSelectorTerms) == 0 || spec.Role == "" && spec.InstanceProfile == nil {
		p.left = append(p.left, "subnets, security groups or role: the group does not say; fill them in before you apply the class")
	}
}

func requirements(g *awsplug.NodeGroup, class *awsv1.EC2NodeClass) []karpv1.NodeSelectorRequirementWithMinValues {
	in := func(key string, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	out := []karpv1.NodeSelectorRequirementWithMinValues{in(karpv1.CapacityTypeLabelKey, g.CapacityTypes...)}
	if g.Arch != "" {
		out = append(out, in(corev1.LabelArchStable, g.Arch))
	}
	if strings.HasPrefix(class.Spec.AMISelectorTerms[0].Alias, "windows") {
		out = append(out, in(corev1.LabelOSStable, "windows"))
	}
	if len(g.Types) > 0 {
		out = append(out, in(corev1.LabelInstanceTypeStable, g.Types...))
	}
	if len(g.Types)+len(g.Requirements) > 0 {
		return append(out, g.Requirements...)
	}
	return append(out, in(awsv1.LabelInstanceCategory, "c", "m", "r"),
		karpv1.NodeSelectorRequirementWithMinValues{Key: awsv1.LabelInstanceGeneration, Operator: corev1.NodeSelectorOpGt, Values: []string{"4"}})
}

// limits are what the groups together may grow to. Where the size of a group or of its types is not known there are none.
func (p *proposal) limits() karpv1.Limits {
	total := karpv1.Limits{}
	for i := range p.groups {
		g := &p.groups[i]
		if g.Max == 0 || len(g.Largest) == 0 {
			p.left = append(p.left, "limits: sizes of "+g.Name+" are not known; set spec.limits, or the pool grows as far as pods ask")
			return nil
		}
		for kind, size := range g.Largest {
			sum := total[kind]
			for range g.Max {
				sum.Add(size)
			}
			total[kind] = sum
		}
	}
	if memory, ok := total[corev1.ResourceMemory]; ok {
		gib := (memory.Value() + 1<<30 - 1) >> 30
		total[corev1.ResourceMemory] = resource.MustParse(fmt.Sprintf("%dGi", gib))
	}
	return total
}

// What groups say by labels about how their instances are paid for. Of a pool it is karpenter.sh/capacity-type that says it.
const (
	eksCapacityLabel = "eks.amazonaws.com/capacityType"
	lifecycleLabel   = "node.kubernetes.io/lifecycle"
)

// labels are those of the pool's nodes. Pods select by labels that say spot or on-demand: one that people have put there goes with
// the pool while it stays true, and what does not is named.
func (p *proposal) labels(g *awsplug.NodeGroup) map[string]string {
	kept := keptLabels(g.Labels)
	one := len(g.CapacityTypes) == 1
	if value := g.Labels[lifecycleLabel]; value != "" && one {
		if kept == nil {
			kept = map[string]string{}
		}
		kept[lifecycleLabel] = value
	} else if value != "" {
		p.left = append(p.left, fmt.Sprintf("the label %s=%s: nodes of the pool are of several capacity types; pods that select by it select by %s instead", lifecycleLabel, value, karpv1.CapacityTypeLabelKey))
	}
	if g.Labels[eksCapacityLabel] != "" || strings.HasPrefix(g.Kind, "EKS") {
		p.left = append(p.left, fmt.Sprintf("the label %s, which EKS puts on nodes of its groups: pods that select by it select by %s instead", eksCapacityLabel, karpv1.CapacityTypeLabelKey))
	}
	return kept
}

// ownedDomains are those whose labels Kubernetes, AWS or the group's owner puts on nodes: a pool must not, or need not.
var ownedDomains = []string{"kubernetes.io", "k8s.io", "k8s.aws", "amazonaws.com", "csi.aws.com", "eksctl.io", "karpenter.sh"}

// keptLabels are those that a pool should put on its nodes too.
func keptLabels(labels map[string]string) map[string]string {
	kept := maps.Clone(labels)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		domain, _, has := strings.Cut(key, "/")
		return has && slices.ContainsFunc(ownedDomains, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
	})
	if len(kept) == 0 {
		return nil
	}
	return kept
}
