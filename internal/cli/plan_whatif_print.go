package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"karpenter/internal/engine/why"
	"karpenter/internal/model"
)

// newNode stands for the name of a node that has none yet.
const newNode = "(new)"

// row is one line of the list of nodes.
type row struct{ sign, node, typ, zone, capacityType, price, pool, pods, why string }

func nodeRow(sign string, m *model.PlannedNode, because string) row {
	name := m.Name()
	if m.New {
		name = newNode
	}
	return row{sign, name, m.Node.Type, m.Zone, m.CapacityType, why.Price(m.Price), m.Pool, fmt.Sprint(len(m.Pods)), because}
}

// rows lists the nodes that the change is about.
func (r *whatIf) rows() []row {
	var out []row
	for i := range r.Add {
		out = append(out, nodeRow("+", &r.Add[i], reasonLines(r.Add[i].Why)))
	}
	for i := range r.Remove {
		out = append(out, nodeRow("-", &r.Remove[i], r.whyGone(r.Remove[i].Name())))
	}
	for _, x := range r.Replace {
		for i := range x.Remove {
			out = append(out, nodeRow("~", &x.Remove[i], x.Reason+": replaced by "+kinds(x.Add)))
		}
		for i := range x.Add {
			out = append(out, nodeRow("~", &x.Add[i], "replacement"))
		}
	}
	for i := range r.Avoid {
		out = append(out, nodeRow("-", &r.Avoid[i], "would have been launched, and is not needed"))
	}
	for i := range r.Keep {
		out = append(out, nodeRow("=", &r.Keep[i], "would have been removed, and stays"))
	}
	return out
}

// whyGone is why a node is removed in the forecast.
func (r *whatIf) whyGone(node string) string {
	for _, m := range r.Moves {
		for _, name := range m.Remove {
			if name == node {
				return m.Why.Line()
			}
		}
	}
	return "it is being deleted already"
}

// kinds names the types of nodes.
func kinds(list []model.PlannedNode) string {
	var names []string
	for _, m := range list {
		names = append(names, m.Node.Type)
	}
	return shortPods(names)
}

// sums are the lines about money.
func (r *whatIf) sums() [][4]string {
	line := func(name string, f model.Cost) [4]string {
		return [4]string{name, fmt.Sprint(f.Nodes), why.Price(f.Price), fmt.Sprintf("%.2f", f.Price*model.HoursPerMonth)}
	}
	return [][4]string{
		line("now", r.Now), line("without the change, settled", r.Without), line("with it, settled", r.With),
		{"difference", fmt.Sprintf("%+d", r.With.Nodes-r.Without.Nodes), fmt.Sprintf("%+.4f", r.PerHour), fmt.Sprintf("%+.2f", r.PerMonth)},
	}
}

// remarks are the sentences about restarts, drift and time.
func (r *whatIf) remarks() []string {
	out := []string{fmt.Sprintf("%s (%d without the change).", count(r.Evicts, "pod restarts", "pods restart"), r.Besides)}
	if len(r.Drift) > 0 {
		out = append(out, fmt.Sprintf("%s: %s.", count(len(r.Drift), "node drifts", "nodes drift"), r.driftWords()))
	}
	if r.Time.Restless {
		out = append(out, "The fleet does not settle: the figures are those of where the forecast ended.")
	}
	took := time.Duration(r.Time.Seconds * float64(time.Second)).Round(time.Second)
	if r.Time.Rounds == 0 {
		return append(out, "There is nothing to do.")
	}
	return append(out, fmt.Sprintf("It takes about %s in %s (an estimate: %s).", took, count(r.Time.Rounds, "round", "rounds"), r.Time.How))
}

// count says how many of something there are.
func count(n int, one, many string) string { return why.Plural(n, one, many) }

// reasonLines is reasons in one line.
func reasonLines(list []why.Reason) string {
	out := make([]string, len(list))
	for i, r := range list {
		out[i] = r.Line()
	}
	return strings.Join(out, "; ")
}

// signed is count for a difference: +1 node, -2 nodes, +0 nodes.
func signed(n int, one, many string) string {
	if n == 1 || n == -1 {
		many = one
	}
	return fmt.Sprintf("%+d %s", n, many)
}

// driftWords says why nodes drift, each reason once.
func (r *whatIf) driftWords() string {
	var out []string
	seen := map[string]bool{}
	for _, d := range r.Drift {
		if text := d.Reason + ", " + d.Message; !seen[text] {
			seen[text] = true
			out = append(out, text)
		}
	}
	return shortPods(out)
}

func (r *whatIf) table(w io.Writer, l look) error {
	for _, text := range r.Changes {
		fmt.Fprintln(w, text)
	}
	fmt.Fprintln(w)
	if rows := r.rows(); len(rows) > 0 {
		lines := [][]string{{"", "NODE", "TYPE", "ZONE", "CAPACITY", about(r.Estimate) + "$/H", "POOL", "PODS", "WHY"}}
		if !l.wide {
			rows = grouped(rows)
		}
		for _, x := range rows {
			lines = append(lines, []string{x.sign, x.node, x.typ, x.zone, x.capacityType, x.price, x.pool, x.pods, marked(x.why, r.Estimate)})
		}
		if err := l.list(w, lines); err != nil {
			return fmt.Errorf("print plan: %w", err)
		}
	} else {
		fmt.Fprintln(w, "No node is added, removed or replaced.")
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(tw, "\n\tNODES\t%[1]s$/H\t%[1]s$/MONTH\n", about(r.Estimate))
	for _, x := range r.sums() {
		fmt.Fprintln(tw, strings.Join(x[:], "\t"))
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print plan: %w", err)
	}
	printPending(w, r.Pending)
	r.printHeld(w)
	printIgnored(w, r.Ignored)
	fmt.Fprintln(w)
	for _, text := range r.remarks() {
		fmt.Fprintln(w, text)
	}
	fmt.Fprintln(w, r.summary())
	printEstimate(w, r.Estimate)
	return nil
}

// summary counts the nodes that are launched and removed, those of replacements among them.
func (r *whatIf) summary() string {
	add, remove := len(r.Add), len(r.Remove)
	for _, x := range r.Replace {
		add, remove = add+len(x.Add), remove+len(x.Remove)
	}
	return summary(add, remove, r.PerMonth)
}

// grouped puts rows of new nodes that are alike and stand together into one, with how many there are before the type.
func grouped(rows []row) []row {
	var out []row
	for i := 0; i < len(rows); {
		n := 1
		for rows[i].node == newNode && i+n < len(rows) && rows[i+n] == rows[i] {
			n++
		}
		one := rows[i]
		one.typ = several(n, one.typ)
		out = append(out, one)
		i += n
	}
	return out
}

func (r *whatIf) printHeld(w io.Writer) {
	if len(r.Held) == 0 {
		return
	}
	fmt.Fprintln(w, "\nPOOLS THAT MAKE NO NODES")
	for _, h := range r.Held {
		fmt.Fprintf(w, "%s %s\n", h.Pool, h.Why)
	}
}

// markdown prints for a pull request.
func (r *whatIf) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### Karpenter plan: %s, %s%+.2f $/month\n\n", signed(r.With.Nodes-r.Without.Nodes, "node", "nodes"), about(r.Estimate), r.PerMonth)
	for _, text := range r.Changes {
		fmt.Fprintf(&b, "- %s\n", cell(text))
	}
	fmt.Fprintf(&b, "\n| | nodes | %[1]s$/h | %[1]s$/month |\n| --- | ---: | ---: | ---: |\n", about(r.Estimate))
	for _, x := range r.sums() {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(x[:], " | "))
	}
	if rows := grouped(r.rows()); len(rows) > 0 {
		fmt.Fprintf(&b, "\n| | node | type | zone | capacity | %s$/h | pool | pods | why |\n| --- | --- | --- | --- | --- | ---: | --- | ---: | --- |\n", about(r.Estimate))
		for i, x := range rows {
			if i == maxShown {
				fmt.Fprintf(&b, "\n%s\n", why.More(len(rows)-maxShown))
				break
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s | %s | %s |\n", x.sign, x.node, x.typ, x.zone, x.capacityType, x.price, x.pool, x.pods, cell(x.why))
		}
	}
	if len(r.Pending) > 0 {
		b.WriteString("\n**Unschedulable pods**\n\n")
		for i, p := range r.Pending {
			if i == maxShown {
				fmt.Fprintf(&b, "- %s\n", why.More(len(r.Pending)-maxShown))
				break
			}
			note := ""
			if p.Already {
				note = " (with or without the change)"
			}
			fmt.Fprintf(&b, "- %s%s: %s\n", cell(shortPods(p.Pods)), note, cell(p.Summary))
		}
	}
	if len(r.Held) > 0 {
		b.WriteString("\n**Pools that make no nodes**\n\n")
		for _, h := range r.Held {
			fmt.Fprintf(&b, "- %s %s\n", h.Pool, cell(h.Why))
		}
	}
	b.WriteByte('\n')
	for _, text := range r.remarks() {
		fmt.Fprintf(&b, "%s\n", cell(text))
	}
	printEstimate(&b, r.Estimate)
	_, err := io.WriteString(w, b.String())
	return err
}

// cell keeps text from ending a cell of a table, or from being taken for markup.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;", "*", "\\*").Replace(text)
}
