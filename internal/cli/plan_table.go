package cli

import (
	"fmt"
	"io"
	"strings"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/explain"
)

// maxShown bounds the lines per section, so that a plan for ten thousand pods stays readable; -o json has all of them.
const maxShown = 40

// print writes the plan for people.
func (r *planReport) print(w io.Writer, l look) error {
	if len(r.Nodes) > 0 {
		rows := [][]string{{"NEW NODE", "TYPE", "ZONE", "CAPACITY", about(r.Estimate) + "$/H", "PODS", "OTHER TYPES", "WHY"}}
		if err := l.list(w, append(rows, r.newRows(l.wide)...)); err != nil {
			return fmt.Errorf("print plan: %w", err)
		}
	}
	if len(r.Existing) > 0 {
		rows := [][]string{{"EXISTING NODE", "PODS"}}
		for _, e := range r.Existing {
			rows = append(rows, []string{e.Node, shortPods(e.Pods)})
		}
		fmt.Fprintln(w)
		if err := l.list(w, rows); err != nil {
			return fmt.Errorf("print plan: %w", err)
		}
	}
	r.printRest(w)
	return nil
}

// newRows are the new nodes, those that are alike as one row unless every one is to be shown.
func (r *planReport) newRows(every bool) [][]string {
	var rows [][]string
	var names, pods [][]string // by row
	row := map[string]int{}
	for _, n := range r.Nodes {
		var reasons []string
		for _, x := range n.Why {
			reasons = append(reasons, x.Line())
		}
		cells := []string{"", n.InstanceType, n.Zone, n.CapacityType, fmt.Sprintf("%.4f", n.Price), "", fmt.Sprint(len(n.Alternatives)), marked(strings.Join(reasons, "; "), r.Estimate)}
		key := fmt.Sprint(n.Pool, len(n.Pods), cells)
		i, known := row[key]
		if !known || every {
			i, row[key] = len(rows), len(rows)
			rows, names, pods = append(rows, cells), append(names, nil), append(pods, nil)
		}
		names[i], pods[i] = append(names[i], n.Name), append(pods[i], n.Pods...)
	}
	for i := range rows {
		rows[i][0], rows[i][1], rows[i][5] = shortPods(names[i]), several(len(names[i]), rows[i][1]), shortPods(pods[i])
	}
	return rows
}

// several is a type, with how many of it there are if that is not one.
func several(n int, typ string) string {
	if n == 1 {
		return typ
	}
	return fmt.Sprintf("%d × %s", n, typ)
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
	fmt.Fprintln(w, summary(len(r.Nodes), 0, r.Total*explain.HoursPerMonth))
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
