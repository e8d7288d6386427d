package aws

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
)

// TestAWS_11_3_ClassesDoNotMixUp: two classes with the same subnets, of which one cannot use a type, each see their own.
func TestAWS_11_3_ClassesDoNotMixUp(t *testing.T) {
	w := newWorld(t)
	w.load()
	w.addClass("other", func(c *awsv1.EC2NodeClass) {
		c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "bottlerocket@latest"}}
	})
	available := func(class, typ string) (n int) {
		list, err := w.Types(class)
		w.must(err)
		for _, have := range list.List {
			for _, o := range have.Offerings {
				if have.Name == typ && o.Available {
					n++
				}
			}
		}
		return n
	}
	for range 2 { // whoever asks first
		if a, b := available("default", "a1.large"), available("other", "a1.large"); a != 0 || b == 0 {
			t.Errorf("a1.large: %d offerings with AL2023, which cannot run on it, and %d with Bottlerocket", a, b)
		}
		if a, b := available("default", "m5.large"), available("other", "m5.large"); a == 0 || a != b {
			t.Errorf("m5.large: %d and %d offerings", a, b)
		}
	}
}

// TestAWS_11_4_PartitionOutOfStock: a partition that has nothing left is not asked again, and the others are.
func TestAWS_11_4_PartitionOutOfStock(t *testing.T) {
	w := newWorld(t)
	_, err := w.admin.EC2.CreatePlacementGroup(w.ctx, &ec2.CreatePlacementGroupInput{GroupName: aws.String("parts"), Strategy: "partition", PartitionCount: aws.Int32(3)})
	w.must(err)
	w.load(func(c *awsv1.EC2NodeClass) {
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: aws.String("parts")}
	})
	w.must(w.sim.SetStock(simaws.StockRule{Type: "m5.large", Zone: "*", CapacityType: "*", Count: 0}))
	in := func(name, partition string) error {
		return w.Launch(w.ctx, w.batch(name, 1, onDemandOnly, typeIs("m5.large"), need(awsv1.LabelPlacementGroupPartition, partition)))[0].Err
	}
	if err := in("first", "2"); cloud.ClassOf(err) != cloud.NoCapacity {
		t.Fatalf("got %v", err)
	}
	calls := w.called("CreateFleet")
	if err := in("again", "2"); cloud.ClassOf(err) != cloud.NoCapacity || w.called("CreateFleet") != calls {
		t.Errorf("partition 2 was asked again: %v", err)
	}
	w.sim.ClearStock()
	w.must(in("other", "3"))
	// Nobody asks for a partition: what has been heard of one says nothing of the rest.
	w.one("any", onDemandOnly, typeIs("m5.large"))
}

// TestAWS_11_5_PartitionsAreNumbers: the lowest is found by number, not by letter.
func TestAWS_11_5_PartitionsAreNumbers(t *testing.T) {
	keys := onePartition([]groupKey{{partition: "10"}, {partition: "2"}, {partition: "10", pods: 5}, {partition: "2", pods: 5}})
	if len(keys) != 2 || keys[0].partition != "2" || keys[1].partition != "2" {
		t.Errorf("got %v", keys)
	}
}
