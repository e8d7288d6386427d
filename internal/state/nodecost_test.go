package state

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
)

func TestNodeCostIsReadFromThePool(t *testing.T) {
	m := NewMirror(MirrorOptions{})
	version := 0
	set := func(text string) *View {
		version++
		p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general", UID: "u", ResourceVersion: string(rune('0' + version))}}
		if text != "" {
			p.Annotations = map[string]string{v1.NodeCostAnnotationKey: text}
		}
		m.putPool(p)
		return m.View()
	}
	for _, step := range []struct {
		text    string
		cost    float64
		problem bool
	}{{"", v1.DefaultNodeCost, false}, {"0.02", 0.02, false}, {"much", v1.DefaultNodeCost, true}, {"0", 0, false}} {
		v := set(step.text)
		if got := v.Pool("general").World; got.NodeCost != step.cost || got.Refused != "" {
			t.Errorf("%q: node cost %v, refused %q; want %v", step.text, got.NodeCost, got.Refused, step.cost)
		}
		told := len(v.Problems) == 1 && v.Problems[0].Kind == "NodePool" && v.Problems[0].Name == "general" && strings.Contains(v.Problems[0].Text, v1.NodeCostAnnotationKey)
		if told != step.problem || len(v.Problems) > 1 {
			t.Errorf("%q: problems %v", step.text, v.Problems)
		}
	}
}

// A restart cost that is no amount is told about the pool, which works with the default until that is put right.
func TestAWrongRestartCostIsToldOfThePool(t *testing.T) {
	m := NewMirror(MirrorOptions{})
	for i, step := range []struct {
		text    string
		problem bool
	}{{"0.1", false}, {"much", true}, {"-1", true}, {"0", false}} {
		p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general", UID: "u", ResourceVersion: string(rune('1' + i))}}
		p.Annotations = map[string]string{v1.RestartCostAnnotationKey: step.text}
		m.putPool(p)
		v := m.View()
		told := len(v.Problems) == 1 && v.Problems[0].Name == "general" && strings.Contains(v.Problems[0].Text, v1.RestartCostAnnotationKey)
		if told != step.problem || v.Pool("general").World.Refused != "" {
			t.Errorf("%q: problems %v, refused %q", step.text, v.Problems, v.Pool("general").World.Refused)
		}
	}
}
