package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/simaws/catalog"
)

const (
	// A condition that is waited for is looked at after gaugeEvery again or, where looks take long, after gaugeRest times as
	// long, but no more than gaugeMost: looking must not slow down what is looked at.
	gaugeEvery = 100 * time.Millisecond
	gaugeRest  = 4
	gaugeMost  = time.Second
)

// gauges are the figures that a scenario can wait for and expect. Pods are those outside of kube-system and karpenter,
// nodes those that Karpenter made.
var gauges = map[string]func(*observation) float64{
	"pods": func(s *observation) float64 { return float64(len(s.pods)) },
	"pods-pending": func(s *observation) float64 {
		return s.countPods(func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
	},
	"pods-bound": func(s *observation) float64 {
		return s.countPods(func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
	},
	"pods-running": func(s *observation) float64 {
		return s.countPods(func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	},
	"nodes":           func(s *observation) float64 { return float64(len(s.nodes)) },
	"nodes-ready":     func(s *observation) float64 { return s.countNodes(ready) },
	"nodes-spot":      func(s *observation) float64 { return s.countNodes(isCapacity(karpv1.CapacityTypeSpot)) },
	"nodes-on-demand": func(s *observation) float64 { return s.countNodes(isCapacity(karpv1.CapacityTypeOnDemand)) },
	"claims":          func(s *observation) float64 { return float64(len(s.claims)) },
	"instances":       func(s *observation) float64 { return float64(s.instances) },
	"cost":            func(s *observation) float64 { return s.cost },
}

// states are conditions without a number.
var states = map[string]func(*observation) bool{
	"pods-bound":   func(s *observation) bool { return s.settled && gauges["pods-pending"](s) == 0 },
	"pods-running": func(s *observation) bool { return s.settled && gauges["pods-running"](s) == gauges["pods"](s) },
	"nodes-ready":  func(s *observation) bool { return gauges["nodes-ready"](s) == gauges["nodes"](s) },
}

// observation is what a look at the cluster sees.
type observation struct {
	pods      []*corev1.Pod
	nodes     []*corev1.Node
	claims    []karpv1.NodeClaim
	instances int
	// cost is what the nodes cost an hour by the price list, in USD.
	cost float64
	// settled is whether every Deployment and StatefulSet has as many pods as it wants.
	settled bool
}

func (s *observation) countPods(want func(*corev1.Pod) bool) float64 { return count(s.pods, want) }

func (s *observation) countNodes(want func(*corev1.Node) bool) float64 { return count(s.nodes, want) }

func count[T any](list []*T, want func(*T) bool) float64 {
	n := 0
	for _, item := range list {
		if want(item) {
			n++
		}
	}
	return float64(n)
}

func isCapacity(kind string) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool { return n.Labels[karpv1.CapacityTypeLabelKey] == kind }
}

// look reads the cluster.
func (c *Cluster) look(ctx context.Context) (*observation, error) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	var claims karpv1.NodeClaimList
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	for _, list := range []client.ObjectList{&deployments, &sets, &pods, &nodes, &claims} {
		if err := c.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("looking at the cluster: %w", err)
		}
	}
	s := &observation{claims: claims.Items, settled: true}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		s.settled = s.settled && d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas == *d.Spec.Replicas
	}
	for i := range sets.Items {
		d := &sets.Items[i]
		s.settled = s.settled && d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas == *d.Spec.Replicas
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if p.Namespace != "kube-system" && p.Namespace != "karpenter" && !ended {
			s.pods = append(s.pods, p)
		}
	}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; n.Labels[karpv1.NodePoolLabelKey] != "" {
			s.nodes = append(s.nodes, n)
			s.cost += price(c.Region, n)
		}
	}
	ids, err := c.Launched(false)
	s.instances = len(ids)
	return s, err
}

// price is what a node costs an hour by the price list.
func price(region string, node *corev1.Node) float64 {
	all, err := catalog.Load()
	if err != nil {
		return 0
	}
	table, err := all.Region(region)
	if err != nil {
		return 0
	}
	offer, _ := table.Offer(node.Labels[corev1.LabelInstanceTypeStable])
	if isCapacity(karpv1.CapacityTypeSpot)(node) {
		return offer.Spot
	}
	return offer.OnDemand
}

// comparisons are the ways to compare a figure with a number.
var comparisons = map[string]func(a, b float64) bool{
	"==": func(a, b float64) bool { return a == b }, "!=": func(a, b float64) bool { return a != b },
	"<": func(a, b float64) bool { return a < b }, "<=": func(a, b float64) bool { return a <= b },
	">": func(a, b float64) bool { return a > b }, ">=": func(a, b float64) bool { return a >= b },
}

// condition tells whether it holds, and what the figure in question is.
type condition func(*observation) (holds bool, is string)

func parseCondition(words []string) (condition, error) {
	if len(words) == 1 {
		state, ok := states[words[0]]
		if !ok {
			return nil, fmt.Errorf("there is no condition %q; there are %s", words[0], strings.Join(slices.Sorted(maps.Keys(states)), ", "))
		}
		return func(s *observation) (bool, string) {
			return state(s), fmt.Sprintf("%g of %g pods are bound, %g are running; %g of %g nodes are ready",
				gauges["pods-bound"](s), gauges["pods"](s), gauges["pods-running"](s), gauges["nodes-ready"](s), gauges["nodes"](s))
		}, nil
	}
	if len(words) != 3 {
		return nil, errors.New("a condition is a word such as pods-bound, or a comparison such as: nodes <= 3")
	}
	gauge, ok := gauges[words[0]]
	if !ok {
		return nil, fmt.Errorf("there is no figure %q; there are %s", words[0], strings.Join(slices.Sorted(maps.Keys(gauges)), ", "))
	}
	compare, ok := comparisons[words[1]]
	if !ok {
		return nil, fmt.Errorf("%q is no comparison; there are %s", words[1], strings.Join(slices.Sorted(maps.Keys(comparisons)), " "))
	}
	number, err := strconv.ParseFloat(words[2], 64)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number", words[2])
	}
	return func(s *observation) (bool, string) {
		is := gauge(s)
		return compare(is, number), fmt.Sprintf("%s is %.4g", words[0], is)
	}, nil
}

func parseExpect(l scriptLine) (action, error) {
	holds, err := parseCondition(l.args)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *Cluster) (string, error) {
		s, err := c.look(ctx)
		if err != nil {
			return "", err
		}
		if ok, is := holds(s); !ok {
			return "", fmt.Errorf("not so: %s", is)
		}
		return "", nil
	}, nil
}

func parseWait(l scriptLine) (action, error) {
	if len(l.args) < 2 {
		return nil, errors.New("it takes a condition and how long it may take, such as: wait pods-bound 60s")
	}
	last := len(l.args) - 1
	patience, err := time.ParseDuration(l.args[last])
	if err != nil || patience <= 0 {
		return nil, fmt.Errorf("%q is not a time such as 30s or 2m", l.args[last])
	}
	holds, err := parseCondition(l.args[:last])
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *Cluster) (string, error) {
		began := time.Now()
		for {
			looked := time.Now()
			s, err := c.look(ctx)
			if err != nil {
				return "", err
			}
			rest := min(max(gaugeEvery, gaugeRest*time.Since(looked)), gaugeMost)
			ok, is := holds(s)
			if ok {
				return fmt.Sprintf("after %.1f s: %s", time.Since(began).Seconds(), is), nil
			}
			if time.Since(began) > patience {
				return "", fmt.Errorf("not so within %v: %s", patience, is)
			}
			if err := pause(ctx, rest); err != nil {
				return "", err
			}
		}
	}, nil
}

// ready tells whether a node's kubelet says that it is.
func ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
