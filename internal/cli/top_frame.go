package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"karpenter/internal/engine/why"
	"karpenter/internal/model"
)

// topView is how a model is looked at: what is chosen by keys.
type topView struct {
	sort    byte // c, u, m, a or n
	reverse bool
	filter  string
	pool    string
	cursor  int
	top     int // the first row that is shown
	typing  bool
	colour  bool
	// message takes the place of the last line: what went wrong with the last refresh.
	message string
}

// topColumn is a column of the table.
type topColumn struct {
	title string
	width int
	// rank says which columns stay as the terminal narrows, the lowest first.
	rank  int
	right bool
	text  func(n *model.FleetNode, m *model.Fleet) string
	// grow lets the column take what room is left, up to most.
	grow, most int
}

// priceTitle stands above prices.
const priceTitle = "$/H"

// topColumns are all columns, in the order in which they are shown.
var topColumns = []topColumn{
	{title: "NODE", width: 18, rank: 1, grow: 3, most: 44, text: func(n *model.FleetNode, _ *model.Fleet) string { return n.Name() }},
	{title: "POOL", width: 10, rank: 13, grow: 4, most: 16, text: func(n *model.FleetNode, _ *model.Fleet) string { return n.Pool }},
	{title: "TYPE", width: 12, rank: 2, grow: 1, most: 16, text: func(n *model.FleetNode, _ *model.Fleet) string { return n.Node.Type }},
	{title: "ZONE", width: 10, rank: 11, text: func(n *model.FleetNode, _ *model.Fleet) string { return n.Zone }},
	{title: "CAPACITY", width: 9, rank: 10, text: func(n *model.FleetNode, _ *model.Fleet) string { return n.CapacityType }},
	{title: "AGE", width: 4, rank: 9, right: true, text: func(n *model.FleetNode, m *model.Fleet) string { return topAge(n.Created, m.At) }},
	{title: priceTitle, width: 7, rank: 6, right: true, text: func(n *model.FleetNode, _ *model.Fleet) string { return topPrice(n.Price) }},
	{title: "CPU", width: 8, rank: 3, text: func(n *model.FleetNode, _ *model.Fleet) string {
		return topBar(n.CPU.Share(), spareShare(model.SpareSum(n.Spare).CPU, n.CPU), 4)
	}},
	{title: "MEMORY", width: 8, rank: 4, text: func(n *model.FleetNode, _ *model.Fleet) string {
		return topBar(n.Memory.Share(), spareShare(model.SpareSum(n.Spare).Memory, n.Memory), 4)
	}},
	{title: "PODS", width: podsWidth, rank: 7, right: true, text: func(n *model.FleetNode, _ *model.Fleet) string { return topPods(n) }},
	{title: "STATE", width: 9, rank: 5, text: func(n *model.FleetNode, _ *model.Fleet) string { return n.Word() }},
	{title: "REMOVE", width: 6, rank: 8, text: func(n *model.FleetNode, m *model.Fleet) string { return topRemovable(n, m) }},
	{title: "WHY", width: 30, rank: 12, grow: 2, most: 80, text: func(n *model.FleetNode, m *model.Fleet) string { return marked(n.Verdict(), m.Estimate) }},
}

// topFit chooses the columns that fit, and how wide they are.
func topFit(width int) []topColumn {
	byRank := slices.Clone(topColumns)
	slices.SortFunc(byRank, func(a, b topColumn) int { return cmp.Compare(a.rank, b.rank) })
	room, last := width, 0
	for _, c := range byRank {
		need := c.width
		if last > 0 {
			need++
		}
		if need > room {
			break
		}
		room, last = room-need, c.rank
	}
	columns := slices.DeleteFunc(slices.Clone(topColumns), func(c topColumn) bool { return c.rank > max(last, 1) })
	for turn := 1; turn <= 4; turn++ {
		for i := range columns {
			if c := &columns[i]; c.grow == turn {
				more := max(0, min(room, c.most-c.width))
				c.width, room = c.width+more, room-more
			}
		}
	}
	return columns
}

// shown lists the nodes that the filters leave, in order.
func (v *topView) shown(m *model.Fleet) []*model.FleetNode {
	var out []*model.FleetNode
	words := strings.Fields(strings.ToLower(v.filter))
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if v.pool != "" && n.Pool != v.pool {
			continue
		}
		text := strings.ToLower(strings.Join([]string{n.Name(), n.Pool, n.Node.Type, n.Zone, n.CapacityType, n.State, n.Word(), n.Verdict()}, " "))
		if slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			continue
		}
		out = append(out, n)
	}
	slices.SortStableFunc(out, func(a, b *model.FleetNode) int {
		order := 0
		switch v.sort {
		case 'u':
			order = -cmp.Compare(a.CPU.Share(), b.CPU.Share())
		case 'm':
			order = -cmp.Compare(a.Memory.Share(), b.Memory.Share())
		case 'a':
			order = a.Created.Compare(b.Created)
		case 'n':
		default:
			order = -cmp.Compare(a.Price, b.Price)
		}
		if order = cmp.Or(order, strings.Compare(a.Name(), b.Name())); v.reverse {
			return -order
		}
		return order
	})
	return out
}

// frame draws the model in lines of at most width characters. A height of 0 shows everything.
func (v *topView) frame(m *model.Fleet, width, height int) []string {
	width = max(width, 20)
	nodes := v.shown(m)
	head := v.head(m, len(nodes), width)
	var foot []string
	if height > 0 {
		foot = v.foot(m, nodes, width)
	}
	rows := len(nodes)
	if height > 0 {
		rows = max(1, height-len(head)-len(foot))
		v.scroll(len(nodes), rows)
	} else {
		v.top = 0
	}
	lines, columns := head, topFit(width)
	for i := v.top; i < min(len(nodes), v.top+rows); i++ {
		line := topRow(columns, func(c *topColumn) string { return c.text(nodes[i], m) })
		lines = append(lines, v.paint(nodes[i], line, height > 0 && i == v.cursor))
	}
	if height == 0 {
		return lines
	}
	for len(lines) < height-len(foot) {
		lines = append(lines, "")
	}
	return append(lines, foot...)
}

// scroll keeps the cursor on a row that is shown.
func (v *topView) scroll(nodes, rows int) {
	v.cursor = max(0, min(v.cursor, nodes-1))
	v.top = max(0, min(v.top, nodes-rows))
	if v.cursor < v.top {
		v.top = v.cursor
	}
	if v.cursor >= v.top+rows {
		v.top = v.cursor - rows + 1
	}
}

// head is what stands above the nodes.
func (v *topView) head(m *model.Fleet, shown, width int) []string {
	t := &m.Totals
	nodes := count(t.Nodes, "node", "nodes")
	if shown != t.Nodes {
		nodes = fmt.Sprintf("%d of ", shown) + nodes
	}
	spare := model.SpareSum(t.Spare)
	lines := []string{
		cut(fmt.Sprintf("%s (%d spot), %[3]s%[4]s, %[3]s%[5]s/month · %[6]s", nodes, t.Spot, about(m.Estimate), why.Money(t.PerHour), why.Dollars(t.PerMonth), m.At.UTC().Format("15:04:05Z")), width),
		cut(fmt.Sprintf("CPU %s · memory %s · %s", topBar(t.CPU.Share(), spareShare(spare.CPU, t.CPU), 10), topBar(t.Memory.Share(), spareShare(spare.Memory, t.Memory), 10), count(int(t.PodSlots.Requested), "pod", "pods")), width),
	}
	if len(m.Static) > 0 {
		words := make([]string, len(m.Static))
		for i, p := range m.Static {
			words[i] = p.Words()
		}
		lines = append(lines, cut("static pools: "+strings.Join(words, ", "), width))
	}
	if spare.Pods > 0 {
		words := make([]string, len(t.Spare))
		for i, x := range t.Spare {
			words[i] = x.Words()
		}
		lines = append(lines, cut(fmt.Sprintf("room for %s ▒: %s", count(spare.Pods, "spare pod", "spare pods"), strings.Join(words, ", ")), width))
	}
	lines = append(lines, v.pending(m, width)...)
	return append(lines, v.bold(topRow(topFit(width), func(c *topColumn) string {
		if c.title == priceTitle {
			return about(m.Estimate) + c.title
		}
		return c.title
	})))
}

// maxWaiting bounds the lines about pending pods.
const maxWaiting = 4

// pending says why pods are pending.
func (v *topView) pending(m *model.Fleet, width int) []string {
	if m.Totals.Pending == 0 {
		return []string{cut("no pods are pending", width), ""}
	}
	lines := []string{cut(count(m.Totals.Pending, "pod is", "pods are")+" pending:", width)}
	for i, p := range m.Pending {
		if i == maxWaiting {
			lines = append(lines, cut("  "+why.MoreOf(len(m.Pending)-maxWaiting, "group", "groups"), width))
			break
		}
		stuck := p.State == model.PendingUnschedulable
		text := fmt.Sprintf("  %s for %s", shortPods(p.Pods), p.Summary)
		if stuck {
			text = fmt.Sprintf("  %s unschedulable: %s", shortPods(p.Pods), p.Summary)
		}
		lines = append(lines, v.warn(stuck, cut(marked(text, m.Estimate), width)))
	}
	return append(lines, "")
}

// foot is what stands below the nodes: the chosen node's reason, and the keys.
func (v *topView) foot(m *model.Fleet, nodes []*model.FleetNode, width int) []string {
	text := ""
	if v.cursor >= 0 && v.cursor < len(nodes) {
		n := nodes[v.cursor]
		switch n.Removable {
		case "yes":
			text = fmt.Sprintf("%s could be removed, %s less. %s", n.Name(), why.Money(n.Saves), n.Verdict())
		case "no":
			text = fmt.Sprintf("%s stays: %s", n.Name(), n.Verdict())
		default:
			text = n.Name()
		}
	}
	keys := "q quit  sort: c cost u cpu m memory a age n name  / filter  p pool  ↑↓ move"
	switch {
	case v.typing:
		keys = "filter: " + v.filter + "▏ (Enter keeps it, Esc drops it)"
	case v.message != "":
		keys = v.message
	case v.filter != "" || v.pool != "":
		keys = strings.TrimSpace(fmt.Sprintf("filter: %s %s (Esc drops it)", v.filter, v.pool))
	}
	out := append([]string{""}, wrap(marked(text, m.Estimate), width, 2)...)
	return append(out, v.dim(cut(keys, width)))
}

// topRow lays cells out.
func topRow(columns []topColumn, text func(*topColumn) string) string {
	var b strings.Builder
	for i := range columns {
		c := &columns[i]
		s := cut(text(c), c.width)
		gap := strings.Repeat(" ", c.width-utf8.RuneCountInString(s))
		if c.right {
			b.WriteString(gap + s)
		} else {
			b.WriteString(s + gap)
		}
		if i < len(columns)-1 {
			b.WriteByte(' ')
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// cut shortens text to a width.
func cut(text string, width int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	return string([]rune(text)[:width-1]) + "…"
}

// wrap breaks text into at most lines lines.
func wrap(text string, width, lines int) []string {
	var out []string
	rest := []rune(text)
	for len(rest) > 0 && len(out) < lines {
		if len(out) == lines-1 || len(rest) <= width {
			out = append(out, cut(string(rest), width))
			break
		}
		at := width
		for at > width/2 && rest[at] != ' ' {
			at--
		}
		out = append(out, strings.TrimRight(string(rest[:at]), " "))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
	}
	for len(out) < lines {
		out = append(out, "")
	}
	return out
}

// topBar draws a share as blocks and per cent, and after it what is kept for buffers as blocks of their own: that is never invisible.
func topBar(share, spare float64, blocks int) string {
	full := max(0, min(blocks, int(share*float64(blocks)+0.5)))
	both := max(full, min(blocks, int((share+spare)*float64(blocks)+0.5)))
	if spare > 0 && both == full {
		full, both = min(full, blocks-1), min(full+1, blocks)
	}
	return fmt.Sprintf("%s%s%s%4s", strings.Repeat("█", full), strings.Repeat("▒", both-full), strings.Repeat("░", blocks-both), why.Percent(min(share, 9.99)))
}

func spareShare(spare int64, of model.Amount) float64 {
	return model.Amount{Requested: spare, Allocatable: of.Allocatable}.Share()
}

// podsWidth is that of the column of pods.
const podsWidth = 5

// topPods counts pods, and spare pods after them: 9+3. Where there is no room for both counts, 110+ says that there are spare pods.
func topPods(n *model.FleetNode) string {
	text, spare := fmt.Sprint(n.PodSlots.Requested), model.SpareSum(n.Spare).Pods
	if spare > 0 {
		text += "+"
	}
	if both := text + fmt.Sprint(spare); spare > 0 && len(both) <= podsWidth {
		return both
	}
	return text
}

func topPrice(price float64) string {
	if price == 0 {
		return "?"
	}
	return why.Price(price)
}

func topRemovable(n *model.FleetNode, m *model.Fleet) string {
	if n.Removable == "" && !m.Decided {
		return "…"
	}
	return n.Removable
}

// topAge writes an age in two to four characters.
func topAge(since, now time.Time) string {
	if since.IsZero() {
		return "?"
	}
	switch d := now.Sub(since); {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
