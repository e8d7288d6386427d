package aws

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud/kit"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/engine/world"
)

// made is a type with offerings "zone capacity-type price"; a name that ends in metal is bare metal.
func made(name string, labels map[string]string, offerings ...world.Offering) *world.InstanceType {
	all := map[string]string{corev1.LabelInstanceTypeStable: name, corev1.LabelArchStable: "amd64", awsv1.LabelInstanceSize: "large"}
	for k, v := range labels {
		all[k] = v
	}
	room := world.Resources{4000, 16 << 30, 58, 20 << 30}
	return &world.InstanceType{Name: name, Labels: world.NewLabels(all), Capacity: room, Allocatable: room, Offerings: offerings}
}

func sold(capacityType, zone string, price float64) world.Offering {
	return world.Offering{CapacityType: capacityType, Zone: zone, Price: price, Available: true}
}

// reserved is an offering of a reservation "id@zone" of the kind default, interruptible or capacity-block.
func reserved(where, kind string, price float64, left int) world.Offering {
	id, zone, _ := strings.Cut(where, "@")
	labels := map[string]string{awsv1.LabelCapacityReservationID: id, awsv1.LabelCapacityReservationType: kind, awsv1.LabelCapacityReservationInterruptible: "false"}
	if kind == "interruptible" {
		labels[awsv1.LabelCapacityReservationType], labels[awsv1.LabelCapacityReservationInterruptible] = "default", "true"
	}
	return world.Offering{
		CapacityType: "reserved", Zone: zone, Price: price, Available: left > 0, Reservation: id, Remaining: left, Labels: world.NewLabels(labels),
	}
}

func TestAWS_2_2_Filters(t *testing.T) {
	metal := map[string]string{awsv1.LabelInstanceSize: "metal"}
	gpu := map[string]string{awsv1.LabelInstanceGPUCount: "1"}
	minValues := func(key string, n int) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpExists, MinValues: &n}
	}
	for _, tt := range []struct {
		name  string
		types []*world.InstanceType
		needs []karpv1.NodeSelectorRequirementWithMinValues
		want  string // capacity type and options, or the error
	}{
		{"spot before on-demand", []*world.InstanceType{made("a", nil, sold("spot", "z", 1), sold("on-demand", "z", 2))}, nil, "spot a@z"},
		{"spot dearer than on-demand", []*world.InstanceType{made("a", nil, sold("spot", "z", 3), sold("on-demand", "z", 2))}, nil, "on-demand a@z"},
		{"cheapest first", []*world.InstanceType{made("a", nil, sold("spot", "z", 3)), made("b", nil, sold("spot", "z", 1))}, nil, "spot b@z a@z"},
		{"no metal, no GPU", []*world.InstanceType{made("m", metal, sold("spot", "z", 1)), made("g", gpu, sold("spot", "z", 1)), made("a", nil, sold("spot", "z", 3))}, nil, "spot a@z"},
		{"metal if there is nothing else", []*world.InstanceType{made("m", metal, sold("spot", "z", 1))}, nil, "spot m@z"},
		{"metal counts with minValues", []*world.InstanceType{made("m", metal, sold("spot", "z", 1)), made("a", nil, sold("spot", "z", 3))}, []karpv1.NodeSelectorRequirementWithMinValues{minValues(corev1.LabelInstanceTypeStable, 2)}, "spot m@z a@z"},
		{"too few values", []*world.InstanceType{made("a", nil, sold("spot", "z", 3))}, []karpv1.NodeSelectorRequirementWithMinValues{minValues(corev1.LabelInstanceTypeStable, 2)}, "node.kubernetes.io/instance-type Exists minValues 2: only 1 values are left"},
		{"reserved first", []*world.InstanceType{made("a", nil, sold("spot", "z", 0.1), reserved("cr-1@z", "default", 1e-7, 1))}, nil, "reserved a@z/cr-1"},
		{"the reservation with most left", []*world.InstanceType{made("a", nil, reserved("cr-1@z", "default", 1e-7, 1), reserved("cr-2@z", "default", 1e-7, 5))}, nil, "reserved a@z/cr-2"},
		{"one kind of reservation, the cheapest", []*world.InstanceType{made("a", nil, reserved("cr-1@z", "default", 2e-7, 1)), made("b", nil, reserved("cr-2@z", "interruptible", 1e-7, 5))}, nil, "reserved b@z/cr-2"},
		{"equal prices: ordinary before interruptible", []*world.InstanceType{made("a", nil, reserved("cr-1@z", "interruptible", 1e-7, 1)), made("b", nil, reserved("cr-2@z", "default", 1e-7, 5))}, nil, "reserved b@z/cr-2"},
		{"one capacity block", []*world.InstanceType{made("a", gpu, reserved("cr-1@z", "capacity-block", 1e-7, 1), reserved("cr-2@y", "capacity-block", 1e-7, 1))}, nil, "reserved a@z/cr-1"},
		{"by zone", []*world.InstanceType{made("a", nil, sold("spot", "y", 1), sold("spot", "z", 1))}, []karpv1.NodeSelectorRequirementWithMinValues{need(corev1.LabelTopologyZone, "z")}, "spot a@z"},
		{"equal prices: zones as the claim lists them", []*world.InstanceType{made("a", nil, sold("on-demand", "x", 1), sold("on-demand", "y", 1), sold("on-demand", "z", 1))}, []karpv1.NodeSelectorRequirementWithMinValues{need(corev1.LabelTopologyZone, "y", "z", "x")}, "on-demand a@y a@z a@x"},
		{"the cheaper zone before the first", []*world.InstanceType{made("a", nil, sold("on-demand", "x", 1), sold("on-demand", "y", 2))}, []karpv1.NodeSelectorRequirementWithMinValues{need(corev1.LabelTopologyZone, "y", "x")}, "on-demand a@x a@y"},
		{"user labels are not judged", []*world.InstanceType{made("a", nil, sold("spot", "z", 1))}, []karpv1.NodeSelectorRequirementWithMinValues{need("example.com/team", "x")}, "spot a@z"},
		{"a label that the type lacks", []*world.InstanceType{made("a", nil, sold("spot", "z", 1))}, []karpv1.NodeSelectorRequirementWithMinValues{need(awsv1.LabelInstanceGPUName, "t4")}, "no instance type is sold that satisfies karpenter.k8s.aws/instance-gpu-name In [t4]; correct the requirements"},
	} {
		w, err := newWish((&testWorld{clock: simClock()}).claim("c", tt.needs...), shapeResources)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if c, err := choose(tt.types, w); err != nil {
			got = err.Error()
		} else {
			got = c.CapacityType
			for _, o := range c.Options {
				got += " " + o.Type.Name + "@" + o.Offering.Zone
				if o.Offering.Reservation != "" {
					got += "/" + o.Offering.Reservation
				}
			}
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestChoose_Properties holds for any offerings: what is chosen was asked for, is in stock and of one capacity type, at most
// kit.MaxChoices types, and the order of the input does not matter.
func TestChoose_Properties(t *testing.T) {
	capacityTypes := []string{"spot", "on-demand", "reserved"}
	rapid.Check(t, func(t *rapid.T) {
		var list []*world.InstanceType
		for i := range rapid.IntRange(0, 90).Draw(t, "types") {
			var offerings []world.Offering
			for k := range rapid.IntRange(0, 5).Draw(t, "offerings") {
				o := sold(rapid.SampledFrom(capacityTypes).Draw(t, "capacityType"), string(rune('a'+k)), float64(rapid.IntRange(1, 9).Draw(t, "price")))
				o.Available = rapid.Bool().Draw(t, "available")
				offerings = append(offerings, o)
			}
			list = append(list, made(fmt.Sprintf("t%02d", i), nil, offerings...))
		}
		w, err := newWish((&testWorld{clock: simClock()}).claim("c", need(corev1.LabelTopologyZone, "a", "b", "c")), shapeResources)
		if err != nil {
			t.Fatal(err)
		}
		got, err := choose(list, w)
		types := map[string]bool{}
		for _, o := range got.Options {
			types[o.Type.Name] = true
			if !o.Offering.Available || o.Offering.CapacityType != got.CapacityType || o.Offering.Zone > "c" {
				t.Fatalf("chose %+v", o.Offering)
			}
		}
		if len(types) > kit.MaxChoices || err == nil && len(types) == 0 {
			t.Fatalf("%d types", len(types))
		}
		slices.Reverse(list)
		again, err2 := choose(list, w)
		if (err == nil) != (err2 == nil) || again.CapacityType != got.CapacityType || len(again.Options) != len(got.Options) {
			t.Fatal("the order of types matters")
		}
		for i := range got.Options {
			if got.Options[i].Type != again.Options[i].Type || got.Options[i].Offering.Zone != again.Options[i].Offering.Zone {
				t.Fatal("the order of types matters")
			}
		}
	})
}

func TestAWS_2_2_OnDemandFlexibility(t *testing.T) {
	w := newWorld(t)
	w.load()
	w.must(w.sim.SetStock(simaws.StockRule{Type: "*", Zone: "*", CapacityType: "spot", Count: 0}))
	w.stock.EmptySpot()
	few := typeIs("m5.large", "m5.xlarge")
	many := typeIs("m5.large", "m5.xlarge", "c5.large", "c5.xlarge", "r5.large")
	for _, tt := range []struct {
		name   string
		needs  []karpv1.NodeSelectorRequirementWithMinValues
		advice bool
	}{
		{"few types and spot allowed", []karpv1.NodeSelectorRequirementWithMinValues{few}, true},
		{"enough types", []karpv1.NodeSelectorRequirementWithMinValues{many}, false},
		{"spot not wanted", []karpv1.NodeSelectorRequirementWithMinValues{few, onDemandOnly}, false},
	} {
		r := w.Launch(w.ctx, w.batch(strings.ReplaceAll(tt.name, " ", "-"), 1, tt.needs...))[0]
		w.must(r.Err)
		if r.Instance.CapacityType != karpv1.CapacityTypeOnDemand || (r.Advice != "") != tt.advice || tt.advice && !strings.Contains(r.Advice, "at least 5") {
			t.Errorf("%s: %s with advice %q", tt.name, r.Instance.CapacityType, r.Advice)
		}
	}
}
