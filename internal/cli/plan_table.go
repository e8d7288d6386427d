package cli

import (
	"fmt"
	"io"
	"strings"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/why"
	"karpenter/internal/model"
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
			rows = append(rows, []string{e.Name(), shortPods(e.Pods)})
		}
		fmt.Fprintln(w)
		if err := l.list(w, rows); err != nil {
			return fmt.Errorf("print plan: %w", err)
		}
	}
	if len(r.Static) > 0 {
		rows := [][]string{{"STATIC POOL", "NODES", "NEXT"}}
		for i := range r.Static {
			s := &r.Static[i]
			rows = append(rows, []string{s.Pool, fmt.Sprintf("%d of %d", s.StaticPool.Nodes, s.Replicas), s.Words()})
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
		cells := []string{"", n.Node.Type, n.Zone, n.CapacityType, why.Price(n.Price), "", fmt.Sprint(len(n.Types) - 1), marked(reasonLines(n.Why), r.Estimate)}
		key := fmt.Sprint(n.Pool, len(n.Pods), cells)
		i, known := row[key]
		if !known || every {
			i, row[key] = len(rows), len(rows)
			rows, names, pods = append(rows, cells), append(names, nil), append(pods, nil)
		}
		names[i], pods[i] = append(names[i], n.Name()), append(pods[i], n.Pods...)
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
	printPending(w, r.Pending)
	printIgnored(w, r.Ignored)
	fmt.Fprintf(w, "\n%s: %d placed, %d unschedulable. %s for %s%s. Planned in %.1f ms.\n",
		count(r.Pods, "pod", "pods"), r.Placed, r.Unplaced, count(len(r.Nodes), "new node", "new nodes"), why.Money(r.Total), gap(r.Total, r.Bound), r.SolveMillis)
	if r.NodeCost > 0 {
		fmt.Fprintf(w, "What nodes cost besides their price (%s: address, daemons, image pulls): %s; %s in all%s.\n",
			v1.NodeCostAnnotationKey, why.Money(r.NodeCost), why.Money(r.Total+r.NodeCost), gap(r.Total+r.NodeCost, r.CostBound))
	}
	fmt.Fprintln(w, summary(len(r.Nodes), r.removed(), (r.Total-r.saved())*model.HoursPerMonth))
	printEstimate(w, r.Estimate)
}

// gap says how far a cost is above the least possible.
func gap(cost, bound float64) string {
	if bound <= 0 {
		return ""
	}
	return fmt.Sprintf(", %s above the least possible %s", why.Tenths(cost/bound-1), why.Money(bound))
}

// printPending lists groups of pods that nothing can be done for, with the main reason and what it rests on.
func printPending(w io.Writer, list []model.Pending) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "\nUNSCHEDULABLE")
	for i := range list {
		p := &list[i]
		if i == maxShown {
			fmt.Fprintln(w, why.More(len(list)-maxShown))
			break
		}
		note := ""
		if p.Already {
			note = " (with or without the change)"
		}
		fmt.Fprintf(w, "%s%s: %s\n", shortPods(p.Pods), note, p.Summary)
		for _, x := range p.Why {
			if line := x.Line(); line != p.Summary {
				fmt.Fprintf(w, "  %s\n", line)
			}
		}
	}
}

// printIgnored lists what was set aside.
func printIgnored(w io.Writer, list []ignoredThing) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "\nIGNORED")
	for i, x := range list {
		if i == maxShown {
			fmt.Fprintln(w, why.More(len(list)-maxShown))
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
