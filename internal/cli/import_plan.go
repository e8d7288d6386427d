package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/aws/awsplug"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/model"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

// comparison is what the nodes of groups cost, and what the nodes of pools for the same pods would.
type comparison struct {
	before, after model.Cost
	// unpriced counts nodes of groups whose type is not in the catalogue.
	unpriced int
	plan     *planReport
	words    string
	// mark stands before prices: that of estimates, if they are.
	mark string
}

// compare takes the nodes of the groups away and asks the engine what it would make instead.
func (m *importing) compare(ctx context.Context, facts *clusterFacts, proposals []*proposal) (*comparison, error) {
	objects, _, err := dump.Read(facts.raw)
	if err != nil {
		return nil, err
	}
	catalog, words, err := m.prices(ctx, facts)
	if err != nil {
		return nil, err
	}
	c := &comparison{words: words}
	if m.catalog == "" {
		c.mark = about(words)
	}
	gone := map[string]bool{}
	for _, p := range proposals {
		for i := range p.groups {
			for _, node := range facts.nodes {
				if ofGroup(node, &p.groups[i]) {
					gone[node.Name] = true
				}
			}
		}
		objects.Pools = append(objects.Pools, p.pool)
	}
	for _, node := range facts.nodes {
		if gone[node.Name] {
			c.count(node, catalog)
		}
	}
	objects.Nodes = slices.DeleteFunc(objects.Nodes, func(n *corev1.Node) bool { return gone[n.Name] })
	unbind(objects, gone)
	snap, _ := state.Build(objects, catalog, knownLabels)
	plan := pack.Solve(snap, pack.Options{Workers: 1})
	c.plan = newPlanReport(snap, plan)
	c.after = model.Cost{Nodes: len(plan.Nodes), Price: plan.Price}
	return c, nil
}

// unbind has the pods of nodes that are gone become pending, but for those that come with every node.
func unbind(objects *dump.Objects, gone map[string]bool) {
	kept := objects.Pods[:0]
	for _, pod := range objects.Pods {
		if !gone[pod.Spec.NodeName] {
			kept = append(kept, pod)
			continue
		}
		daemon := slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" || o.Kind == "Node" })
		if daemon || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		moved := *pod
		moved.Spec.NodeName = ""
		moved.Status.Phase, moved.Status.NominatedNodeName = corev1.PodPending, ""
		moved.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		kept = append(kept, &moved)
	}
	objects.Pods = kept
}

// prices are those of the file, or what this program knows by itself.
func (m *importing) prices(ctx context.Context, facts *clusterFacts) (*dump.Catalog, string, error) {
	if m.catalog != "" {
		catalog, err := readCatalogFile(m.catalog)
		return catalog, "prices of " + m.catalog, err
	}
	seen, err := readFacts(facts.raw)
	if err != nil {
		return nil, "", err
	}
	var cache builtInCache
	catalogues, words, err := cache.load(ctx, seen)
	if err != nil {
		return nil, "", err
	}
	return catalogues[state.AnyClass], words, nil
}

// ofGroup reports whether a node is an instance of a group.
func ofGroup(node *corev1.Node, g *awsplug.NodeGroup) bool {
	if node.Labels[karpv1.NodePoolLabelKey] != "" {
		return false
	}
	return groupOf(node) == g.Name || slices.Contains(g.Instances, instanceOf(node))
}

// count adds a node to what there was.
func (c *comparison) count(node *corev1.Node, catalog *dump.Catalog) {
	c.before.Nodes++
	capacity, zone, name := capacityOf(node), node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelInstanceTypeStable]
	for i := range catalog.InstanceTypes {
		if catalog.InstanceTypes[i].Name != name {
			continue
		}
		for _, o := range catalog.InstanceTypes[i].Offerings {
			if o.Zone == zone && o.CapacityType == capacity {
				c.before.Price += o.Price
				return
			}
		}
	}
	c.unpriced++
}

// maxPlanLines bounds what is said about unschedulable pods.
const maxPlanLines = 10

// comment writes the comparison as comments, so that the output stays what kubectl takes.
func (c *comparison) comment(b *strings.Builder) {
	fmt.Fprintf(b, "# Cost now: %s of these groups for %s%s", count(c.before.Nodes, "node", "nodes"), c.mark, why.Money(c.before.Price))
	if c.unpriced > 0 {
		fmt.Fprintf(b, ", %d of them without a known price", c.unpriced)
	}
	fmt.Fprintf(b, ".\n# Cost with these pools: %s for %s%s", count(c.after.Nodes, "node", "nodes"), c.mark, why.Money(c.after.Price))
	if c.before.Price > 0 && c.unpriced == 0 && c.plan.Unplaced == 0 {
		word, share := "less", 1-c.after.Price/c.before.Price
		if share < 0 {
			word, share = "more", -share
		}
		fmt.Fprintf(b, ", %s %s", why.Tenths(share), word)
	}
	fmt.Fprintf(b, "; %d of %s placed (%s).\n", c.plan.Placed, count(c.plan.Pods, "pod", "pods"), c.words)
	for i, n := range c.plan.Nodes {
		if i == maxPlanLines {
			fmt.Fprintf(b, "#   %s\n", why.More(len(c.plan.Nodes)-maxPlanLines))
			break
		}
		fmt.Fprintf(b, "#   %s: %s, %s, %s, %s%s for %s\n", n.Name(), n.Node.Type, n.Zone, n.CapacityType, c.mark, why.Money(n.Price), shortPods(n.Pods))
	}
	for i := range c.plan.Pending {
		if i == maxPlanLines {
			fmt.Fprintf(b, "#   %s\n", why.MoreOf(len(c.plan.Pending)-maxPlanLines, "group of unschedulable pods", "groups of unschedulable pods"))
			break
		}
		fmt.Fprintf(b, "#   unschedulable: %s: %s\n", shortPods(c.plan.Pending[i].Pods), c.plan.Pending[i].Summary)
	}
}
