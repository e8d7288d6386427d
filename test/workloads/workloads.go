// Package workloads has the workloads that the whole product is held to, in real and in simulated time, and what it is held to: Deployments
// that are drawn from a seed, with a way out and a way in.
package workloads

import (
	"fmt"
	"math"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of workloads.
const (
	Wide         = "wide"
	Basic        = "basic"
	HostSpread   = "hostspread"
	Interference = "interference"
)

// Workload is what a cluster is given: Deployments, and how many replicas each has in each phase.
type Workload struct {
	Name   string
	Shapes []Shape
	Phases []Stage
}

// Stage is one phase of a workload: all Deployments are brought to their replicas one right after another.
type Stage struct {
	Name string
	// Replicas are in the order of the shapes; a Deployment is made when it first has any.
	Replicas []int
	// In is for the way in: pods become fewer, and what counts is when nothing is moved any more.
	In bool
}

// Pods is how many there are at the end.
func (s Stage) Pods() int {
	sum := 0
	for _, n := range s.Replicas {
		sum += n
	}
	return sum
}

// Shape is what the pods of a Deployment are like.
type Shape struct {
	Name          string
	MilliCPU, MiB int
	Zones, Hosts  bool // hard spread over zones, over hosts
	AntiAffinity  bool // no two on one host
}

// Draw makes the workloads of a seed, so that nothing can be tuned to one of them. scale is their size as a share of the full one.
func Draw(seed uint64, scale float64) []*Workload {
	small := func(r *rand.Rand) Shape { return around(r, "small", 900, 3<<10) }
	large := func(r *rand.Rand) Shape { return around(r, "large", 3500, 28<<10) }
	size := func(n ...int) []int {
		for i := range n {
			if n[i] > 0 {
				n[i] = max(1, int(math.Round(float64(n[i])*scale)))
			}
		}
		return n
	}
	r := draw(seed, Basic)
	basic := &Workload{Name: Basic, Shapes: []Shape{small(r), large(r)}, Phases: []Stage{
		{Name: "out", Replicas: size(500, 500)}, {Name: "in", Replicas: size(350, 350), In: true},
	}}
	r = draw(seed, HostSpread)
	spread := &Workload{Name: HostSpread, Shapes: []Shape{small(r), large(r)}, Phases: basic.Phases}
	spread.Shapes[0].Hosts = true
	r = draw(seed, Interference)
	interference := &Workload{Name: Interference, Shapes: []Shape{small(r), large(r)}, Phases: []Stage{
		{Name: "out1", Replicas: size(500, 0)}, {Name: "out2", Replicas: size(250, 500)}, {Name: "in", Replicas: size(400, 200), In: true},
	}}
	for i := range interference.Shapes {
		interference.Shapes[i].AntiAffinity = true
	}
	return []*Workload{wide(draw(seed, Wide), size), basic, spread, interference}
}

// draw makes the random numbers of a workload, which do not depend on those of another.
func draw(seed uint64, name string) *rand.Rand {
	var key [32]byte
	copy(key[:], fmt.Sprintf("%d %s", seed, name))
	return rand.New(rand.NewChaCha8(key))
}

// around is a shape within a tenth of the one given.
func around(r *rand.Rand, name string, milliCPU, mib int) Shape {
	vary := func(n int) int { return int(math.Round(float64(n) * (0.9 + 0.2*r.Float64()))) }
	return Shape{Name: name, MilliCPU: vary(milliCPU), MiB: vary(mib)}
}

// wide is thirty Deployments of thirty to thirty-five pods, a thousand in all, each of another shape.
func wide(r *rand.Rand, size func(...int) []int) *Workload {
	const deployments, least, most, sum = 30, 30, 35, 1000
	logUniform := func(from, to float64) float64 { return from * math.Exp(r.Float64()*math.Log(to/from)) }
	w := &Workload{Name: Wide}
	full := make([]int, deployments)
	left := sum
	for i := range full {
		w.Shapes = append(w.Shapes, Shape{
			Name: fmt.Sprintf("wide-%d", i), MilliCPU: int(1000 * logUniform(0.2, 4)), MiB: int(1024 * logUniform(0.3, 64)),
			Zones: true, AntiAffinity: i < 3, Hosts: i >= 3 && i < 6,
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
	w.Phases = []Stage{{Name: "out", Replicas: size(full...)}, {Name: "in", Replicas: size(fewer...), In: true}}
	return w
}

// Label names the Deployment that a pod is of.
const Label = "app"

// PodSpec is that of a pod that asks for so much.
func PodSpec(cpu, memory string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "registry.k8s.io/pause:3.10",
		Env: []corev1.EnvVar{{Name: "LANG", Value: "C.UTF-8"}, {Name: "PORT", Value: "8080"}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}},
	}}}
}

// Apart keeps pods of one app on nodes of their own.
func Apart(app string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{Label: app}}},
	}}}
}

// Deployment is the shape as an object.
func (s *Shape) Deployment(replicas int) *appsv1.Deployment {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{Label: s.Name}}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: s.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)), Selector: selector,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels},
				Spec:       PodSpec(fmt.Sprintf("%dm", s.MilliCPU), fmt.Sprintf("%dMi", s.MiB)),
			},
		},
	}
	spec := &d.Spec.Template.Spec
	if s.AntiAffinity {
		spec.Affinity = Apart(s.Name)
	}
	var keys []string
	if s.Zones {
		keys = append(keys, corev1.LabelTopologyZone)
	}
	if s.Hosts {
		keys = append(keys, corev1.LabelHostname)
	}
	for _, key := range keys {
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
		})
	}
	return d
}
