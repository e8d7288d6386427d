package life

import (
	"fmt"
	"slices"
	"time"
)

// What it takes to believe that something is gone because a list lacks it.
const (
	// proof is how far apart the first and the last observation must be at least.
	proof = time.Minute
	// longProof is the same when the list shows nothing at all and there was only one thing to show.
	longProof = 10 * time.Minute
	// heldProof is the same when what is missing looks more like a fault than like the truth: long enough for somebody who is
	// told of it to look, and never for ever.
	heldProof = 30 * time.Minute
	// share of a fleet that may be missing before the list is doubted instead, and that is believed at a time after heldProof.
	share = 10
)

// Inventory is one comparison of what should be there with a list.
type Inventory struct {
	// Fleet is how many should be there, Listed how long the list is, whatever is on it.
	Fleet, Listed int
	// Missing are those that should be there and are not listed, sorted.
	Missing []string
}

// Verdict is what may be believed after an inventory.
type Verdict struct {
	// Gone have been missing for long enough. Whoever acts on it asks once more, in another way, about each.
	Gone []string
	// Held says why what is missing is believed later than usual, and little at a time, or is empty.
	Held string
}

// InventoryAudit judges one inventory after the other. Absence needs proof: two inventories apart in time, and lists that look sane, or else far
// more time. It must not be used from two goroutines at once. The zero value is ready.
type InventoryAudit struct {
	since  map[string]time.Time
	listed int
}

// Judge takes an inventory into account.
func (m *InventoryAudit) Judge(c Inventory, now time.Time) Verdict {
	before := m.listed
	m.listed = c.Listed
	if m.since == nil {
		m.since = map[string]time.Time{}
	}
	for id := range m.since {
		if _, still := slices.BinarySearch(c.Missing, id); !still {
			delete(m.since, id)
		}
	}
	if len(c.Missing) == 0 {
		return Verdict{}
	}
	need, held := proof, ""
	switch {
	case c.Listed == 0 && c.Fleet > 1:
		held = fmt.Sprintf("the list is empty, and %d are expected", c.Fleet)
	case c.Listed == 0:
		need = longProof
	case 2*c.Listed <= before: // a list that has just broken off is no observation
		return Verdict{Held: fmt.Sprintf("the list has shrunk from %d to %d since the last look", before, c.Listed)}
	}
	for _, id := range c.Missing {
		if _, known := m.since[id]; !known {
			m.since[id] = now
		}
	}
	most := max(1, c.Fleet/share)
	if held == "" && len(c.Missing) > most {
		held = fmt.Sprintf("%d of %d are missing, more than the %d that can be believed at once", len(c.Missing), c.Fleet, most)
	}
	if held != "" {
		need = heldProof
	}
	v := Verdict{Held: held}
	for _, id := range c.Missing {
		if now.Sub(m.since[id]) >= need {
			v.Gone = append(v.Gone, id)
		}
	}
	slices.SortStableFunc(v.Gone, func(a, b string) int { return m.since[a].Compare(m.since[b]) })
	v.Gone = v.Gone[:min(len(v.Gone), most)]
	return v
}
