package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
)

// maxShown bounds how many lines a list has.
const maxShown = 30

func parseShow(l scriptLine) (action, error) {
	if len(l.args) != 1 || !slices.Contains([]string{"nodes", "claims", "pods"}, l.args[0]) {
		return nil, errors.New("it takes one of nodes, claims, pods")
	}
	return func(ctx context.Context, c *Cluster) (string, error) { return show(ctx, c, l.args[0]) }, nil
}

// show lists what there is.
func show(ctx context.Context, c *Cluster, what string) (string, error) {
	s, err := c.look(ctx)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	rows := 0
	row := func(format string, args ...any) {
		if rows++; rows <= maxShown {
			fmt.Fprintf(table, format+"\n", args...)
		}
	}
	switch what {
	case "nodes":
		for _, n := range s.nodes {
			row("%s\t%s\t%s\t%s\t%s", n.Name, n.Labels[corev1.LabelInstanceTypeStable], n.Labels[karpv1.CapacityTypeLabelKey], n.Labels[corev1.LabelTopologyZone],
				plural(int(s.countPods(func(p *corev1.Pod) bool { return p.Spec.NodeName == n.Name })), "pod"))
		}
		row("%s, $%.4f an hour by the price list", plural(len(s.nodes), "node"), s.cost)
	case "claims":
		for i := range s.claims {
			claim := &s.claims[i]
			row("%s\t%s\t%s", claim.Name, claim.Status.NodeName, lastCondition(claim))
		}
	case "pods":
		for _, p := range s.pods {
			if p.Status.Phase != corev1.PodRunning {
				row("%s/%s\t%s\t%s", p.Namespace, p.Name, p.Status.Phase, p.Spec.NodeName)
			}
		}
		row("%g of %d pods are running", gauges["pods-running"](s), len(s.pods))
	}
	if err := table.Flush(); err != nil {
		return "", err
	}
	if rows > maxShown {
		fmt.Fprintf(&text, "and %d more\n", rows-maxShown)
	}
	return text.String(), nil
}

// lastCondition is the condition of a claim that changed last.
func lastCondition(claim *karpv1.NodeClaim) string {
	conditions := claim.GetConditions()
	if len(conditions) == 0 {
		return "new"
	}
	last := conditions[0]
	for _, condition := range conditions[1:] {
		if condition.LastTransitionTime.After(last.LastTransitionTime.Time) {
			last = condition
		}
	}
	return fmt.Sprintf("%s=%s %s", last.Type, last.Status, last.Message)
}
