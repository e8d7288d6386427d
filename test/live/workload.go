package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	barWide         = "wide"
	barBasic        = "basic"
	barHostSpread   = "hostspread"
	barInterference = "interference"
)

// workload is what a cluster is given: Deployments, and how many replicas each has in each phase.
type workload struct {
	name   string
	shapes []shape
	phases []stage
}

// stage is one phase of a workload: all Deployments are brought to their replicas one right after another.
type stage struct {
	name string
	// replicas are in the order of the shapes; a Deployment is made when it first has any.
	replicas []int
	// in is for the way in: pods become fewer, and what counts is when nothing is moved any more.
	in bool
}

// pods is how many there are at the end.
func (s stage) pods() int {
	sum := 0
	for _, n := range s.replicas {
		sum += n
	}
	return sum
}

// shape is what the pods of a Deployment are like.
type shape struct {
	name          string
	milliCPU, mib int
	zones, hosts  bool // hard spread over zones, over hosts
	antiAffinity  bool // no two on one host
}

// workloads are drawn from a seed, so that nothing can be tuned to one of them. scale is their size as a share of the full one.
func workloads(seed uint64, scale float64) []*workload {
	small := func(r *rand.Rand) shape { return around(r, "small", 900, 3<<10) }
	large := func(r *rand.Rand) shape { return around(r, "large", 3500, 28<<10) }
	size := func(n ...int) []int {
		for i := range n {
			if n[i] > 0 {
				n[i] = max(1, int(math.Round(float64(n[i])*scale)))
			}
		}
		return n
	}
	r := draw(seed, barBasic)
	basic := &workload{name: barBasic, shapes: []shape{small(r), large(r)}, phases: []stage{
		{name: "out", replicas: size(500, 500)}, {name: "in", replicas: size(350, 350), in: true},
	}}
	r = draw(seed, barHostSpread)
	spread := &workload{name: barHostSpread, shapes: []shape{small(r), large(r)}, phases: basic.phases}
	spread.shapes[0].hosts = true
	r = draw(seed, barInterference)
	interference := &workload{name: barInterference, shapes: []shape{small(r), large(r)}, phases: []stage{
		{name: "out1", replicas: size(500, 0)}, {name: "out2", replicas: size(250, 500)}, {name: "in", replicas: size(400, 200), in: true},
	}}
	for i := range interference.shapes {
		interference.shapes[i].antiAffinity = true
	}
	return []*workload{wide(draw(seed, barWide), size), basic, spread, interference}
}

// draw makes the random numbers of a workload, which do not depend on those of another.
func draw(seed uint64, name string) *rand.Rand {
	var key [32]byte
	copy(key[:], fmt.Sprintf("%d %s", seed, name))
	return rand.New(rand.NewChaCha8(key))
}

// around is a shape within a tenth of the one given.
func around(r *rand.Rand, name string, milliCPU, mib int) shape {
	vary := func(n int) int { return int(math.Round(float64(n) * (0.9 + 0.2*r.Float64()))) }
	return shape{name: name, milliCPU: vary(milliCPU), mib: vary(mib)}
}

// wide is thirty Deployments of thirty to thirty-five pods, a thousand in all, each of another shape.
func wide(r *rand.Rand, size func(...int) []int) *workload {
	const deployments, least, most, sum = 30, 30, 35, 1000
	logUniform := func(from, to float64) float64 { return from * math.Exp(r.Float64()*math.Log(to/from)) }
	w := &workload{name: barWide}
	full := make([]int, deployments)
	left := sum
	for i := range full {
		w.shapes = append(w.shapes, shape{
			name: fmt.Sprintf("wide-%d", i), milliCPU: int(1000 * logUniform(0.2, 4)), mib: int(1024 * logUniform(0.3, 64)),
			zones: true, antiAffinity: i < 3, hosts: i >= 3 && i < 6,
		})
		full[i] = least
		left -= least
	}
	for left > 0 {
		if i := r.IntN(deployments); full[i] < most {
			full[i]++
			left--
		}
	}
	fewer := make([]int, deployments)
	for i, n := range full {
		fewer[i] = int(math.Round(0.7 * float64(n)))
	}
	w.phases = []stage{{name: "out", replicas: size(full...)}, {name: "in", replicas: size(fewer...), in: true}}
	return w
}

// deployment is the shape as an object.
func (s *shape) deployment(replicas int) *appsv1.Deployment {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: s.name}}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: s.name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)), Selector: selector,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels},
				Spec:       podSpec(fmt.Sprintf("%dm", s.milliCPU), fmt.Sprintf("%dMi", s.mib)),
			},
		},
	}
	spec := &d.Spec.Template.Spec
	if s.antiAffinity {
		spec.Affinity = apart(s.name)
	}
	var keys []string
	if s.zones {
		keys = append(keys, corev1.LabelTopologyZone)
	}
	if s.hosts {
		keys = append(keys, corev1.LabelHostname)
	}
	for _, key := range keys {
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
		})
	}
	return d
}
