package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	v1 "karpenter/api/karpenter/v1"
)

// maxShown bounds the lines per section, so that a plan for ten thousand pods stays readable; -o json has all of them.
const maxShown = 40

// print writes the plan for people.
func (r *planReport) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if len(r.Nodes) > 0 {
		fmt.Fprintf(tw, "NEW NODE\tTYPE\tZONE\tCAPACITY\t%s$/H\tPODS\tOTHER TYPES\tWHY\n", about(r.Estimate))
		for i, n := range r.Nodes {
			if i == maxShown {
				fmt.Fprintf(tw, "… %d more\n", len(r.Nodes)-maxShown)
				break
			}
			var reasons []string
			for _, x := range n.Why {
				reasons = append(reasons, x.Line())
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%.4f\t%s\t%d\t%s\n", n.Name, n.InstanceType, n.Zone, n.CapacityType, n.Price, shortPods(n.Pods), len(n.Alternatives), strings.Join(reasons, "; "))
		}
	}
	if len(r.Existing) > 0 {
		fmt.Fprintln(tw, "\nEXISTING NODE\tPODS")
		for i, e := range r.Existing {
			if i == maxShown {
				fmt.Fprintf(tw, "… %d more\n", len(r.Existing)-maxShown)
				break
			}
			fmt.Fprintf(tw, "%s\t%s\n", e.Node, shortPods(e.Pods))
		}
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print plan: %w", err)
	}
	r.printRest(w)
	return nil
}

func (r *planReport) printRest(w io.Writer) {
	if len(r.UnplacedPods) > 0 {
		fmt.Fprintln(w, "\nUNSCHEDULABLE")
		for i, u := range r.UnplacedPods {
			if i == maxShown {
				fmt.Fprintf(w, "… %d more\n", len(r.UnplacedPods)-maxShown)
				break
			}
			fmt.Fprintf(w, "%s\n", u.Pod)
			for _, x := range u.Reasons {
				fmt.Fprintf(w, "  %s\n", x)
			}
		}
	}
	printIgnored(w, r.Ignored)
	fmt.Fprintf(w, "\n%s: %d placed, %d unschedulable. %s for $%.4f/h%s. Planned in %.1f ms.\n",
		count(r.Pods, "pod", "pods"), r.Placed, r.Unplaced, count(len(r.Nodes), "new node", "new nodes"), r.Total, gap(r.Total, r.Bound), r.SolveMillis)
	if r.NodeCost > 0 {
		fmt.Fprintf(w, "What nodes cost besides their price (%s: address, daemons, image pulls): $%.4f/h; $%.4f/h in all%s.\n",
			v1.NodeCostAnnotationKey, r.NodeCost, r.Total+r.NodeCost, gap(r.Total+r.NodeCost, r.CostBound))
	}
	printEstimate(w, r.Estimate)
}

// gap says how far a cost is above the least possible.
func gap(cost, bound float64) string {
	if bound <= 0 {
		return ""
	}
	return fmt.Sprintf(", %.1f %% above the least possible $%.4f/h", 100*(cost/bound-1), bound)
}

// printIgnored lists what was set aside.
func printIgnored(w io.Writer, list []ignoredThing) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "\nIGNORED")
	for i, x := range list {
		if i == maxShown {
			fmt.Fprintf(w, "… %d more\n", len(list)-maxShown)
			break
		}
		fmt.Fprintf(w, "%s: %s\n", x.Object, x.Reason)
	}
}

// shortPods names the first pods and counts the rest.
func shortPods(pods []string) string {
	if len(pods) <= 2 {
		return strings.Join(pods, " ")
	}
	return fmt.Sprintf("%s … %d in all", pods[0], len(pods))
}
