package control

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/randfill"

	karpv1 "karpenter/api/karpenter/v1"
)

// TestPatch_SaysWhatAWholePatchSays holds patches of the parts that differ against those of whole objects.
func TestPatch_SaysWhatAWholePatchSays(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	before := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "claim", ResourceVersion: "7", UID: "uid", Labels: map[string]string{"a": "1", "b": "2"}, Finalizers: []string{"x/y"}, CreationTimestamp: metav1.NewTime(at),
	}}
	before.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}
	before.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "a"}
	before.Spec.TerminationGracePeriod = &karpv1.Duration{Duration: time.Minute}
	before.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("1Gi"), "disk": resource.MustParse("5")}
	before.Status.ProviderID = "aws:///a/i-1"
	before.StatusConditions().SetTrue(karpv1.ConditionLaunched, at)
	for name, change := range map[string]func(*karpv1.NodeClaim){
		"nothing": func(*karpv1.NodeClaim) {},
		"a condition": func(c *karpv1.NodeClaim) {
			c.StatusConditions().SetTrue(karpv1.ConditionRegistered, at.Add(time.Minute))
		},
		"a field of status":  func(c *karpv1.NodeClaim) { c.Status.LastPodEventTime = metav1.NewTime(at) },
		"what was there":     func(c *karpv1.NodeClaim) { c.Status.ProviderID = "" },
		"labels":             func(c *karpv1.NodeClaim) { c.Labels["c"] = "3"; delete(c.Labels, "a") },
		"the last finalizer": func(c *karpv1.NodeClaim) { c.Finalizers = nil },
		"an annotation":      func(c *karpv1.NodeClaim) { Annotate(c, "key", "value") },
		"capacity": func(c *karpv1.NodeClaim) {
			c.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4000m"), "memory": resource.MustParse("2Gi"), "pods": resource.MustParse("10")}
		},
		"the time within a second": func(c *karpv1.NodeClaim) { c.CreationTimestamp = metav1.NewTime(at.Add(time.Millisecond)) },
		"a pointer": func(c *karpv1.NodeClaim) {
			c.Spec.NodeClassRef = &karpv1.NodeClassReference{Kind: "EC2NodeClass", Name: "b"}
		},
		"no pointer": func(c *karpv1.NodeClaim) { c.Spec.TerminationGracePeriod = nil },
		"a duration": func(c *karpv1.NodeClaim) { c.Spec.TerminationGracePeriod = &karpv1.Duration{Duration: time.Hour} },
		"requests": func(c *karpv1.NodeClaim) {
			c.Spec.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
		},
		"another condition": func(c *karpv1.NodeClaim) {
			c.StatusConditions().SetFalse(karpv1.ConditionLaunched, "No", "<why & what>", at)
		},
		"several parts": func(c *karpv1.NodeClaim) { c.Status.NodeName = "node"; c.Spec.Requirements = nil; c.Labels = nil },
	} {
		now := before.DeepCopy()
		change(now)
		was := now.DeepCopy()
		got, whole := patches(t, before, now)
		if is, want := decoded(t, got), decoded(t, whole); !reflect.DeepEqual(is, want) {
			t.Errorf("%s: %s, and of whole objects %s", name, got, whole)
		}
		if differ := newChanges(before, now).differ; differ == equality.Semantic.DeepEqual(before, now) {
			t.Errorf("%s: differ is %t", name, differ)
		}
		if now.ResourceVersion != was.ResourceVersion || len(now.Labels) != len(was.Labels) || now.Status.ProviderID != was.Status.ProviderID {
			t.Errorf("%s: the object has been changed", name)
		}
	}
	if _, err := newChanges(&karpv1.NodeClaim{}, before).Data(before); err == nil {
		t.Error("an object that was never read was written")
	}
}

// patches are ours and one of whole objects.
func patches(t *testing.T, before, now client.Object) (got, whole []byte) {
	t.Helper()
	got, err := newChanges(before, now).Data(now)
	if err != nil {
		t.Fatal(err)
	}
	if whole, err = client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}).Data(now); err != nil {
		t.Fatal(err)
	}
	return got, whole
}

func decoded(t *testing.T, data []byte) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return out
}

// TestPatch_RandomObjects changes random parts of random objects: applied to what was there, the patch gives what a patch of whole objects
// gives, for every kind that is written.
func TestPatch_RandomObjects(t *testing.T) {
	for _, kind := range []client.Object{&karpv1.NodeClaim{}, &karpv1.NodePool{}, &corev1.Node{}, &corev1.Pod{}} {
		for seed := range int64(300) {
			fill := randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
				func(q *resource.Quantity, c randfill.Continue) {
					*q = *resource.NewMilliQuantity(c.Int63n(1e6), resource.DecimalSI)
				},
				func(x *metav1.Time, c randfill.Continue) { *x = metav1.Unix(c.Int63n(1e9), 0) },
				func(x *metav1.MicroTime, c randfill.Continue) {
					*x = metav1.MicroTime{Time: time.Unix(c.Int63n(1e9), 0)}
				},
				func(x *metav1.FieldsV1, _ randfill.Continue) { x.SetRawBytes([]byte(`{"a":{}}`)) },
				func(x *karpv1.NillableDuration, c randfill.Continue) {
					if d := time.Duration(c.Int63n(100)) * time.Second; d > 0 {
						x.Duration = &d
					}
				},
			)
			before, other := kind.DeepCopyObject().(client.Object), kind.DeepCopyObject().(client.Object)
			fill.Fill(before)
			fill.Fill(other)
			before.SetResourceVersion("7")
			now := before.DeepCopyObject().(client.Object)
			mix(reflect.ValueOf(now).Elem(), reflect.ValueOf(other).Elem(), rand.New(rand.NewSource(seed)), 0)
			now.SetResourceVersion("7")
			got, whole := patches(t, before, now)
			if is, want := merged(t, before, got), merged(t, before, whole); !equality.Semantic.DeepEqual(is, want) {
				t.Fatalf("%T, seed %d: %s\nand of whole objects %s", kind, seed, got, whole)
			}
		}
	}
}

// mix takes one part in four over.
func mix(to, from reflect.Value, r *rand.Rand, depth int) {
	for i := range to.NumField() {
		if f := to.Field(i); f.CanSet() && f.Kind() == reflect.Struct && depth < 3 {
			mix(f, from.Field(i), r, depth+1)
		} else if f.CanSet() && r.Intn(4) == 0 {
			f.Set(from.Field(i))
		}
	}
}

// merged is an object after a patch (RFC 7386), as it is read again.
func merged(t *testing.T, obj client.Object, patch []byte) any {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(merge(decoded(t, data), decoded(t, patch))); err != nil {
		t.Fatal(err)
	}
	out := reflect.New(reflect.TypeOf(obj).Elem()).Interface()
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func merge(target, patch any) any {
	members, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out, _ := target.(map[string]any)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range members {
		if value == nil {
			delete(out, key)
		} else {
			out[key] = merge(out[key], value)
		}
	}
	return out
}
