package day

import (
	"fmt"
	"math"
	"math/rand/v2"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// Workload is what runs.
type Workload string

// The workloads.
const (
	// Wide is thirty Deployments of about equal size whose shapes are drawn log-uniformly: three keep to nodes of their own, three
	// spread over nodes, and twenty, with these, spread over zones.
	Wide Workload = "wide"
	// Basic is half small and half large pods without constraints.
	Basic Workload = "basic"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30

	wideSets   = 30
	apartSets  = 3  // with anti-affinity by host
	hostSets   = 3  // with a hard spread over hosts
	spreadSets = 20 // with a hard spread over zones, those before included
)

// replicaSet is a workload and the controller behind it.
type replicaSet struct {
	name  string
	class int32
	// share is its part of all pods; offset, between 0 and 1, is where it rounds, so that not all change at once.
	share, offset float64
	// zonal and perHost are its hard spreads with a skew of 1, apart its anti-affinity by host.
	zonal, perHost, apart bool

	pods   []*pod
	byZone map[string]int // bound pods
}

// wants is how many pods the set is to have when all together have total.
func (r *replicaSet) wants(total float64) int { return int(math.Floor(r.share*total + r.offset)) }

// workloads draws the sets of a workload and their classes.
func workloads(w Workload, rng *rand.Rand) ([]*replicaSet, []*world.Class, error) {
	var sets []*replicaSet
	var classes []*world.Class
	add := func(r *replicaSet, cpu, memory float64) {
		r.class, r.offset, r.byZone = int32(len(classes)), rng.Float64(), map[string]int{}
		sets = append(sets, r)
		classes = append(classes, r.newClass(int64(cpu*1000), int64(memory*float64(gib))/mib*mib))
	}
	about := func(x float64) float64 { return x * (0.9 + 0.2*rng.Float64()) }
	switch w {
	case Wide:
		for i := range wideSets {
			r := &replicaSet{name: fmt.Sprintf("wide-%02d", i), share: about(1), apart: i < apartSets, perHost: i >= apartSets && i < apartSets+hostSets, zonal: i < spreadSets}
			add(r, between(rng, 0.2, 4), between(rng, 0.3, 64))
		}
	case Basic:
		add(&replicaSet{name: "small", share: 1}, about(0.9), about(3))
		add(&replicaSet{name: "large", share: 1}, about(3.5), about(28))
	default:
		return nil, nil, fmt.Errorf("no workload is called %q", w)
	}
	sum := 0.0
	for _, r := range sets {
		sum += r.share
	}
	for _, r := range sets {
		r.share /= sum
	}
	return sets, classes, nil
}

// between draws log-uniformly.
func between(rng *rand.Rand, low, high float64) float64 {
	return low * math.Pow(high/low, rng.Float64())
}

// newClass is what the engine knows of the set's pods.
func (r *replicaSet) newClass(cpu, memory int64) *world.Class {
	c := &world.Class{
		ID: r.class, Namespace: "default", Labels: world.NewLabels(map[string]string{"app": r.name}), Requests: world.Resources{cpu, memory, 1},
	}
	self := world.Selector{Some: true, Need: req.NewSet(req.Is("app", r.name))}
	for _, s := range []struct {
		on  bool
		key string
	}{{r.zonal, world.LabelZone}, {r.perHost, world.LabelHostname}} {
		if s.on {
			c.Spread = append(c.Spread, world.Spread{Key: s.key, MaxSkew: 1, Hard: true, Selector: self, HonorAffinity: true})
		}
	}
	if r.apart {
		c.AntiAffinity = []world.PodTerm{{Key: world.LabelHostname, Selector: self, Namespaces: []string{"default"}}}
	}
	return c
}

// total is how many pods there are to be at a moment of the day.
func (s *sim) total() float64 {
	if !s.now.Before(midnight.Add(s.Length)) {
		return float64(s.Low)
	}
	at := s.now.Sub(midnight).Seconds() / s.Length.Seconds()
	return float64(s.Low) + float64(s.High-s.Low)*(1-math.Cos(2*math.Pi*at))/2
}
