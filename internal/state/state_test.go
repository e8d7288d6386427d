package state

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"karpenter/internal/engine/world"
	"karpenter/internal/state/dump"
	"karpenter/internal/state/toworld"
)

const pendingStatus = `"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}`

// list wraps items as kubectl does.
func list(items ...string) []byte {
	return []byte(`{"apiVersion":"v1","kind":"List","items":[` + strings.Join(items, ",") + `]}`)
}

func pod(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"default","uid":%q},"spec":%s,%s}`, name, name, spec, pendingStatus)
}

func build(t *testing.T, data []byte) (*world.Snapshot, []dump.Problem) {
	t.Helper()
	o, problems, err := dump.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	s, more := Build(o, nil, Options{})
	return s, append(problems, more...)
}

func TestEqualPodsAreOneClass(t *testing.T) {
	spec := `{"containers":[{"name":"c","resources":{"requests":{"cpu":"250m","memory":"64Mi"}}}]}`
	other := `{"containers":[{"name":"c","resources":{"requests":{"memory":"64Mi","cpu":"0.25"}}}]}` // the same in other words
	s, problems := build(t, list(pod("a", spec), pod("b", spec), pod("c", other)))
	if len(problems) > 0 || len(s.Classes) != 1 || len(s.Pending) != 3 {
		t.Fatalf("%d classes, %d pods, problems %v", len(s.Classes), len(s.Pending), problems)
	}
	want := world.Resources{250, 64 << 20, 1}
	if diff := cmp.Diff(want, s.Classes[0].Requests); diff != "" {
		t.Error(diff)
	}
}

func TestLabelsThatNobodyReadsDoNotSplitClasses(t *testing.T) {
	labelled := func(name, app string) string {
		return fmt.Sprintf(`{"kind":"Pod","metadata":{"name":%q,"namespace":"default","labels":{"app":%q,"pod-index":%q}},"spec":{"containers":[]},%s}`, name, app, name, pendingStatus)
	}
	spreading := pod("s", `{"containers":[],"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"app":"web"}}}]}`)
	s, _ := build(t, list(labelled("a", "web"), labelled("b", "web"), labelled("c", "db"), spreading))
	if len(s.Classes) != 3 { // web, db, and the one that spreads
		t.Errorf("%d classes, want 3", len(s.Classes))
	}
}

func TestBadObjectsAreNamedAndTheRestIsRead(t *testing.T) {
	labels := map[string]string{}
	for i := range 10000 {
		labels[fmt.Sprintf("example.com/l%d", i)] = "x"
	}
	many, err := json.Marshal(labels)
	if err != nil {
		t.Fatal(err)
	}
	s, problems := build(t, list(
		pod("fine", `{"containers":[]}`),
		`{"kind":"Pod","metadata":{"name":"nospec","namespace":"default"}}`,
		`{"kind":"Pod","metadata":{"name":"wrongtype","namespace":"default"},"spec":{"containers":"none"}}`,
		`{"kind":"Pod","metadata":{"name":"badcpu","namespace":"default"},"spec":{"containers":[{"resources":{"requests":{"cpu":"many"}}}]}}`,
		pod("negative", `{"containers":[{"name":"c","resources":{"requests":{"cpu":"-1"}}}]}`),
		`{"kind":"Node","metadata":{"name":"bare"}}`,
		`{"kind":"Node","metadata":{"name":"minus"},"status":{"allocatable":{"cpu":"-3"}}}`,
		`{"kind":"Node","metadata":{"name":"labels","labels":`+string(many)+`},"status":{"allocatable":{"cpu":"3"}}}`,
		`{"metadata":{"name":"kindless"}}`,
		`{"kind":"ConfigMap","metadata":{"name":"x"}}`,
		`17`,
	))
	if len(s.Pending) != 1 || len(s.Nodes) != 2 {
		t.Errorf("%d pods and %d nodes are left, want 1 and 2", len(s.Pending), len(s.Nodes))
	}
	var names []string
	for _, p := range problems {
		names = append(names, p.Kind+" "+p.Name)
	}
	text := strings.Join(names, "\n")
	for _, want := range []string{"Pod default/nospec", "Pod default/wrongtype", "Pod default/badcpu", "Pod default/negative", "Node minus", "object kindless", "object items[10]"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not reported in\n%s", want, text)
		}
	}
}

func TestReadListForms(t *testing.T) {
	one := pod("a", `{"containers":[],"volumes":[{"name":"v","configMap":{"items":[{"key":"k","path":"p"}]}}]}`)
	for name, data := range map[string]string{
		"list":          string(list(one)),
		"single object": one,
		"pretty":        "{\n \"items\" : [\n " + one + "\n ],\n \"kind\": \"List\"}",
		"items last":    `{"kind":"List","metadata":{"resourceVersion":""},"items":[` + one + `]}`,
	} {
		o, problems, err := dump.Read([]byte(data))
		if err != nil || len(problems) > 0 || len(o.Pods) != 1 {
			t.Errorf("%s: %d pods, %v, %v", name, len(o.Pods), problems, err)
		}
	}
	if _, _, err := dump.Read([]byte("not json")); err == nil {
		t.Error("text is read as a list")
	}
}

func TestP62_PodRequests(t *testing.T) {
	q := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}
	}
	always := corev1.ContainerRestartPolicyAlways
	cases := []struct {
		name   string
		spec   corev1.PodSpec
		status corev1.PodStatus
		want   string
	}{
		{"containers add up", corev1.PodSpec{Containers: []corev1.Container{{Resources: q("1")}, {Resources: q("2")}}}, corev1.PodStatus{}, "3"},
		{"the largest init container", corev1.PodSpec{Containers: []corev1.Container{{Resources: q("1")}}, InitContainers: []corev1.Container{{Resources: q("4")}, {Resources: q("2")}}}, corev1.PodStatus{}, "4"},
		{"a sidecar runs beside containers", corev1.PodSpec{Containers: []corev1.Container{{Resources: q("1")}}, InitContainers: []corev1.Container{{Resources: q("2"), RestartPolicy: &always}}}, corev1.PodStatus{}, "3"},
		{"a sidecar runs beside later init containers", corev1.PodSpec{Containers: []corev1.Container{{Resources: q("1")}}, InitContainers: []corev1.Container{{Resources: q("2"), RestartPolicy: &always}, {Resources: q("5")}}}, corev1.PodStatus{}, "7"},
		{"overhead", corev1.PodSpec{Containers: []corev1.Container{{Resources: q("1")}}, Overhead: corev1.ResourceList{"cpu": resource.MustParse("500m")}}, corev1.PodStatus{}, "1500m"},
		{"P63 allocated in place", corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: q("1")}}}, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", AllocatedResources: corev1.ResourceList{"cpu": resource.MustParse("2")}}}}, "2"},
	}
	for _, c := range cases {
		got := toworld.PodRequests(&c.spec, &c.status)["cpu"]
		if want := resource.MustParse(c.want); got.Cmp(want) != 0 {
			t.Errorf("%s: %s, want %s", c.name, got.String(), c.want)
		}
	}
}

func TestUnitsNeverWrap(t *testing.T) {
	for _, text := range []string{"9223372036854775807", "1e30", "9E", "999999999999999999999999"} {
		for _, name := range []string{"cpu", "memory"} {
			if v := toworld.Units(name, resource.MustParse(text)); v != world.Unlimited {
				t.Errorf("%s of %s is %d, want no end", text, name, v)
			}
		}
	}
}

func TestReadCatalog(t *testing.T) {
	if _, err := dump.ReadCatalog([]byte(`{}`)); err == nil {
		t.Error("an empty catalogue is fine")
	}
	if _, err := dump.ReadCatalog([]byte(`[`)); err == nil {
		t.Error("a broken catalogue is fine")
	}
	c, err := dump.ReadCatalog([]byte(`{"instanceTypes":[
		{"name":"good","allocatable":{"cpu":"2"},"offerings":[{"zone":"us-east-1a","capacityType":"spot","price":0.1},{"zone":"b","capacityType":"spot","price":-2}]},
		{"name":"good","allocatable":{"cpu":"2"}}, {"name":"bad","allocatable":{"cpu":"two"}}, {"name":""}]}`))
	if err != nil {
		t.Fatal(err)
	}
	_, types, problems := c.Types()
	if len(types) != 1 || len(types[0].Offerings) != 1 || len(problems) != 4 {
		t.Errorf("%d types, problems %v", len(types), problems)
	}
	if r, _ := types[0].Offerings[0].Labels.Get(world.LabelRegion); r != "us-east-1" {
		t.Errorf("region %q, want us-east-1", r)
	}
}

// FuzzReadList reads anything and converts what it can: it must not panic.
func FuzzReadList(f *testing.F) {
	f.Add(list(pod("a", `{"containers":[{"resources":{"requests":{"cpu":"1"}}}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"Gt","values":["x"]}]}]}}}}`)))
	f.Add(list(`{"kind":"NodePool","metadata":{"name":"p"},"spec":{"template":{"spec":{"requirements":[{"key":"k","operator":"In","values":["a"]}]}}}}`, `{"kind":"Node","metadata":{"name":"n"}}`))
	f.Add([]byte(`{"items":[{"kind":"PersistentVolumeClaim"},{"kind":"Pod","spec":{"volumes":[{"name":"v","persistentVolumeClaim":{}}]}}]}`))
	catalog := &dump.Catalog{InstanceTypes: []dump.CatalogType{{Name: "t", Allocatable: map[string]string{"cpu": "2", "memory": "4Gi", "pods": "10"}, Offerings: []dump.CatalogOffering{{Zone: "a", CapacityType: "spot", Price: 1}}}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, _, err := dump.Read(data)
		if err != nil {
			return
		}
		s, _ := Build(o, catalog, Options{})
		for _, p := range s.Pending {
			if int(p.Class) >= len(s.Classes) {
				t.Fatalf("pod %s has no class", p.Name)
			}
		}
	})
}
