package state

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
)

// nominee is a pod that wants a place and is nominated for a node.
func (l *lab) nominee(name, node, cpu string, priority int32) *corev1.Pod {
	p := l.pod(name, "")
	p.Status.NominatedNodeName = node
	p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse(cpu)
	p.Spec.Priority = &priority
	return p
}

// roomy is a node with 7 CPUs for any number of pods.
func (l *lab) roomy(name, instance string) *corev1.Node {
	n := l.node(name, instance)
	n.Status.Capacity["pods"], n.Status.Allocatable["pods"] = resource.MustParse("100"), resource.MustParse("100")
	return n
}

// victim is a pod on a node that is being deleted, and should be gone after so many seconds.
func (l *lab) victim(name, node, cpu string, seconds int) *corev1.Pod {
	p := l.pod(name, node)
	p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse(cpu)
	gone := at(seconds)
	p.DeletionTimestamp = &gone
	return p
}

func TestNominationsCountOnlyWhileTheyAreTrue(t *testing.T) {
	for name, test := range map[string]struct {
		objects func(l *lab) []Object
		want    string
	}{
		"the node has room": {
			func(l *lab) []Object { return []Object{l.roomy("n", "x"), l.nominee("p", "n", "3", 0)} },
			"n p",
		},
		"the node is gone": {
			func(l *lab) []Object { return []Object{l.nominee("p", "n", "3", 0)} },
			"pending p",
		},
		"the node is full": {
			func(l *lab) []Object {
				full := l.pod("a", "n")
				full.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("6")
				return []Object{l.roomy("n", "x"), full, l.nominee("p", "n", "3", 9)}
			},
			"n a; pending p",
		},
		"the node is being deleted": {
			func(l *lab) []Object {
				n := l.roomy("n", "x")
				n.DeletionTimestamp = new(at(1))
				return []Object{n, l.nominee("p", "n", "3", 0)}
			},
			"n leaving; pending p",
		},
		"the node is being disrupted": {
			func(l *lab) []Object {
				n := l.roomy("n", "x")
				n.Spec.Taints = []corev1.Taint{{Key: v1.DisruptedTaintKey, Effect: corev1.TaintEffectNoSchedule}}
				return []Object{l.launched(l.claim("c"), "x"), n, l.nominee("p", "n", "3", 0)}
			},
			"n(c) leaving; pending p",
		},
		"the node is cordoned": {
			func(l *lab) []Object {
				n := l.roomy("n", "x")
				n.Spec.Unschedulable = true
				return []Object{n, l.nominee("p", "n", "3", 0)}
			},
			"n; pending p",
		},
		"the node is another than the pod asks for": {
			func(l *lab) []Object {
				p := l.nominee("p", "n", "3", 0)
				p.Spec.NodeSelector = map[string]string{"disk": "fast"}
				return []Object{l.roomy("n", "x"), p}
			},
			"n; pending p",
		},
		"a preemption is under way": {
			func(l *lab) []Object {
				return []Object{l.roomy("n", "x"), l.victim("a", "n", "6", 30), l.nominee("p", "n", "3", 9)}
			},
			"n a p",
		},
		"pods that are deleted there have the same priority": {
			func(l *lab) []Object {
				return []Object{l.roomy("n", "x"), l.victim("a", "n", "6", 30), l.nominee("p", "n", "3", 0)}
			},
			"n a; pending p",
		},
		"what is deleted there is not enough": {
			func(l *lab) []Object {
				stays := l.pod("b", "n")
				stays.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("5")
				return []Object{l.roomy("n", "x"), l.victim("a", "n", "1", 30), stays, l.nominee("p", "n", "3", 9)}
			},
			"n a b; pending p",
		},
		"two are nominated and one fits": {
			func(l *lab) []Object {
				return []Object{l.roomy("n", "x"), l.nominee("p", "n", "4", 0), l.nominee("q", "n", "4", 9)}
			},
			"n q; pending p",
		},
		"ours, just before the node lets pods in": {
			func(l *lab) []Object {
				n := l.roomy("n", "x")
				n.Spec.Taints = []corev1.Taint{{Key: v1.UnregisteredTaintKey, Effect: corev1.TaintEffectNoExecute}}
				return []Object{l.launched(l.claim("c"), "x"), n, l.nominee("p", "n", "3", 0)}
			},
			"n(c) p",
		},
		"the scheduler has not refused it": {
			func(l *lab) []Object {
				p := l.nominee("p", "n", "3", 0)
				p.Status.Conditions = nil
				return []Object{l.roomy("n", "x"), p}
			},
			"n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			check(t, l.put(test.objects(l)...), test.want)
		})
	}
}

// TestNominationsFollowTheirNode changes everything that a nomination depends on, one after another.
func TestNominationsFollowTheirNode(t *testing.T) {
	l := newLab()
	node, p := l.roomy("n", "x"), l.nominee("p", "n", "3", 9)
	check(t, l.put(p), "pending p")
	check(t, l.put(node), "n p")
	full := l.pod("a", "n")
	full.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("6")
	check(t, l.put(full), "n a; pending p")
	gone := at(30)
	check(t, l.put(again(l, full, func(p *corev1.Pod) { p.DeletionTimestamp = &gone })), "n a p")
	l.now = at(30).Add(overdue) // it should be gone by now
	check(t, l.View(), "n a; pending p")
	l.Drop(full)
	check(t, l.View(), "n p")
	check(t, l.put(again(l, p, func(p *corev1.Pod) { p.Status.NominatedNodeName = "" })), "n; pending p")
	p = again(l, p, func(p *corev1.Pod) { p.Status.NominatedNodeName = "other" })
	check(t, l.put(p, l.roomy("other", "y")), "n; other p")
	check(t, l.put(again(l, p, func(p *corev1.Pod) { p.Spec.NodeName, p.Status.NominatedNodeName = "n", "" })), "n p; other")
}

func TestViewsListNominees(t *testing.T) {
	l := newLab()
	v := l.put(l.roomy("n", "x"), l.victim("a", "n", "6", 30), l.nominee("b", "n", "3", 9), l.nominee("c", "gone", "1", 0), l.pod("d", ""))
	want := []Nominee{{v.Nominees[0].Pod, true, true}, {v.Nominees[1].Pod, false, false}}
	if len(v.Nominees) != 2 || v.Nominees[0] != want[0] || v.Nominees[1] != want[1] || v.Nominees[0].Pod.Name != "b" {
		t.Errorf("got %+v", v.Nominees)
	}
	// What counts as on the node is one of its pods for whoever reads the objects.
	if n := v.Node("n"); len(n.Pods) != 2 || len(n.World.Pods) != 2 {
		t.Errorf("node has %d pods and %d objects", len(n.World.Pods), len(n.Pods))
	}
}

// TestDisregardedNominations: who knows that a nomination leads nowhere can say so, until it changes.
func TestDisregardedNominations(t *testing.T) {
	l := newLab()
	p := l.nominee("p", "n", "3", 0)
	check(t, l.put(l.roomy("n", "x"), l.roomy("other", "y"), p), "n p; other")
	l.Disregard(p)
	v := l.View()
	check(t, v, "n; other; pending p")
	// A recording says so too.
	again1, _ := Rebuild(v.Objects(), Record{Now: l.now})
	check(t, again1, "n; other; pending p")
	p = again(l, p, func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} })
	check(t, l.put(p), "n; other; pending p")
	p = again(l, p, func(p *corev1.Pod) { p.Status.NominatedNodeName = "other" })
	check(t, l.put(p), "n; other p")
	p = again(l, p, func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" })
	check(t, l.put(p), "n p; other")
	l.Disregard(p)
	l.Drop(p)
	if l.View(); len(l.disregarded) > 0 || len(l.hosts["n"].nominees) > 0 {
		t.Errorf("something is left of the pod: %v", l.disregarded)
	}
	l.Disregard(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "nobody", UID: "x"}})
	l.now = l.now.Add(time.Hour)
	check(t, l.View(), "n; other")
}
