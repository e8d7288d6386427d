package world

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"karpenter/internal/engine/req"
)

// names numbers resources after those that every type has.
func overlayNames(list ...*NodeOverlay) *Names {
	n := NewNames()
	for _, o := range list {
		for _, a := range o.Capacity {
			n.Index(a.Resource)
		}
	}
	return n
}

func overlayPool(name string, types ...*InstanceType) *Pool {
	return &Pool{Name: name, Labels: NewLabels(map[string]string{LabelPool: name, "team": name}), Types: types}
}

func overlayType(name string) *InstanceType {
	var offerings []Offering
	for _, zone := range []string{"a", "b"} {
		for _, kind := range []string{CapacitySpot, CapacityOnDemand} {
			offerings = append(offerings, Offering{Zone: zone, CapacityType: kind, Price: 1, Available: true, Labels: Labels{{"zone-id", "z" + zone}}})
		}
	}
	return &InstanceType{Name: name, Labels: NewLabels(map[string]string{"family": name[:1]}), Capacity: Resources{4000, 16, 110}, Allocatable: Resources{3900, 14, 110}, Offerings: offerings}
}

func needs(t interface{ Fatal(...any) }, lines ...string) req.Set {
	out := req.Set{}
	for _, line := range lines {
		f := strings.Fields(line)
		r, err := req.New(f[0], req.Operator(f[1]), f[2:]...)
		if err != nil {
			t.Fatal(err)
		}
		out = out.With(r)
	}
	return out
}

func TestA43_A44_PriceChange(t *testing.T) {
	for _, c := range []struct {
		change PriceChange
		want   float64
	}{
		{PriceChange{Amount: 1.25, Absolute: true}, 1.25},
		{PriceChange{Amount: 0.5}, 2.5},
		{PriceChange{Amount: -1.2}, 0.8},
		{PriceChange{Amount: -15, Percent: true}, 1.7},
		{PriceChange{Amount: 10, Percent: true}, 2.2},
		{PriceChange{Amount: -100, Percent: true}, freePrice},
		{PriceChange{Amount: -7}, freePrice},
		{PriceChange{Absolute: true}, freePrice},
		{PriceChange{Amount: 1e300, Percent: true}, priceCeiling},
		{PriceChange{Amount: math.Inf(1)}, priceCeiling},
	} {
		if got := c.change.Of(2); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v makes %v of 2, want %v", c.change, got, c.want)
		}
	}
}

func TestP93_PricePerOfferingAndCapacityPerType(t *testing.T) {
	o := &NodeOverlay{Name: "o", Need: needs(t, "family In m", LabelZone+" In a", "team In x"), Price: &PriceChange{Amount: -50, Percent: true}, Capacity: []Amount{{"example.com/fuse", 3}}}
	names := overlayNames(o)
	m, c := overlayType("m5"), overlayType("c5")
	pools := []*Pool{overlayPool("x", c, m), overlayPool("y", c, m)}
	types, conflicts := NewOverlays([]*NodeOverlay{o}, names.Index).Apply(pools)
	if len(conflicts) > 0 || &types[1][0] != &pools[1].Types[0] || types[0][0] != c {
		t.Fatalf("conflicts %v, or something that nothing selects was copied", conflicts)
	}
	got := types[0][1]
	for i, want := range []float64{0.5, 0.5, 1, 1} {
		if got.Offerings[i].Price != want {
			t.Errorf("offering %d costs %v, want %v", i, got.Offerings[i].Price, want)
		}
	}
	if got.Offerings[0].ListPrice != 1 || got.Offerings[0].PricedBy != "o" || got.Offerings[2].PricedBy != "" || m.Offerings[0].Price != 1 {
		t.Errorf("the list price or who changed it is lost: %+v", got.Offerings)
	}
	fuse := names.Index("example.com/fuse")
	if got.Capacity.Get(fuse) != 3 || got.Allocatable.Get(fuse) != 3 || got.Allocatable.Get(CPU) != 3900 || len(got.Added) != 1 {
		t.Errorf("capacity %v, allocatable %v", got.Capacity, got.Allocatable)
	}
}

// A type without offerings cannot be launched: no overlay selects it, and two that would are not in conflict over it. Pools without types are none
// the worse, and what is out of stock has its price for when it is back.
func TestP93_P94_TypesWithoutOfferings(t *testing.T) {
	half := func(name string) *NodeOverlay {
		return &NodeOverlay{Name: name, Need: needs(t, "family In m"), Price: &PriceChange{Amount: -50, Percent: true}, Capacity: []Amount{{"example.com/fuse", int64(len(name))}}}
	}
	bare, gone := overlayType("m0"), overlayType("c5")
	bare.Offerings = nil
	for i := range gone.Offerings {
		gone.Offerings[i].Available = false
	}
	list := []*NodeOverlay{half("a"), half("bb"), {Name: "c", Need: needs(t, "family In c"), Price: &PriceChange{Amount: 0.25}}}
	o := NewOverlays(list, overlayNames(list...).Index)
	types, conflicts := o.Apply([]*Pool{overlayPool("x", bare, gone), overlayPool("none")})
	if len(conflicts) > 0 || types[0][0] != bare || len(types[1]) != 0 {
		t.Errorf("conflicts %+v, types %+v", conflicts, types)
	}
	if f := types[0][1].Offerings[0]; f.Price != 1.25 || f.Available || f.ListPrice != 1 {
		t.Errorf("what is out of stock is %+v", f)
	}
	if o.Selects("a") || !o.Selects("c") {
		t.Errorf("a selects something: %t; c does: %t", o.Selects("a"), o.Selects("c"))
	}
}

func TestB4_N12_OverlaidTypesKeepTheRest(t *testing.T) {
	o := &NodeOverlay{Name: "o", Price: &PriceChange{Amount: 3, Absolute: true}, Capacity: []Amount{{"hugepages-2Mi", 4}}}
	names := overlayNames(o)
	attach := names.Index(AttachResource("ebs.csi.aws.com"))
	m := overlayType("m5")
	m.Allocatable = m.Allocatable.Set(attach, 27)
	m.Offerings[1].Capacity, m.Offerings[1].Allocatable = Resources{8000, 32, 110}, Resources{7900, 30, 110}
	m.Offerings[2].Reservation, m.Offerings[2].Remaining = "cr-1", 2
	types, _ := NewOverlays([]*NodeOverlay{o}, names.Index).Apply([]*Pool{overlayPool("x", m)})
	got, huge := types[0][0], names.Index("hugepages-2Mi")
	switch {
	case got.Allocatable.Get(attach) != 27:
		t.Error("the limit of volumes is gone")
	case got.Offerings[1].Capacity.Get(CPU) != 8000 || got.Offerings[1].Allocatable.Get(huge) != 4 || got.Offerings[1].Capacity.Get(huge) != 4:
		t.Errorf("the offering's own room is %v of %v", got.Offerings[1].Allocatable, got.Offerings[1].Capacity)
	case got.Offerings[2].Remaining != 2 || got.Offerings[2].Reservation != "cr-1":
		t.Error("the reservation is gone")
	case got.Allocatable.Get(Memory) != 10 || got.Capacity.Get(Memory) != 16 || got.Offerings[1].Allocatable.Get(Memory) != 26:
		t.Errorf("huge pages are not taken from memory: %v", got.Allocatable)
	}
}

func TestP94_A46_Conflicts(t *testing.T) {
	price, other := &PriceChange{Amount: 2, Absolute: true}, &PriceChange{Amount: 3, Absolute: true}
	fuse := func(n int64) []Amount { return []Amount{{"fuse", n}} }
	for _, c := range []struct {
		name     string
		overlays []*NodeOverlay
		want     string // overlays that are not applied, and with whom they conflict
		price    float64
		fuse     int64
	}{
		{"the heavier counts", []*NodeOverlay{{Name: "a", Weight: 2, Price: price}, {Name: "b", Weight: 1, Price: other}}, "", 2, 0},
		{"of equals the last name counts", []*NodeOverlay{{Name: "a", Price: price}, {Name: "b", Price: other}}, "a:b", 3, 0},
		{"equal prices conflict too", []*NodeOverlay{{Name: "a", Price: price}, {Name: "b", Price: price}}, "a:b", 2, 0},
		{"below a heavier one as well", []*NodeOverlay{{Name: "a", Price: price}, {Name: "b", Price: price}, {Name: "c", Weight: 9, Price: other}}, "a:b", 3, 0},
		{"a price and a resource do not conflict", []*NodeOverlay{{Name: "a", Price: price}, {Name: "b", Capacity: fuse(2)}}, "", 2, 2},
		{"resources conflict", []*NodeOverlay{{Name: "a", Capacity: fuse(1)}, {Name: "b", Capacity: fuse(2)}}, "a:b", 1, 2},
		{"the same amount is no conflict", []*NodeOverlay{{Name: "a", Capacity: fuse(2)}, {Name: "b", Capacity: fuse(2)}}, "", 1, 2},
		{"nothing of it is applied", []*NodeOverlay{{Name: "a", Price: price, Capacity: fuse(1)}, {Name: "b", Capacity: fuse(2)}}, "a:b", 1, 2},
		{"who is not applied is in nobody's way", []*NodeOverlay{
			{Name: "c", Capacity: fuse(1)}, {Name: "b", Price: price, Capacity: fuse(2)}, {Name: "a", Price: other},
		}, "b:c", 3, 1},
		{"other zones do not conflict", []*NodeOverlay{{Name: "a", Need: needs(t, LabelZone+" In a"), Price: price}, {Name: "b", Need: needs(t, LabelZone+" In b"), Price: other}}, "", 2, 0},
		{"other pools do", []*NodeOverlay{
			{Name: "a", Price: price}, {Name: "b", Need: needs(t, LabelPool+" In y"), Price: other},
		}, "a:b", 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			names := overlayNames(c.overlays...)
			m := overlayType("m5")
			types, conflicts := NewOverlays(c.overlays, names.Index).Apply([]*Pool{overlayPool("x", m), overlayPool("y", m)})
			var got []string
			for _, x := range conflicts {
				got = append(got, x.Overlay+":"+x.With)
				if x.Type != "m5" || x.Pool == "" || (x.Resource == "") != (x.Zone != "") {
					t.Errorf("where: %+v", x)
				}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("conflicts %q, want %q", s, c.want)
			}
			if o := types[0][0]; o.Offerings[0].Price != c.price || o.Allocatable.Get(names.Index("fuse")) != c.fuse {
				t.Errorf("price %v and %d of fuse, want %v and %d", o.Offerings[0].Price, o.Allocatable.Get(names.Index("fuse")), c.price, c.fuse)
			}
		})
	}
}

func TestW60_WhatHasNotChangedIsNotDoneAgain(t *testing.T) {
	o := NewOverlays([]*NodeOverlay{{Name: "o", Need: needs(t, LabelPool+" In x", "family In m"), Price: &PriceChange{Amount: 2, Absolute: true}}}, overlayNames().Index)
	list := []*InstanceType{overlayType("c5"), overlayType("m5")}
	pools := []*Pool{overlayPool("x", list...), overlayPool("y", list...), overlayPool("z", list...)}
	for _, p := range pools {
		p.Types = list
	}
	first, _ := o.Apply(pools)
	if len(o.groups) != 2 {
		t.Errorf("%d groups, want 1 for x and 1 for the pools that the overlay does not select", len(o.groups))
	}
	more := overlayPool("new")
	more.Types = []*InstanceType{overlayType("m6")}
	again, _ := o.Apply(append(pools, more))
	if &first[0][0] != &again[0][0] || again[0][1] != first[0][1] || &again[1][0] != &list[0] {
		t.Error("what has not changed was made again")
	}
	if allocations := testing.AllocsPerRun(10, func() { o.Apply(pools) }); allocations > 200 {
		t.Errorf("%v allocations, though nothing has changed", allocations)
	}
	if !o.Selects("o") || o.Selects("other") {
		t.Error("what an overlay selects is not known")
	}
	if got := o.Types(pools[0], more.Types); got[0].Offerings[0].Price != 2 || more.Types[0].Offerings[0].Price != 1 {
		t.Error("types of another class are not corrected")
	}
}

// naive applies overlays as P93 and P94 say it, offering by offering, without any memory.
func naive(pools []*Pool, overlays []*NodeOverlay, names *Names) (prices map[string]float64, room map[string]Resources, rejected []string) {
	order := slices.Clone(overlays)
	slices.SortFunc(order, func(a, b *NodeOverlay) int {
		return cmp.Or(int(b.Weight-a.Weight), strings.Compare(b.Name, a.Name))
	})
	type holder struct {
		*NodeOverlay
		n int64
	}
	price, capacity := map[string][]*NodeOverlay{}, map[string][]holder{}
	prices, room = map[string]float64{}, map[string]Resources{}

	for _, o := range order {
		touchedPrice, touchedType, conflict := []string{}, []string{}, false
		for _, p := range pools {
			for _, t := range p.Types {
				any := false
				for k := range t.Offerings {
					if o.Need.Admits(func(key string) (string, bool) { return p.NodeLabel(t, &t.Offerings[k], key) }) {
						any = true
						touchedPrice = append(touchedPrice, fmt.Sprint(p.Name, t.Name, k))
					}
				}
				if any {
					touchedType = append(touchedType, p.Name+t.Name)
				}
			}
		}
		for _, at := range touchedPrice {
			conflict = conflict || o.Price != nil && slices.ContainsFunc(price[at], func(x *NodeOverlay) bool { return x.Weight == o.Weight })
		}
		for _, at := range touchedType {
			for _, a := range o.Capacity {
				conflict = conflict || slices.ContainsFunc(capacity[at+a.Resource], func(x holder) bool { return x.Weight == o.Weight && x.n != a.N })
			}
		}
		if conflict {
			rejected = append(rejected, o.Name)
			continue
		}

		for _, at := range touchedPrice {
			if o.Price != nil {
				price[at] = append(price[at], o)
			}
		}
		for _, at := range touchedType {
			for _, a := range o.Capacity {
				capacity[at+a.Resource] = append(capacity[at+a.Resource], holder{o, a.N})
			}
		}
	}
	for _, p := range pools {
		for _, t := range p.Types {
			r := slices.Clone(t.Capacity)
			for i, name := range names.List() {
				if by := capacity[p.Name+t.Name+name]; len(by) > 0 {
					r = r.Set(i, by[0].n)
				}
			}
			room[p.Name+t.Name] = r
			for k := range t.Offerings {
				at := fmt.Sprint(p.Name, t.Name, k)
				prices[at] = t.Offerings[k].Price
				if by := price[at]; len(by) > 0 {
					prices[at] = by[0].Price.Of(prices[at])
				}
			}
		}
	}
	return prices, room, rejected
}

func TestPropertyP93_P94_LikeTheNaiveWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := func(label string, list ...string) string { return rapid.SampledFrom(list).Draw(t, label) }
		var overlays []*NodeOverlay
		for i := range rapid.IntRange(0, 7).Draw(t, "overlays") {
			o := &NodeOverlay{Name: fmt.Sprint("o", i), Weight: int32(rapid.IntRange(0, 2).Draw(t, "weight"))}
			for range rapid.IntRange(0, 2).Draw(t, "needs") {
				key := pick("key", LabelPool, "team", "family", LabelZone, LabelCapacityType, LabelInstanceType, "zone-id", "unknown")
				op := pick("op", "In", "NotIn", "Exists", "DoesNotExist")
				line := key + " " + op
				if op == "In" || op == "NotIn" {
					line += " " + pick("value", "x", "y", "m", "c", "a", "b", CapacitySpot, "m5", "za", "fixed")
				}
				o.Need = o.Need.Meet(needs(t, line))
			}
			if rapid.Bool().Draw(t, "priced") {
				o.Price = &PriceChange{Amount: float64(rapid.IntRange(-3, 3).Draw(t, "amount")), Percent: rapid.Bool().Draw(t, "percent")}
			}
			for _, name := range []string{"fuse", "gpu"} {
				if rapid.Bool().Draw(t, name) {
					o.Capacity = append(o.Capacity, Amount{name, int64(rapid.IntRange(0, 2).Draw(t, "n"))})
				}
			}
			overlays = append(overlays, o)
		}
		list := []*InstanceType{overlayType("c5"), overlayType("m5"), overlayType("m6")}
		odd := overlayType("m7")
		odd.Offerings = odd.Offerings[:1]
		odd.Offerings[0].Labels = nil
		var pools []*Pool
		for _, name := range []string{"x", "y", "z"} {
			p := overlayPool(name)
			p.Types = list
			if name == "z" {
				p.Types, p.Labels = append(slices.Clone(list), odd), p.Labels.With("zone-id", "fixed")
			}
			pools = append(pools, p)
		}
		names := overlayNames(overlays...)
		o := NewOverlays(overlays, names.Index)
		for range 2 { // the second time from memory
			wantPrices, wantRoom, wantRejected := naive(pools, overlays, names)
			types, conflicts := o.Apply(pools)
			var rejected []string
			for _, c := range conflicts {
				rejected = append(rejected, c.Overlay)
			}
			if !slices.Equal(rejected, wantRejected) {
				t.Fatalf("rejected %v, want %v", rejected, wantRejected)
			}
			for i, p := range pools {
				for k, typ := range types[i] {
					if typ.Name != p.Types[k].Name || !sameRoom(typ.Capacity, wantRoom[p.Name+typ.Name]) {
						t.Fatalf("pool %s, %s: capacity %v, want %v", p.Name, typ.Name, typ.Capacity, wantRoom[p.Name+typ.Name])
					}
					for n := range typ.Offerings {
						if got, want := typ.Offerings[n].Price, wantPrices[fmt.Sprint(p.Name, typ.Name, n)]; got != want {
							t.Fatalf("pool %s, %s, offering %d: price %v, want %v", p.Name, typ.Name, n, got, want)
						}
					}
				}
			}
			pools[0] = overlayPool("x") // a pool that has changed, with a newer list
			pools[0].Types = []*InstanceType{overlayType("m5"), overlayType("c6")}
		}
	})
}

func sameRoom(a, b Resources) bool {
	for i := range max(len(a), len(b)) {
		if a.Get(i) != b.Get(i) {
			return false
		}
	}
	return true
}

// BenchmarkOverlays is what fifty overlays cost with 1,300 types in two pools: when a list of types is new, and when nothing is.
func BenchmarkOverlays(b *testing.B) {
	var overlays []*NodeOverlay
	for i := range 50 {
		overlays = append(overlays, &NodeOverlay{
			Name: fmt.Sprint("o", i), Weight: int32(i % 40), Need: needs(b, fmt.Sprintf("%s In t%03d t%03d", LabelInstanceType, i*20, i*20+7), LabelCapacityType+" In spot"), Price: &PriceChange{Amount: -float64(i), Percent: true},
		})
	}
	list := func() (out []*InstanceType) {
		for i := range 1300 {
			out = append(out, overlayType(fmt.Sprintf("t%03d", i)))
		}
		return out
	}
	pools := func(types []*InstanceType) []*Pool {
		out := []*Pool{overlayPool("x"), overlayPool("y")}
		for _, p := range out {
			p.Types = types
		}
		return out
	}
	names := overlayNames()
	b.Run("new", func(b *testing.B) {
		o, all := NewOverlays(overlays, names.Index), make([][]*Pool, b.N)
		for i := range all {
			all[i] = pools(list())
		}
		for b.ResetTimer(); len(all) > 0; all = all[1:] {
			o.Apply(all[0])
		}
	})
	b.Run("same", func(b *testing.B) {
		o, same := NewOverlays(overlays, names.Index), pools(list())
		for range b.N {
			o.Apply(same)
		}
	})
}
