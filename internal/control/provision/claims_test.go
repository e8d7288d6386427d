package provision

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"karpenter/api/convert"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/dump"
)

// drafted plans what is in the fixture and returns the claims, none of which is created.
func drafted(t *testing.T, s *fixture, opt pack.Options) []*Draft {
	t.Helper()
	view := s.View()
	plan := pack.Solve(view.World, opt)
	for _, u := range plan.Unplaced {
		t.Fatalf("%d pods have no place: %v", len(u.Pods), u.Reasons)
	}
	return drafts(view, plan.Nodes, "seed", ReasonProvisioned)
}

func requirementOf(c *karpv1.NodeClaim, key string) *karpv1.NodeSelectorRequirementWithMinValues {
	for i := range c.Spec.Requirements {
		if c.Spec.Requirements[i].Key == key {
			return &c.Spec.Requirements[i]
		}
	}
	return nil
}

func TestP89_ClaimIsMadeFromItsPool(t *testing.T) {
	pool := newPool("general", func(p *karpv1.NodePool) {
		p.Annotations = map[string]string{convert.KubeletAnnotation: `{"maxPods":20}`, "example.com/not-for-claims": "x"}
		tpl := &p.Spec.Template
		tpl.Labels = map[string]string{"team": "payments"}
		tpl.Annotations = map[string]string{"example.com/note": "hello"}
		tpl.Spec.Taints = []karpv1.Taint{{Key: "example.com/dedicated", Value: "x", Effect: corev1.TaintEffectPreferNoSchedule}}
		tpl.Spec.StartupTaints = []karpv1.Taint{{Key: "example.com/agent", Effect: corev1.TaintEffectNoExecute}}
		tpl.Spec.ExpireAfter = karpv1.NewNillableDuration(48 * time.Hour)
	})
	s := newFixture(typesOf(twoZones, 2, 4, 8), pool)
	s.put(pods(2, "700m")...)
	list := drafted(t, s, pack.Options{})
	if len(list) != 1 {
		t.Fatalf("%d claims, want 1", len(list))
	}
	c := list[0].Claim
	if !strings.HasPrefix(c.Name, "general-") || len(c.Name) != len("general-")+nameSuffix {
		t.Errorf("name %q", c.Name)
	}
	want := map[string]string{"team": "payments", "karpenter.sh/nodepool": "general", "karpenter.k8s.aws/ec2nodeclass": "default"}
	if diff := cmp.Diff(want, c.Labels); diff != "" {
		t.Error("labels", diff)
	}
	if c.Annotations[cloud.BatchAnnotationKey] == "" {
		t.Error("no batch")
	}
	delete(c.Annotations, cloud.BatchAnnotationKey)
	if n := len(strings.Split(c.Annotations[karpv1.PlannedPodsAnnotationKey], ",")); n != len(list[0].Node.Pods) {
		t.Errorf("made for %d pods: %s", len(list[0].Node.Pods), c.Annotations[karpv1.PlannedPodsAnnotationKey])
	}
	delete(c.Annotations, karpv1.PlannedPodsAnnotationKey)
	want = map[string]string{
		"example.com/note": "hello", convert.KubeletAnnotation: `{"maxPods":20}`, karpv1.NodePoolHashAnnotationKey: pool.Hash(),
		karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion, karpv1.MinValuesRelaxedAnnotationKey: "false",
	}
	if diff := cmp.Diff(want, c.Annotations); diff != "" {
		t.Error("annotations", diff)
	}
	if o := c.OwnerReferences; len(o) != 1 || o[0].Kind != "NodePool" || o[0].Name != "general" || o[0].UID != pool.UID {
		t.Errorf("owners %+v", o)
	}
	if diff := cmp.Diff([]string{karpv1.TerminationFinalizer}, c.Finalizers); diff != "" {
		t.Error("finalizers", diff)
	}
	tpl := pool.Spec.Template.Spec
	got := karpv1.NodeClaimTemplateSpec{
		Taints: c.Spec.Taints, StartupTaints: c.Spec.StartupTaints, NodeClassRef: c.Spec.NodeClassRef, ExpireAfter: c.Spec.ExpireAfter,
		Requirements: tpl.Requirements, TerminationGracePeriod: c.Spec.TerminationGracePeriod,
	}
	if diff := cmp.Diff(tpl, got); diff != "" {
		t.Error("spec", diff)
	}
	for name, want := range map[corev1.ResourceName]string{"cpu": "1400m", "memory": "256Mi", "pods": "2"} {
		if q := c.Spec.Resources.Requests[name]; q.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("requests %s of %s, want %s", q.String(), name, want)
		}
	}
}

func TestP74_TypesAreListedByPriceAndCapacityTypesAsAvailable(t *testing.T) {
	catalog := typesOf(twoZones, 8, 2, 4)
	for i := range catalog.InstanceTypes {
		for k := range catalog.InstanceTypes[i].Offerings {
			o := &catalog.InstanceTypes[i].Offerings[k]
			o.Unavailable = o.CapacityType == "on-demand" || o.Zone == "us-east-1b"
		}
	}
	s := newFixture(catalog, newPool("general"))
	s.put(newPod("a", "1"))
	c := drafted(t, s, pack.Options{})[0].Claim
	for key, want := range map[string][]string{
		world.LabelInstanceType: {"m5.2x", "m5.4x", "m5.8x"}, world.LabelCapacityType: {"spot"}, world.LabelZone: {"us-east-1a"},
		world.LabelPool: {"general"}, "karpenter.k8s.aws/ec2nodeclass": {"default"},
	} {
		r := requirementOf(c, key)
		if r == nil || r.Operator != corev1.NodeSelectorOpIn {
			t.Errorf("%s: %+v", key, r)
			continue
		}
		if diff := cmp.Diff(want, r.Values); diff != "" {
			t.Error(key, diff)
		}
	}
	for _, label := range []string{world.LabelInstanceType, world.LabelCapacityType, world.LabelZone, world.LabelHostname} { // P90
		if v, ok := c.Labels[label]; ok {
			t.Errorf("label %s=%s is decided before there is an instance", label, v)
		}
	}
}

func TestClaimsAskForTheZoneOfThePlanFirst(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("general"))
	s.put(pods(2, "1500m")...)
	list := drafted(t, s, pack.Options{})
	if len(list) != 2 {
		t.Fatalf("%d claims, want 2", len(list))
	}
	for i, want := range [][]string{{"us-east-1a", "us-east-1b"}, {"us-east-1b", "us-east-1a"}} {
		if got := requirementOf(list[i].Claim, world.LabelZone).Values; !slices.Equal(got, want) {
			t.Errorf("claim %d asks for zones %v, want %v", i, got, want)
		}
	}
}

func TestP90_CustomLabelsAreResolved(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2, 4), newPool("general", needs("example.com/tier", "In", 0, "gold", "silver"), needs("example.com/rack", "Exists", 0)))
	s.put(newPod("a", "1", selects("example.com/tier", "silver")))
	c := drafted(t, s, pack.Options{})[0].Claim
	if c.Labels["example.com/tier"] != "silver" || c.Labels["example.com/rack"] == "" {
		t.Errorf("labels %v", c.Labels)
	}
	if r := requirementOf(c, "example.com/tier"); r == nil || !slices.Equal(r.Values, []string{"silver"}) {
		t.Errorf("requirement %+v", r)
	}
}

func TestP34_MinValues(t *testing.T) {
	pool := newPool("general", needs(world.LabelInstanceType, "Exists", 5))
	t.Run("P34 kept", func(t *testing.T) {
		s := newFixture(typesOf(twoZones, 2, 4, 8, 16, 32, 64), pool)
		s.put(newPod("a", "1"))
		c := drafted(t, s, pack.Options{})[0].Claim
		r := requirementOf(c, world.LabelInstanceType)
		if r == nil || r.MinValues == nil || *r.MinValues != 5 || len(r.Values) < 5 || c.Annotations[karpv1.MinValuesRelaxedAnnotationKey] != "false" {
			t.Errorf("%+v, annotations %v", r, c.Annotations)
		}
	})
	t.Run("P34 best effort", func(t *testing.T) {
		s := newFixture(typesOf(twoZones, 2, 4, 8), pool)
		s.put(newPod("a", "1"))
		c := drafted(t, s, pack.Options{BestEffortMinValues: true})[0].Claim
		r := requirementOf(c, world.LabelInstanceType)
		if r == nil || r.MinValues == nil || *r.MinValues != 3 || c.Annotations[karpv1.MinValuesRelaxedAnnotationKey] != "true" {
			t.Errorf("%+v, annotations %v", r, c.Annotations)
		}
	})
}

func TestP80_ReservedNodesArePinned(t *testing.T) {
	s := newFixture(reservedCatalog(), newPool("general"))
	s.put(newPod("a", "1"))
	c := drafted(t, s, pack.Options{})[0].Claim
	for key, want := range map[string]string{world.LabelCapacityType: "reserved", "karpenter.k8s.aws/capacity-reservation-id": "cr-1"} {
		if r := requirementOf(c, key); r == nil || !slices.Equal(r.Values, []string{want}) {
			t.Errorf("%s: %+v, want %s", key, r, want)
		}
	}
}

func reservedCatalog() *dump.Catalog {
	c := typesOf(twoZones, 2, 4)
	t := &c.InstanceTypes[0]
	t.Offerings = append(t.Offerings, dump.CatalogOffering{
		Zone: "us-east-1a", CapacityType: "reserved", Price: 0.0001, Reservation: "cr-1", Remaining: 2,
		Labels: map[string]string{"karpenter.k8s.aws/capacity-reservation-id": "cr-1", "karpenter.k8s.aws/capacity-reservation-type": "default"},
	})
	return c
}

func TestP91_VolumeAttachmentsAreNotRequested(t *testing.T) {
	got := quantities([]string{"cpu", "memory", "pods", "ephemeral-storage", "attachable-volumes-csi-ebs.csi.aws.com", "nvidia.com/gpu"}, world.Resources{1500, 1 << 30, 3, 0, 2, 1})
	text := map[string]string{}
	for k, q := range got {
		text[string(k)] = q.String()
	}
	if diff := cmp.Diff(map[string]string{"cpu": "1500m", "memory": "1Gi", "pods": "3", "nvidia.com/gpu": "1"}, text); diff != "" {
		t.Error(diff)
	}
}

func TestClaimsAreNamedAndBatchedByTheirPlan(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2), newPool("general"))
	s.put(pods(60, "500m", alone)...)
	view := s.View()
	plan := pack.Solve(view.World, pack.Options{})
	one, again, other := drafts(view, plan.Nodes, "1", "x"), drafts(view, plan.Nodes, "1", "x"), drafts(view, plan.Nodes, "2", "x")
	if len(one) != 60 {
		t.Fatalf("%d claims", len(one))
	}
	names, batches := map[string]bool{}, map[string]int{}
	for i := range one {
		if one[i].Claim.Name != again[i].Claim.Name {
			t.Error("the same plan gives another name")
		}
		if one[i].Claim.Name == other[i].Claim.Name || cloud.BatchID(one[i].Claim) == cloud.BatchID(other[i].Claim) {
			t.Error("another plan gives the same name or batch")
		}
		names[one[i].Claim.Name] = true
		batches[cloud.BatchID(one[i].Claim)]++
	}
	if len(names) != 60 || len(batches) != 2 {
		t.Errorf("%d names, batches %v", len(names), batches)
	}
	long := claimName(strings.Repeat("p", 54)+"-"+strings.Repeat("q", 8), "s", 0)
	if len(long) > maxName || strings.Contains(long, "--") {
		t.Errorf("name %q has %d characters", long, len(long))
	}
}

func TestManyRequirementsFitIntoAClaim(t *testing.T) {
	var change []func(*karpv1.NodePool)
	for i := range 99 {
		change = append(change, needs(fmt.Sprintf("example.com/r%d", i), "In", 0, "v"))
	}
	s := newFixture(typesOf(twoZones, 2), newPool("general", change...))
	s.put(newPod("a", "1"))
	c := drafted(t, s, pack.Options{})[0].Claim
	if len(c.Spec.Requirements) > maxRequirements || len(c.Labels) != 101 {
		t.Errorf("%d requirements, %d labels", len(c.Spec.Requirements), len(c.Labels))
	}
	if requirementOf(c, world.LabelInstanceType) == nil {
		t.Error("the types are gone")
	}
}
