package builtin

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/cloud"
	"karpenter/internal/engine/world"
)

func TestTheBuiltInCatalogueNeedsNobody(t *testing.T) {
	begin := time.Now()
	built, err := Load(t.Context(), Query{
		Region: "us-west-2", Zones: []string{"us-west-2a", "us-west-2b"},
		Classes: []cloud.KnownClass{{NodeClass: &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("took %v, prices of %v", time.Since(begin), built.PricesAt)
	if built.PricesAt.IsZero() || built.From != "us-west-2" {
		t.Errorf("prices of %v from %s, want a day and us-west-2's own", built.PricesAt, built.From)
	}
	list := built.Types["default"].List
	if len(list) < 500 {
		t.Errorf("%d types, want all of EC2's", len(list))
	}
	for _, typ := range list {
		if typ.Name != "m5.large" {
			continue
		}
		byCapacityType := map[string]float64{}
		zones := map[string]bool{}
		for _, o := range typ.Offerings {
			byCapacityType[o.CapacityType] = o.Price
			zones[o.Zone] = true
		}
		if byCapacityType[world.CapacityOnDemand] != 0.096 || !(byCapacityType[world.CapacitySpot] > 0.01 && byCapacityType[world.CapacitySpot] < 0.096) {
			t.Errorf("m5.large costs %v, want 0.096 on demand and less as spot", byCapacityType)
		}
		if len(zones) != 2 {
			t.Errorf("m5.large is offered in %v, want both zones", zones)
		}
		if cpu, memory := typ.Allocatable.Get(world.CPU), typ.Allocatable.Get(world.Memory)>>20; cpu != 1930 || memory < 6000 || memory > 7500 {
			t.Errorf("m5.large has %d m and %d MiB for pods, want what a kubelet leaves", cpu, memory)
		}
		return
	}
	t.Error("there is no m5.large")
}
