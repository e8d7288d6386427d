package forecast

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/state/dump"
)

// A class of whatever kind makes its own nodes drift, by its kind's own reason, and nodes of a class of that name and another kind not.
func TestClassesOfAnyKind(t *testing.T) {
	paper := &cloud.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "PaperClass"}, DriftReason: "PaperDrift", Labels: v1.CoreLabelRules,
		New:  func() cloud.NodeClass { return &unstructured.Unstructured{} },
		Hash: func(c cloud.NodeClass) string { return fmt.Sprint(c.(*unstructured.Unstructured).Object["spec"]) },
		Ready: func(cloud.NodeClass) v1.Condition {
			return v1.Condition{Status: metav1.ConditionFalse, Reason: "Wet", Message: "dry it"}
		},
	}
	manifest := func(sheets int64) map[string]any {
		return map[string]any{"apiVersion": "example.com/v1", "kind": "PaperClass", "metadata": map[string]any{"name": "default"}, "spec": map[string]any{"sheets": sheets}}
	}
	objects := &dump.Objects{}
	for _, kind := range append(kinds, paper) {
		name := strings.ToLower(kind.GroupVersionKind.Kind)
		ref := &v1.NodeClassReference{Group: kind.Group, Kind: kind.GroupVersionKind.Kind, Name: "default"}
		pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pool.Spec.Template.Spec.NodeClassRef = ref
		claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.NodePoolLabelKey: name}}}
		claim.Spec.NodeClassRef = ref
		objects.Pools, objects.Claims = append(objects.Pools, pool), append(objects.Claims, claim)
	}
	change := func(m map[string]any) *Change {
		c := &Change{
			Objects: objects, Kinds: append(slices.Clone(kinds), paper), Now: noon,
			NodeClasses: []cloud.KnownClass{{Kind: paper, NodeClass: &unstructured.Unstructured{Object: manifest(1)}}},
		}
		if err := c.Apply([]map[string]any{m}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := change(manifest(2))
	if len(c.Drift) != 1 || c.Drift[0].Pool != "paperclass" || c.Drift[0].Reason != "PaperDrift" || !slices.Contains(c.Words, "PaperClass default changes") {
		t.Errorf("drift %+v, words %q", c.Drift, c.Words)
	}
	if c := change(manifest(1)); len(c.Drift) != 0 || !slices.Contains(c.Words, "PaperClass default is as it is in the cluster") {
		t.Errorf("drift %+v, words %q", c.Drift, c.Words)
	}
	if cond, known := c.classReady(&v1.NodeClassReference{Group: "example.com", Kind: "PaperClass", Name: "other"}); !known || cond.Message != `there is no PaperClass "other"` {
		t.Errorf("a class that there is not: %+v, %t", cond, known)
	}
}
