package explain

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/model"
)

// NotFound says that there is no such object, and which one may have been meant.
type NotFound struct {
	Kind, Name string
	// Similar is the name that was most likely meant, if any.
	Similar string
	// Note says what else may be the reason.
	Note string
}

// Error names the object and what is similar to it.
func (e *NotFound) Error() string {
	text := fmt.Sprintf("there is no %s %q", e.Kind, e.Name)
	switch {
	case e.Similar != "":
		return text + fmt.Sprintf("; did you mean %s?", e.Similar)
	case e.Note != "":
		return text + "; " + e.Note
	}
	return text
}

// same says whether a saving is none.
func same(saves float64) bool { return saves < 1e-9 && saves > -1e-9 }

// maxNamed is how many objects a sentence names before it counts the rest.
const maxNamed = 3

// span prints a length of time the way people say it.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return trimZero(d.Round(time.Second).String(), "0s")
	case d < 48*time.Hour:
		return trimZero(trimZero(d.Round(time.Minute).String(), "0s"), "0m")
	}
	days := d / (24 * time.Hour)
	if hours := (d % (24 * time.Hour)) / time.Hour; hours > 0 {
		return fmt.Sprintf("%dd%dh", days, hours)
	}
	return fmt.Sprintf("%dd", days)
}

// trimZero takes a last part off that is zero: 1h0m becomes 1h, 10m stays.
func trimZero(text, part string) string {
	rest := strings.TrimSuffix(text, part)
	if rest == text || rest == "" || rest[len(rest)-1] >= '0' && rest[len(rest)-1] <= '9' {
		return text
	}
	return rest
}

// moment prints a time with how far away it is.
func (c *Cluster) moment(t time.Time) string {
	if d := t.Sub(c.opt.Now); d >= 0 {
		return fmt.Sprintf("%s, in %s", clock(t), span(d))
	}
	return fmt.Sprintf("%s, %s ago", clock(t), span(c.opt.Now.Sub(t)))
}

func clock(t time.Time) string { return t.UTC().Format("Mon 2 Jan 15:04 UTC") }

// amount prints a quantity of a resource the way people write it.
func (c *Cluster) amount(resource int, v int64) string {
	switch name := c.world.Resources[resource]; {
	case v >= world.Unlimited:
		return "no end"
	case name == "cpu":
		return strconv.FormatFloat(float64(v)/1000, 'f', -1, 64)
	case world.InBytes(name):
		for _, u := range []struct {
			size int64
			name string
		}{{1 << 30, "Gi"}, {1 << 20, "Mi"}, {1 << 10, "Ki"}} {
			if v >= u.size {
				return strconv.FormatFloat(float64(v*100/u.size)/100, 'f', -1, 64) + u.name
			}
		}
	}
	return strconv.FormatInt(v, 10)
}

// amounts prints the quantities that are not zero, pods apart.
func (c *Cluster) amounts(r world.Resources) string {
	var out []string
	for i, v := range r {
		if v != 0 && i != world.PodSlot && i < len(c.world.Resources) && !world.UnlimitedWhenAbsent(c.world.Resources[i]) {
			out = append(out, c.world.Resources[i]+" "+c.amount(i, v))
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

// label is a label of a node, or "".
func label(n *world.Node, key string) string {
	v, _ := n.Labels.Get(key)
	return v
}

// instance describes a node by type, zone, capacity type and price, as far as they are known.
func instance(n *world.Node) string {
	var out []string
	for _, v := range []string{label(n, world.LabelInstanceType), label(n, world.LabelZone), n.CapacityType()} {
		if v != "" {
			out = append(out, v)
		}
	}
	if n.Price > 0 {
		out = append(out, why.Money(n.Price))
	}
	return strings.Join(out, ", ")
}

// typeOf names a node's type, or the node if that is not known.
func typeOf(n *world.Node) string {
	if t := label(n, world.LabelInstanceType); t != "" {
		return t
	}
	return n.Name
}

// freed describes a node that could go: its type and price.
func freed(n *world.Node) string {
	if n.Price > 0 {
		return typeOf(n) + ", " + why.Money(n.Price)
	}
	return typeOf(n)
}

// old describes a node that could be replaced.
func old(n *world.Node) string {
	if n.Price > 0 {
		return fmt.Sprintf("%s (%s)", typeOf(n), why.Money(n.Price))
	}
	return typeOf(n)
}

// alternative is a choice for a new node.
func alternative(pool string, x pack.Choice) *Alternative {
	n := model.Node{
		Pool: pool, Type: x.Type.Name, Zone: x.Offering.Zone, CapacityType: x.Offering.CapacityType, Price: x.Offering.Price,
		Overlay: x.Offering.PricedBy, ListPrice: x.Offering.ListPrice,
	}
	return &Alternative{fmt.Sprintf("%s of pool %s in %s, %s, %s", n.Type, pool, n.Zone, n.CapacityType, why.Money(n.Price)), n}
}

// sentence begins with a capital and ends in a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if last := text[len(text)-1]; last != '.' && last != '?' && last != '!' {
		text += "."
	}
	return text
}
