package pool_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/internal/control/pool"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
	"karpenter/test/harness/rig"
)

// sold is what the class of the pools in these tests can launch.
func sold(string) ([]string, []*world.InstanceType, uint64, error) {
	t := &world.InstanceType{
		Name: "m5.large", Labels: world.NewLabels(map[string]string{"family": "m5"}), Capacity: world.Resources{2000, 8 << 30, 29}, Allocatable: world.Resources{1930, 7 << 30, 29},
		Offerings: []world.Offering{{Zone: "a", CapacityType: "on-demand", Price: 1, Available: true}, {Zone: "a", CapacityType: "spot", Price: 0.4, Available: true}},
	}
	return []string{"cpu", "memory", "pods"}, []*world.InstanceType{t}, 1, nil
}

// overlays starts a mirror that is fed by the cluster, and the reconciler.
func overlays(t *testing.T) *state.Mirror {
	t.Helper()
	mirror := state.NewMirror(state.MirrorOptions{Options: state.Options{NodeOverlays: true}, Types: sold, Now: time.Now})
	m := rig.Manager(t, cluster)
	for _, kind := range []client.Object{&karpv1.NodePool{}, &v1alpha1.NodeOverlay{}} {
		informer, err := m.GetCache().GetInformer(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := informer.AddEventHandler(mirror.Handler()); err != nil {
			t.Fatal(err)
		}
	}
	if err := (&pool.Overlays{Client: m.GetClient(), Mirror: mirror, Clock: clock.RealClock{}}).Register(m); err != nil {
		t.Fatal(err)
	}
	rig.Run(t, m)
	return mirror
}

func newOverlay(name string, change func(*v1alpha1.NodeOverlaySpec)) *v1alpha1.NodeOverlay {
	o := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeOverlaySpec{Requirements: []v1alpha1.Requirement{}}}
	change(&o.Spec)
	return o
}

// awaitOverlay returns when ValidationSucceeded of an overlay is as wanted.
func awaitOverlay(t *testing.T, name string, wanted func(karpv1.Condition) bool) *v1alpha1.NodeOverlay {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	found := &v1alpha1.NodeOverlay{}
	for ctx.Err() == nil {
		if err := cluster.Client.Get(ctx, client.ObjectKey{Name: name}, found); err == nil && wanted(*found.StatusConditions().Get(karpv1.ConditionValidationSucceeded)) {
			return found
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("ValidationSucceeded of overlay %s is %+v", name, *found.StatusConditions().Get(karpv1.ConditionValidationSucceeded))
	return nil
}

func TestA47_P92_P94_P95_OverlaysAreJudgedAtOnce(t *testing.T) {
	mirror := overlays(t)
	rig.Create(t, cluster.Client, newPool("overlaid", "some"))
	fuse := func(n string) corev1.ResourceList {
		return corev1.ResourceList{"example.com/fuse": resource.MustParse(n)}
	}
	for _, o := range []*v1alpha1.NodeOverlay{
		newOverlay("price", func(s *v1alpha1.NodeOverlaySpec) { s.PriceAdjustment = new("-10%") }),
		newOverlay("other-price", func(s *v1alpha1.NodeOverlaySpec) { s.Price = new("3") }),
		newOverlay("fuse", func(s *v1alpha1.NodeOverlaySpec) { s.Capacity = fuse("2") }),
		newOverlay("half-a-fuse", func(s *v1alpha1.NodeOverlaySpec) { s.Capacity = fuse("500m") }),
		newOverlay("nothing", func(s *v1alpha1.NodeOverlaySpec) {
			s.Price = new("3")
			s.Requirements = []v1alpha1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m9.large"}}}
		}),
	} {
		rig.Create(t, cluster.Client, o)
	}
	awaitOverlay(t, "half-a-fuse", is(metav1.ConditionFalse, "RuntimeValidation", `spec.capacity[example.com/fuse]: Invalid value: "500m": must be a whole number of 0 or more`))
	awaitOverlay(t, "other-price", is(metav1.ConditionFalse, "Conflict", "spec.weight: NodeOverlay price has the same weight and changes the price of m5.large"))
	awaitOverlay(t, "nothing", is(metav1.ConditionTrue, "ValidationSucceeded", "spec.requirements: nothing that a NodePool could launch satisfies them"))
	awaitOverlay(t, "fuse", is(metav1.ConditionTrue, "ValidationSucceeded", ""))
	good := awaitOverlay(t, "price", is(metav1.ConditionTrue, "ValidationSucceeded", ""))
	if root := good.StatusConditions().Root(); root.Status != metav1.ConditionTrue || root.ObservedGeneration != good.Generation {
		t.Errorf("Ready is %+v", root)
	}

	// P92: what is corrected counts at once, without a tick.
	bad := awaitOverlay(t, "other-price", is(metav1.ConditionFalse, "Conflict", ""))
	bad.Spec.Weight = new(int32(7))
	if err := cluster.Client.Update(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	awaitOverlay(t, "other-price", is(metav1.ConditionTrue, "ValidationSucceeded", ""))
	offering := mirror.View().Pool("overlaid").World.Types[0].Offerings[0]
	if offering.Price != 3 || offering.PricedBy != "other-price" || offering.ListPrice != 1 {
		t.Errorf("the pool has %+v", offering)
	}

	// P95: a new pool does not wait, whatever its types.
	rig.Create(t, cluster.Client, newPool("younger", "some"))
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if p := mirror.View().Pool("younger"); p != nil {
			if p.World.Types[0].Offerings[0].Price != 3 {
				t.Errorf("a new pool has %+v", p.World.Types[0].Offerings[0])
			}
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("the pool is not seen")
		}
	}
}
