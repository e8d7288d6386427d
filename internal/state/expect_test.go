package state

import (
	"reflect"
	"testing"

	"karpenter/internal/engine/world"
)

// TestRearrangedNodesAreCopiedWhole fails when a node gets a field that a rearranged one would lack.
func TestRearrangedNodesAreCopiedWhole(t *testing.T) {
	n := &world.Node{}
	v := reflect.ValueOf(n).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if !v.Type().Field(i).IsExported() {
			continue
		}
		switch f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Float64:
			f.SetFloat(1)
		case reflect.Int64, reflect.Int32, reflect.Int:
			f.SetInt(1)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		default:
			t.Fatalf("field %s has a kind that this test does not know", v.Type().Field(i).Name)
		}
	}
	here, there := &world.Pod{UID: "here"}, &world.Pod{UID: "there"}
	n.Pods, n.Deleting = []*world.Pod{here}, true
	got := rearranged(&world.Snapshot{Nodes: []*world.Node{n}, Pending: []*world.Pod{there}}, map[string]bool{"there": true}, map[*world.Node][]*world.Pod{n: {there}})
	g := reflect.ValueOf(got.Nodes[0]).Elem()
	for i := range v.NumField() {
		if field := v.Type().Field(i); field.IsExported() && field.Name != "Pods" && !reflect.DeepEqual(v.Field(i).Interface(), g.Field(i).Interface()) {
			t.Errorf("field %s is lost", field.Name)
		}
	}
	if len(got.Nodes[0].Pods) != 2 || len(got.Pending) != 0 {
		t.Errorf("%d pods on the node, %d waiting", len(got.Nodes[0].Pods), len(got.Pending))
	}
}
