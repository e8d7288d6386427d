package forecast

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func manifest(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

const (
	bare = `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {template: {spec: {
		nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}}}}`
	full = `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {template: {spec: {expireAfter: 720h,
		nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}},
		disruption: {consolidateAfter: 0s, consolidationPolicy: WhenEmptyOrUnderutilized, budgets: [{nodes: 10%}]}}}`
)

func TestDefaultsAreThoseOfTheAPIServer(t *testing.T) {
	pools := make([]*v1.NodePool, 2)
	for i, text := range []string{bare, full} {
		pools[i] = &v1.NodePool{}
		if err := decode(withDefaults(manifest(t, text)), pools[i], identity{}); err != nil {
			t.Fatal(err)
		}
	}
	if pools[0].Hash() != pools[1].Hash() || !same(pools[0].Spec, pools[1].Spec) {
		t.Errorf("with defaults the pool is\n%+v\nwant\n%+v", pools[0].Spec, pools[1].Spec)
	}
}

func TestABudgetAllowsWhatItsPodsLeave(t *testing.T) {
	number, share := intstr.FromInt32(2), intstr.FromString("34%")
	for _, x := range []struct {
		name string
		spec policyv1.PodDisruptionBudgetSpec
		pods int32
		want int32
	}{
		{"minAvailable", policyv1.PodDisruptionBudgetSpec{MinAvailable: &number}, 5, 3},
		{"minAvailable of fewer", policyv1.PodDisruptionBudgetSpec{MinAvailable: &number}, 1, 0},
		{"minAvailable as a share is rounded up", policyv1.PodDisruptionBudgetSpec{MinAvailable: &share}, 3, 1},
		{"maxUnavailable", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &number}, 5, 2},
		{"maxUnavailable as a share is rounded up", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &share}, 3, 2},
		{"neither", policyv1.PodDisruptionBudgetSpec{}, 3, 3},
	} {
		got, err := allowance(&x.spec, x.pods)
		if err != nil || got != x.want {
			t.Errorf("%s: %d evictions of %d pods, error %v; want %d", x.name, got, x.pods, err, x.want)
		}
	}
	bad := intstr.FromString("many")
	if _, err := allowance(&policyv1.PodDisruptionBudgetSpec{MinAvailable: &bad}, 3); err == nil {
		t.Error("many is taken for a number")
	}
}

func TestPricesChangeWhatTheyMatch(t *testing.T) {
	catalog := &dump.Catalog{InstanceTypes: []dump.CatalogType{
		{Name: "m5.large", Offerings: []dump.CatalogOffering{{Zone: "a", CapacityType: "spot", Price: 1}, {Zone: "b", CapacityType: "on-demand", Price: 2}}},
		{Name: "c5.large", Offerings: []dump.CatalogOffering{{Zone: "a", CapacityType: "spot", Price: 3}}},
	}}
	double, nine, out := 2.0, 9.0, true
	p := &Prices{Prices: []Price{{InstanceType: "m5.*", Factor: &double}, {Zone: "b", Price: &nine}, {InstanceType: "c5.large", CapacityType: "spot", Unavailable: &out}}}
	next, changed := p.apply(catalog)
	got := fmt.Sprint(next.InstanceTypes[0].Offerings[0].Price, next.InstanceTypes[0].Offerings[1].Price, next.InstanceTypes[1].Offerings[0].Price, next.InstanceTypes[1].Offerings[0].Unavailable, changed)
	if want := "2 9 3 true 3"; got != want {
		t.Errorf("prices, stock and number of changes are %s, want %s", got, want)
	}
	if catalog.InstanceTypes[0].Offerings[0].Price != 1 {
		t.Error("the catalogue itself was changed")
	}
}

// crowd is a cluster in which something is left to do: pods wait, and nodes are nearly empty.
func crowd(t *testing.T, order *rand.Rand) Start {
	t.Helper()
	pool, err := json.Marshal(withDefaults(manifest(t, full)))
	if err != nil {
		t.Fatal(err)
	}
	items := []string{string(pool)}
	for i := range 12 {
		labels := `{"karpenter.sh/nodepool":"p","karpenter.sh/capacity-type":"on-demand","node.kubernetes.io/instance-type":"large","topology.kubernetes.io/zone":"us-west-2a","karpenter.sh/initialized":"true","karpenter.sh/registered":"true"}`
		items = append(items,
			fmt.Sprintf(`{"kind":"Node","metadata":{"name":"n%d","labels":%s},"spec":{"providerID":"x/%d"},"status":{"conditions":[{"type":"Ready","status":"True"}],"allocatable":{"cpu":"4","memory":"16Gi","pods":"20"},"capacity":{"cpu":"4","memory":"16Gi","pods":"20"}}}`, i, labels, i),
			fmt.Sprintf(`{"kind":"NodeClaim","metadata":{"name":"c%d","labels":%s,"creationTimestamp":"2026-08-01T10:00:00Z"},"spec":{"requirements":[],"nodeClassRef":{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"default"}},
				"status":{"providerID":"x/%d","nodeName":"n%d","conditions":[{"type":"Launched","status":"True"},{"type":"Registered","status":"True"},{"type":"Initialized","status":"True","lastTransitionTime":"2026-08-01T10:01:10Z"}]}}`, i, labels, i, i))
		for k := range 1 + i%3 {
			items = append(items, fmt.Sprintf(`{"kind":"Pod","metadata":{"name":"p%d-%d","namespace":"default","labels":{"app":"x"}},"spec":{"nodeName":"n%d","containers":[{"resources":{"requests":{"cpu":"%dm","memory":"1Gi"}}}]},"status":{"phase":"Running"}}`, i, k, i, 300+100*k))
		}
	}
	for i := range 5 {
		items = append(items, fmt.Sprintf(`{"kind":"Pod","metadata":{"name":"w%d","namespace":"default"},"spec":{"containers":[{"resources":{"requests":{"cpu":"%d","memory":"1Gi"}}}]},"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}}`, i, 1+2*i))
	}
	order.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	objects, problems, err := dump.Read([]byte(`{"kind":"List","items":[` + strings.Join(items, ",") + `]}`))
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	sizes := &dump.Catalog{}
	for _, n := range []int{2, 4, 8} {
		x := map[string]string{"cpu": fmt.Sprint(n), "memory": fmt.Sprintf("%dGi", 4*n), "pods": "20"}
		sizes.InstanceTypes = append(sizes.InstanceTypes, dump.CatalogType{
			Name: map[int]string{2: "medium", 4: "large", 8: "xlarge"}[n], Allocatable: x, Labels: map[string]string{"kubernetes.io/arch": "amd64"},
			Offerings: []dump.CatalogOffering{{Zone: "us-west-2a", CapacityType: "on-demand", Price: 0.05 * float64(n)}},
		})
	}
	return Start{Objects: objects, Record: state.Record{Classes: map[string]*dump.Catalog{state.AnyClass: sizes}, Now: noon}}
}

func TestTheSameClusterComesToTheSame(t *testing.T) {
	var want string
	for seed := range uint64(4) {
		s := crowd(t, rand.New(rand.NewPCG(seed, 1)))
		s.Options.Pack.Workers = 1 + 7*int(seed%2)
		before := len(s.Objects.Pods)
		out := Run(s)
		data, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = string(data)
		}
		if string(data) != want {
			t.Errorf("seed %d comes to\n%s\nwant\n%s", seed, data, want)
		}
		if len(s.Objects.Pods) != before || len(s.Objects.Nodes) != 12 {
			t.Error("the objects that were given are changed")
		}
		pods := 0
		for _, n := range out.Nodes {
			pods += len(n.Pods)
		}
		waiting := 0
		for _, u := range out.Unplaced {
			waiting += len(u.Pods)
		}
		if pods+waiting != before || waiting != 1 {
			t.Errorf("%d pods have a node and %d wait, of %d; want one, of 9 cores, to wait", pods, waiting, before)
		}
		if out.Restless || out.After.Price >= out.Before.Price+0.8 || len(out.Moves) == 0 || out.Boot != 70*time.Second || out.Observed != 12 {
			t.Errorf("it comes to %+v", out)
		}
		if !slices.IsSortedFunc(out.Moves, func(a, b Move) int { return a.Round - b.Round }) {
			t.Error("moves are not in the order of rounds")
		}
	}
}

// besides is a cluster of nodes that nobody but a node group has made, with room, and of pods that wait.
func besides(t *testing.T, nodes int, pods string, n int) Start {
	t.Helper()
	s := crowd(t, rand.New(rand.NewPCG(1, 1)))
	var items []string
	for i := range nodes {
		items = append(items, fmt.Sprintf(`{"kind":"Node","metadata":{"name":"g%d","labels":{"kubernetes.io/hostname":"g%d","eks.amazonaws.com/nodegroup":"old","kubernetes.io/arch":"%s","node.kubernetes.io/instance-type":"large","topology.kubernetes.io/zone":"us-west-2%c"}},"spec":{"providerID":"y/%d"},"status":{"conditions":[{"type":"Ready","status":"True"}],"allocatable":{"cpu":"4","memory":"16Gi","pods":"20"},"capacity":{"cpu":"4","memory":"16Gi","pods":"20"}}}`,
			i, i, map[bool]string{true: "arm64", false: "amd64"}[i == 0], 'a'+i%2, i))
	}
	for i := range n {
		items = append(items, fmt.Sprintf(pods, i))
	}
	objects, problems, err := dump.Read([]byte(`{"kind":"List","items":[` + strings.Join(items, ",") + `]}`))
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	objects.Pools = s.Objects.Pools
	s.Objects = objects
	return s
}

// TestTheSchedulerHasItsTurnFirst: what pods would rather have makes no nodes while there are nodes that may take them.
func TestTheSchedulerHasItsTurnFirst(t *testing.T) {
	const pod = `{"kind":"Pod","metadata":{"name":"w%%d","namespace":"default","labels":{"app":"w"},"ownerReferences":[{"kind":"ReplicaSet","name":"w","controller":true}]},"spec":{%s"containers":[{"resources":{"requests":{"cpu":"100m","memory":"64Mi"}}}]},"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}}`
	const selector = `"labelSelector":{"matchLabels":{"app":"w"}}`
	for name, c := range map[string]struct {
		spec  string
		nodes int // new ones
		on    map[string]int
	}{
		"preferred anti-affinity": {
			spec: `"affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":100,"podAffinityTerm":{"topologyKey":"kubernetes.io/hostname",` + selector + `}}]}},`,
			on:   map[string]int{"g0": 2, "g1": 2, "g2": 2, "g3": 2, "g4": 1, "g5": 1},
		},
		"preferred node affinity": {
			spec: `"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchExpressions":[{"key":"kubernetes.io/arch","operator":"In","values":["arm64"]}]}}]}},`,
			on:   map[string]int{"g0": 10},
		},
		"a wish that no node grants": {
			spec: `"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchExpressions":[{"key":"karpenter.sh/nodepool","operator":"In","values":["p"]}]}}]}},`,
			on:   map[string]int{"g0": 2, "g1": 2, "g2": 2, "g3": 2, "g4": 1, "g5": 1},
		},
		"spread that may be broken": {
			spec: `"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"ScheduleAnyway",` + selector + `}],`,
			on:   map[string]int{"g0": 2, "g1": 2, "g2": 2, "g3": 2, "g4": 1, "g5": 1},
		},
		"required anti-affinity": {
			spec:  `"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname",` + selector + `}]}},`,
			nodes: 4, on: map[string]int{"g0": 1, "g1": 1, "g2": 1, "g3": 1, "g4": 1, "g5": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out := Run(besides(t, 6, fmt.Sprintf(pod, c.spec), 10))
			made, on := 0, map[string]int{}
			for _, n := range out.Nodes {
				if n.New {
					made++
				} else {
					on[n.Node.Node] = len(n.Pods)
				}
			}
			for node, n := range on {
				if n == 0 {
					delete(on, node)
				}
			}
			if made != c.nodes || !maps.Equal(on, c.on) || len(out.Unplaced) > 0 {
				t.Errorf("%d new nodes, pods by node %v, unplaced %v; want %d and %v", made, on, out.Unplaced, c.nodes, c.on)
			}
		})
	}
}

// TestNodesOfOthersCostSomething: a node that no pool made costs what its type does, on-demand unless its labels say spot.
func TestNodesOfOthersCostSomething(t *testing.T) {
	for name, c := range map[string]struct {
		labels       map[string]string
		capacityType string
		price        float64
	}{
		"nothing said":                {nil, "on-demand", 0.2},
		"on-demand of EKS":            {map[string]string{"eks.amazonaws.com/capacityType": "ON_DEMAND"}, "on-demand", 0.2},
		"spot of EKS":                 {map[string]string{"eks.amazonaws.com/capacityType": "SPOT"}, "spot", 0.07},
		"spot by the usual label":     {map[string]string{"node.kubernetes.io/lifecycle": "spot"}, "spot", 0.07},
		"spot as eksctl has it":       {map[string]string{"node.kubernetes.io/lifecycle": "Ec2Spot"}, "spot", 0.07},
		"normal by the usual label":   {map[string]string{"node.kubernetes.io/lifecycle": "normal"}, "on-demand", 0.2},
		"a zone that no pool uses":    {map[string]string{"topology.kubernetes.io/zone": "us-west-2d"}, "on-demand", 0.2},
		"a type that nobody knows of": {map[string]string{"node.kubernetes.io/instance-type": "unheard-of"}, "on-demand", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := besides(t, 1, "", 0)
			for key, value := range c.labels {
				s.Objects.Nodes[0].Labels[key] = value
			}
			types := s.Record.Classes[state.AnyClass]
			for i := range types.InstanceTypes {
				types.InstanceTypes[i].Offerings = append(types.InstanceTypes[i].Offerings, dump.CatalogOffering{Zone: "us-west-2a", CapacityType: "spot", Price: 0.07})
			}
			out := Run(s)
			if out.Before.Price != c.price || out.Nodes[0].Price != c.price || out.Nodes[0].CapacityType != c.capacityType {
				t.Errorf("the fleet costs %v, its node is %+v; want %s for %v", out.Before.Price, out.Nodes[0], c.capacityType, c.price)
			}
		})
	}
}
