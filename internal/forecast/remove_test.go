package forecast

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"karpenter/cloud"
	"karpenter/internal/cloud/aws"
	"karpenter/internal/model"
	"karpenter/internal/state/dump"
)

// kinds are those of node classes.
var kinds = func() []*cloud.Kind { kind := aws.Kind(); return []*cloud.Kind{&kind} }()

// deleted is what the crowd comes to when objects are deleted.
func deleted(t *testing.T, names ...string) (*Change, *Outcome, error) {
	t.Helper()
	s := crowd(t, rand.New(rand.NewPCG(1, 1)))
	c := &Change{Objects: s.Objects, Classes: s.Record.Classes, Kinds: kinds, Now: noon, Delete: names}
	if err := c.Apply(nil); err != nil {
		return c, nil, err
	}
	s.Objects = c.Objects
	return c, Run(s), nil
}

func TestDeletedObjectsGo(t *testing.T) {
	_, all, err := deleted(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name  string
		check func(*Outcome) bool
	}{
		{"nodepool/p", func(o *Outcome) bool { return o.After.Nodes == 0 && o.After.Price == 0 }},
		{"nodepool.karpenter.sh/p", func(o *Outcome) bool { return o.After.Nodes == 0 }},
		{"nodeclaim/c3", func(o *Outcome) bool { return gone(o, "n3") && o.After.Nodes > 0 }},
		{"node/n3", func(o *Outcome) bool { return gone(o, "n3") && o.After.Nodes > 0 }},
		{"pod/p1-0", func(o *Outcome) bool { return pods(o) == pods(all)-1 }},
		{"pod/default/p1-0", func(o *Outcome) bool { return pods(o) == pods(all)-1 }},
	} {
		c, out, err := deleted(t, x.name)
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		if !x.check(out) || len(c.Words) != 1 || !strings.HasSuffix(c.Words[0], " is deleted") {
			t.Errorf("%s: %q, and it comes to %+v", x.name, c.Words, out)
		}
	}
}

func gone(o *Outcome, node string) bool {
	return !slices.ContainsFunc(o.Nodes, func(m model.PlannedNode) bool { return m.Node.Node == node })
}

func pods(o *Outcome) (n int) {
	for _, m := range o.Nodes {
		n += len(m.Pods)
	}
	return n
}

func TestWhatCannotBeDeletedIsNamed(t *testing.T) {
	for name, want := range map[string]string{
		"nodepool":           "names no object",
		"nodepool/":          "names no object",
		"a/b/c/d":            "names no object",
		"configmap/x":        "it can delete CapacityBuffer, DaemonSet, Deployment, Job,",
		"node/default/n3":    "a Node is in no namespace; write node/n3",
		"nodepool/other":     "NodePool other is to be deleted, and the cluster has none",
		"node/other":         "Node other is to be deleted",
		"pod/elsewhere/p1-0": "Pod elsewhere/p1-0 is to be deleted",
	} {
		if _, _, err := deleted(t, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestAPodThatLosesItsNodeWaits(t *testing.T) {
	s := crowd(t, rand.New(rand.NewPCG(1, 1)))
	owned := *s.Objects.Pods[slices.IndexFunc(s.Objects.Pods, func(p *corev1.Pod) bool { return p.Name == "p1-0" })]
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", Controller: new(true)}}
	for i, p := range s.Objects.Pods {
		if p.Name == owned.Name {
			s.Objects.Pods[i] = &owned
		}
	}
	c := &Change{Objects: s.Objects, Classes: s.Record.Classes, Kinds: kinds, Now: noon, Delete: []string{"nodepool/p"}}
	if err := c.Apply(nil); err != nil {
		t.Fatal(err)
	}
	s.Objects = c.Objects
	out := Run(s)
	waits := false
	for _, u := range out.Unplaced {
		waits = waits || slices.Contains(u.Pods, "default/p1-0")
	}
	if !waits {
		t.Errorf("without its pool the pod of a ReplicaSet does not wait: %+v", out.Unplaced)
	}
}

func TestPodsGoInKubernetesOrder(t *testing.T) {
	pod := func(name, node string, more func(*corev1.Pod)) *corev1.Pod {
		text := fmt.Sprintf(`{"kind":"Pod","metadata":{"name":%q,"uid":%q,"creationTimestamp":"2026-08-01T11:00:00Z","annotations":{}},"spec":{"nodeName":%q},
			"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-08-01T11:00:00Z"}]}}`, name, name, node)
		objects, _, err := dump.Read([]byte(`{"kind":"List","items":[` + text + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		p := objects.Pods[0]
		if more != nil {
			more(p)
		}
		return p
	}
	dear := pod("dear", "b", func(p *corev1.Pod) { p.Annotations["controller.kubernetes.io/pod-deletion-cost"] = "5" })
	old := pod("old", "c", nil)
	young := pod("young", "d", func(p *corev1.Pod) {
		c := &p.Status.Conditions[0]
		c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Add(3500 * time.Second))
	})
	crowded1, crowded2 := pod("x1", "e", nil), pod("x2", "e", nil)
	unready := pod("unready", "f", func(p *corev1.Pod) { p.Status.Conditions[0].Status = "False" })
	waiting := pod("waiting", "", nil)
	list := []*corev1.Pod{waiting, unready, crowded1, young, dear, old, crowded2}
	(&workload{identity: identity{kind: "Deployment"}}).rank(list, noon)
	var got []string
	for _, p := range list {
		got = append(got, p.Name)
	}
	if want := []string{"dear", "old", "young", "x2", "x1", "unready", "waiting"}; !slices.Equal(got, want) {
		t.Errorf("they stay in the order %v, want %v", got, want)
	}
	set := []*corev1.Pod{pod("db-10", "a", nil), pod("db-9", "b", nil), pod("db-0", "", nil)}
	(&workload{identity: identity{kind: "StatefulSet"}}).rank(set, noon)
	if set[0].Name != "db-0" || set[2].Name != "db-10" {
		t.Errorf("of a StatefulSet %s stays first and %s last, want db-0 and db-10", set[0].Name, set[2].Name)
	}
}

// TestWorkloadsWithoutPodsAreAskedFor: what makes no pods is not among the objects that are read, and may be there all the same.
func TestWorkloadsWithoutPodsAreAskedFor(t *testing.T) {
	s := crowd(t, rand.New(rand.NewPCG(1, 1)))
	var asked []string
	change := func(names ...string) *Change {
		return &Change{Objects: s.Objects, Classes: s.Record.Classes, Kinds: kinds, Now: noon, Delete: names, Namespace: "shop", Exists: func(path string) (bool, error) {
			asked = append(asked, path)
			return strings.HasSuffix(path, "/idle"), nil
		}}
	}
	if err := change("deployment/idle", "job/other/idle").Apply(nil); err != nil {
		t.Error(err)
	}
	if err := change("deployment/nosuch").Apply(nil); err == nil || !strings.Contains(err.Error(), "Deployment shop/nosuch is to be deleted, and the cluster has none") {
		t.Errorf("a Deployment that is not there: %v", err)
	}
	want := []string{"/apis/apps/v1/namespaces/shop/deployments/idle", "/apis/batch/v1/namespaces/other/jobs/idle", "/apis/apps/v1/namespaces/shop/deployments/nosuch"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
	c := change("deployment/nosuch")
	c.Exists = nil
	if err := c.Apply(nil); err == nil || !strings.Contains(err.Error(), "Deployment shop/nosuch is to be deleted, and no pod of it was read") {
		t.Errorf("a Deployment of a file that has none of its pods: %v", err)
	}
}
