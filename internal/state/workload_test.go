package state

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"karpenter/internal/state/trim"
)

// spreadLab is a mirror with a default constraint, and pods of two apps in one namespace and one of the first in another.
func spreadLab() (*lab, map[string]*corev1.Pod) {
	l := &lab{now: epoch}
	l.Mirror = NewMirror(MirrorOptions{Types: sampleTypes, Now: func() time.Time { return l.now }, Options: Options{
		DefaultSpread: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule}},
	}})
	pods := map[string]*corev1.Pod{}
	for name, app := range map[string]string{"web": "web", "db": "db", "far": "web"} {
		p := l.pod(name, "")
		p.Labels = map[string]string{"app": app}
		if name == "far" {
			p.Namespace = "elsewhere"
		}
		pods[name] = p
		l.put(p)
	}
	return l, pods
}

// spreads is by what the pending pods of a view are spread.
func spreads(v *View) map[string]string {
	out := map[string]string{}
	for _, p := range v.World.Pending {
		for _, s := range v.World.Classes[p.Class].Spread {
			out[p.Name] += s.Selector.Need.String()
		}
	}
	return out
}

func expect(t *testing.T, l *lab, want map[string]string) *View {
	t.Helper()
	v := l.View()
	got := spreads(v)
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is spread by %q, want %q", name, got[name], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("spread are %v, want %v", got, want)
	}
	return v
}

func TestN1_AServiceChangesThePodsThatItPicks(t *testing.T) {
	l, _ := spreadLab()
	expect(t, l, map[string]string{})
	svc := &corev1.Service{ObjectMeta: l.meta("front"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	l.put(svc)
	after := expect(t, l, map[string]string{"web": "app In [web]"})
	if v := l.put(&corev1.Service{ObjectMeta: l.meta("nobody"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "none"}}}); v.World != after.World {
		t.Error("a Service that picks no pod is news")
	}
	if v := l.put(again(l, svc, func(s *corev1.Service) { s.Annotations = map[string]string{"a": "b"} })); v.World != after.World {
		t.Error("an annotation of a Service is news")
	}
	svc = again(l, svc, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "db"} })
	l.put(svc)
	expect(t, l, map[string]string{"db": "app In [db]"})
	l.put(again(l, svc, func(s *corev1.Service) { s.Spec.Selector = nil }))
	expect(t, l, map[string]string{})
	l.put(again(l, svc, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} }))
	other := again(l, svc, func(s *corev1.Service) { s.UID = "of an earlier one" })
	l.Drop(other)
	expect(t, l, map[string]string{"web": "app In [web]"})
	l.Drop(svc)
	expect(t, l, map[string]string{})
}

func TestN1_AnOwnerThatAppearsChangesItsPods(t *testing.T) {
	yes := true
	for kind, owner := range map[string]func(metav1.ObjectMeta, string) Object{
		"ReplicaSet": func(m metav1.ObjectMeta, app string) Object {
			return &appsv1.ReplicaSet{ObjectMeta: m, Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
		},
		"StatefulSet": func(m metav1.ObjectMeta, app string) Object {
			return &appsv1.StatefulSet{ObjectMeta: m, Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
		},
		"ReplicationController": func(m metav1.ObjectMeta, app string) Object {
			return &corev1.ReplicationController{ObjectMeta: m, Spec: corev1.ReplicationControllerSpec{Selector: map[string]string{"app": app}}}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			l, pods := spreadLab()
			version := map[bool]string{true: "v1", false: "apps/v1"}[kind == "ReplicationController"]
			owned := again(l, pods["web"], func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "w", Controller: &yes}}
			})
			l.put(owned)
			expect(t, l, map[string]string{})
			first := owner(l.meta("w"), "web")
			if _, err := trim.Object(first); err != nil { // what caches keep is enough
				t.Fatal(err)
			}
			l.put(first)
			expect(t, l, map[string]string{"web": "app In [web]"})
			// Another of that name, without the end of the first having been seen.
			second := owner(l.meta("w"), "other")
			second.SetUID("second")
			l.put(second)
			expect(t, l, map[string]string{"web": "app In [other]"})
			l.Drop(first)
			expect(t, l, map[string]string{"web": "app In [other]"})
			l.Drop(second)
			expect(t, l, map[string]string{})
		})
	}
}

// A constraint of its own keeps the defaults away, and without default constraints nothing of this is kept or watched.
func TestN1_DefaultsAreForPodsWithoutConstraints(t *testing.T) {
	l, pods := spreadLab()
	l.put(again(l, pods["web"], func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 2, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"own": "yes"}},
		}}
	}))
	l.put(&corev1.Service{ObjectMeta: l.meta("front"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}})
	expect(t, l, map[string]string{"web": "own In [yes]"})

	plain := newLab()
	for _, kind := range plain.Kinds() {
		switch kind.(type) {
		case *corev1.Service, *corev1.ReplicationController, *appsv1.ReplicaSet, *appsv1.StatefulSet:
			t.Errorf("%T is watched without default constraints", kind)
		}
	}
	plain.put(&corev1.Service{ObjectMeta: plain.meta("front"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}})
	if len(plain.conv.Services) > 0 {
		t.Error("Services are kept without default constraints")
	}
}
