package world

import (
	"math"
	"slices"
	"strings"
)

// Indexes of the resources that every snapshot has. Others follow in the order in which they were first seen.
const (
	CPU     = iota // millicores
	Memory         // bytes
	PodSlot        // pods
	Storage        // bytes of ephemeral storage
)

// AttachPrefix begins the names of resources that count volume attachments per CSI driver. A node or type that does not
// state such a limit has none, whereas of any other resource it would have nothing. NoAttachments is the limit of what cannot take
// any.
const (
	AttachPrefix  = "attachable-volumes-"
	NoAttachments = -1
)

// HugePagesPrefix begins the names of resources that are memory of a node in large pages.
const HugePagesPrefix = "hugepages-"

// AttachResource is the name of the resource that counts attachments of a CSI driver.
func AttachResource(driver string) string { return AttachPrefix + "csi-" + driver }

// AttachLimit writes the limit of a driver that can attach n volumes.
func AttachLimit(n int64) int64 {
	if n <= 0 {
		return NoAttachments
	}
	return n
}

// Unlimited is more of a resource than anything can ask for, and can be added to itself without overflow.
const Unlimited = math.MaxInt64 / 8

// Resources is a vector of quantities by resource index; what lies beyond its end is zero.
type Resources []int64

// Get is the quantity at i.
func (r Resources) Get(i int) int64 {
	if i >= len(r) {
		return 0
	}
	return r[i]
}

// Set is r with the quantity at i replaced; it grows r as needed and may reuse its memory.
func (r Resources) Set(i int, v int64) Resources {
	for len(r) <= i {
		r = append(r, 0)
	}
	r[i] = v
	return r
}

// Plus is the sum, saturated so that absurd quantities stay absurd instead of wrapping around.
func (r Resources) Plus(o Resources) Resources {
	out := make(Resources, max(len(r), len(o)))
	for i := range out {
		out[i] = AddSat(r.Get(i), o.Get(i))
	}
	return out
}

// Minus is the difference; entries may be negative.
func (r Resources) Minus(o Resources) Resources {
	out := make(Resources, max(len(r), len(o)))
	for i := range out {
		out[i] = AddSat(r.Get(i), -o.Get(i))
	}
	return out
}

// Max is the larger of both, entry by entry.
func (r Resources) Max(o Resources) Resources {
	out := make(Resources, max(len(r), len(o)))
	for i := range out {
		out[i] = max(r.Get(i), o.Get(i))
	}
	return out
}

// Fits says whether r is at most o in every entry.
func (r Resources) Fits(o Resources) bool {
	for i, v := range r {
		if v > 0 && v > o.Get(i) {
			return false
		}
	}
	return true
}

// AddSat adds and stays within plus and minus Unlimited.
func AddSat(a, b int64) int64 {
	return min(max(clamp(a)+clamp(b), -Unlimited), Unlimited)
}

// MulSat multiplies and stays within plus and minus Unlimited.
func MulSat(a, b int64) int64 {
	a, b = clamp(a), clamp(b)
	if a == 0 || b == 0 {
		return 0
	}
	if p := a * b; p/b == a {
		return clamp(p)
	}
	if (a < 0) != (b < 0) {
		return -Unlimited
	}
	return Unlimited
}

func clamp(v int64) int64 { return min(max(v, -Unlimited), Unlimited) }

// Names numbers resource names. It only grows, so vectors built earlier stay valid; it is not for concurrent use.
type Names struct {
	list  []string
	index map[string]int
}

// NewNames has the fixed resources.
func NewNames() *Names {
	n := &Names{index: map[string]int{}}
	for _, s := range []string{"cpu", "memory", "pods", "ephemeral-storage"} {
		n.Index(s)
	}
	return n
}

// Index is the number of a name, which it gets on first sight.
func (n *Names) Index(name string) int {
	i, ok := n.index[name]
	if !ok {
		i = len(n.list)
		n.list = append(n.list, name)
		n.index[name] = i
	}
	return i
}

// List is every name so far, by number.
func (n *Names) List() []string { return slices.Clip(n.list) }

// InBytes says whether a resource is counted in bytes.
func InBytes(name string) bool {
	return name == "memory" || name == "ephemeral-storage" || strings.HasPrefix(name, HugePagesPrefix)
}

// UnlimitedWhenAbsent says whether a node that does not mention the resource has it without limit.
func UnlimitedWhenAbsent(name string) bool { return strings.HasPrefix(name, AttachPrefix) }
