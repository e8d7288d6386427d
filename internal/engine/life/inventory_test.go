package life

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestL15_AbsenceNeedsProof(t *testing.T) {
	type look struct {
		at        time.Duration
		inventory Inventory
		want      Verdict
	}
	one := func(fleet, listed int) Inventory {
		return Inventory{Fleet: fleet, Listed: listed, Missing: []string{"i-1"}}
	}
	for _, tt := range []struct {
		name  string
		looks []look
	}{
		{"one look proves nothing", []look{{0, one(20, 19), Verdict{}}}},
		{"R5 two apart do", []look{{0, one(20, 19), Verdict{}}, {59 * time.Second, one(20, 19), Verdict{}}, {time.Minute, one(20, 19), Verdict{Gone: []string{"i-1"}}}}},
		{"seen in between, it starts again", []look{{0, one(20, 19), Verdict{}}, {time.Minute, Inventory{Fleet: 20, Listed: 20}, Verdict{}}, {2 * time.Minute, one(20, 19), Verdict{}}}},
		{"R6 an empty list proves little", []look{
			{0, one(20, 0), Verdict{Held: "the list is empty, and 20 are expected"}},
			{29 * time.Minute, one(20, 0), Verdict{Held: "the list is empty, and 20 are expected"}},
			{30 * time.Minute, one(20, 0), Verdict{Held: "the list is empty, and 20 are expected", Gone: []string{"i-1"}}},
		}},
		{"the only one takes longer", []look{{0, one(1, 0), Verdict{}}, {9 * time.Minute, one(1, 0), Verdict{}}, {10 * time.Minute, one(1, 0), Verdict{Gone: []string{"i-1"}}}}},
		{"R6 a list that has halved is no look", []look{
			{0, Inventory{Fleet: 20, Listed: 20}, Verdict{}},
			{time.Minute, one(20, 10), Verdict{Held: "the list has shrunk from 20 to 10 since the last look"}},
			{2 * time.Minute, one(20, 10), Verdict{}},
			{3 * time.Minute, one(20, 10), Verdict{Gone: []string{"i-1"}}},
		}},
		{"R6 more than a tenth is too much", []look{
			{0, Inventory{Fleet: 29, Listed: 26, Missing: []string{"a", "b", "c"}}, Verdict{Held: "3 of 29 are missing, more than the 2 that can be believed at once"}},
			{29 * time.Minute, Inventory{Fleet: 29, Listed: 26, Missing: []string{"a", "b", "c"}}, Verdict{Held: "3 of 29 are missing, more than the 2 that can be believed at once"}},
			{30 * time.Minute, Inventory{Fleet: 29, Listed: 26, Missing: []string{"a", "b", "c"}}, Verdict{Held: "3 of 29 are missing, more than the 2 that can be believed at once", Gone: []string{"a", "b"}}},
			{32 * time.Minute, Inventory{Fleet: 27, Listed: 26, Missing: []string{"c"}}, Verdict{Gone: []string{"c"}}},
		}},
		{"R6 those that have been missing longest go first", []look{
			{0, Inventory{Fleet: 10, Listed: 9, Missing: []string{"b"}}, Verdict{}},
			{30 * time.Second, Inventory{Fleet: 10, Listed: 8, Missing: []string{"a", "b"}}, Verdict{Held: "2 of 10 are missing, more than the 1 that can be believed at once"}},
			{31 * time.Minute, Inventory{Fleet: 10, Listed: 8, Missing: []string{"a", "b"}}, Verdict{Held: "2 of 10 are missing, more than the 1 that can be believed at once", Gone: []string{"b"}}},
		}},
		{"a small fleet may lose one", []look{{0, one(3, 2), Verdict{}}, {2 * time.Minute, one(3, 2), Verdict{Gone: []string{"i-1"}}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m InventoryAudit
			for i, l := range tt.looks {
				if diff := cmp.Diff(l.want, m.Judge(l.inventory, after(l.at))); diff != "" {
					t.Errorf("look %d: want -, got +:\n%s", i+1, diff)
				}
			}
		})
	}
}

// TestR6_NoSweepTakesMuch says that whatever lists look like, one judgement takes at most a tenth, or one.
func TestR6_NoSweepTakesMuch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m InventoryAudit
		now := born
		for range rapid.IntRange(1, 20).Draw(t, "looks") {
			fleet := rapid.IntRange(0, 60).Draw(t, "fleet")
			var missing []string
			for i := range fleet {
				if rapid.IntRange(0, 9).Draw(t, "missing") == 0 {
					missing = append(missing, fmt.Sprintf("i-%02d", i))
				}
			}
			slices.Sort(missing)
			listed := rapid.IntRange(0, 60).Draw(t, "listed")
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "later")) * time.Second)
			v := m.Judge(Inventory{Fleet: fleet, Listed: listed, Missing: missing}, now)
			if len(v.Gone) > max(1, fleet/10) || v.Held != "" && len(v.Gone) > 0 && now.Sub(born) < heldProof {
				t.Fatalf("of %d, %d listed: %+v", fleet, listed, v)
			}
			if listed == 0 && fleet > 1 && v.Held == "" && len(missing) > 0 {
				t.Fatal("an empty list was not doubted")
			}
			for _, id := range v.Gone {
				if !slices.Contains(missing, id) {
					t.Fatalf("%s is there", id)
				}
			}
		}
	})
}
