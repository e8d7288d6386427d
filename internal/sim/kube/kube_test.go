package kube

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/state/trim"
)

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpv1.AddToScheme, awsv1.AddToScheme} {
		utilruntime.Must(add(s))
	}
	return s
}

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func claim(name string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"karpenter.sh/nodepool": "default"}, Finalizers: []string{"karpenter.sh/termination"}},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
				{Key: "karpenter.sh/capacity-type", Operator: corev1.NodeSelectorOpIn, Values: []string{"spot", "on-demand"}},
				{Key: "node.kubernetes.io/instance-type", Operator: corev1.NodeSelectorOpIn, Values: []string{"m5.large", "m5.xlarge", "c5.large"}},
			},
		},
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestClaimLife goes through the life of a claim as the product does.
func TestClaimLife(t *testing.T) {
	for name, opts := range map[string][]Option{"validated": nil, "lenient": {WithoutValidation()}} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s := NewServer(scheme(), func() time.Time { return begin }, opts...)
			c := s.Client("test")
			x := claim("a")
			must(t, c.Create(ctx, x))
			if x.UID == "" || x.Generation != 1 {
				t.Fatalf("created as %+v", x)
			}
			if err := c.Create(ctx, claim("a")); !apierrors.IsAlreadyExists(err) {
				t.Fatalf("created twice: %v", err)
			}
			stale := x.DeepCopy()
			before := x.DeepCopy()
			x.Status.ProviderID = "aws:///z/i-1"
			must(t, c.Status().Patch(ctx, x, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
			if x.Status.ProviderID == "" || x.ResourceVersion == before.ResourceVersion || x.Generation != 1 {
				t.Fatalf("patched to %+v", x)
			}
			before = stale.DeepCopy()
			stale.Status.ImageID = "ami-1"
			if err := c.Status().Patch(ctx, stale, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); !apierrors.IsConflict(err) {
				t.Fatalf("patched what is stale: %v", err)
			}
			must(t, c.Delete(ctx, x))
			must(t, c.Get(ctx, client.ObjectKeyFromObject(x), x))
			if x.DeletionTimestamp == nil || x.Generation != 2 {
				t.Fatalf("deleting %+v", x.ObjectMeta)
			}
			before = x.DeepCopy()
			x.Finalizers = nil
			must(t, c.Patch(ctx, x, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
			if err := c.Get(ctx, client.ObjectKeyFromObject(x), x); !apierrors.IsNotFound(err) {
				t.Fatalf("still there: %v", err)
			}
		})
	}
}

// TestCacheLags holds what a cache shows and tells of, event by event.
func TestCacheLags(t *testing.T) {
	ctx := context.Background()
	s := NewServer(scheme(), func() time.Time { return begin })
	c := s.Client("test")
	replica, err := NewCache(s, cache.Options{DefaultTransform: trim.Object})
	must(t, err)
	must(t, replica.IndexField(ctx, &corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }))
	informer, err := replica.GetInformer(ctx, &corev1.Pod{})
	must(t, err)
	var told []string
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { told = append(told, "add "+o.(*corev1.Pod).Name) },
		UpdateFunc: func(_, o any) {
			told = append(told, "update "+o.(*corev1.Pod).Name+" on "+o.(*corev1.Pod).Spec.NodeName)
		},
		DeleteFunc: func(o any) {
			if _, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				told = append(told, "lost")
				return
			}
			told = append(told, "delete "+o.(*corev1.Pod).Name)
		},
	})
	must(t, err)
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	}
	must(t, c.Create(ctx, pod("a")))
	must(t, replica.Start(ctx))
	gvk := corev1.SchemeGroupVersion.WithKind("Pod")
	if p := replica.Pending(); len(p) != 1 || !p[0].Unlisted {
		t.Fatalf("pending %v", p)
	}
	replica.Deliver(gvk)
	must(t, c.Create(ctx, pod("b")))
	must(t, c.SubResource("binding").Create(ctx, pod("a"), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Target: corev1.ObjectReference{Name: "n"}}))
	names := func(opts ...client.ListOption) (out []string) {
		list := &corev1.PodList{}
		must(t, replica.List(ctx, list, opts...))
		for i := range list.Items {
			out = append(out, list.Items[i].Name)
		}
		return out
	}
	onNode := client.MatchingFields{"spec.nodeName": "n"}
	if got := names(); !slices.Equal(got, []string{"a"}) || len(names(onNode)) > 0 {
		t.Fatalf("the cache runs ahead: %v, %v", got, names(onNode))
	}
	replica.Deliver(gvk)
	replica.Deliver(gvk)
	if got := names(onNode); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("by index: %v", got)
	}
	replica.Redeliver(gvk)
	must(t, c.Delete(ctx, pod("b")))
	must(t, c.Create(ctx, pod("c")))
	replica.Relist(gvk)
	must(t, c.Delete(ctx, pod("c")))
	replica.DeliverAll()
	want := []string{"add a", "add b", "update a on n", "update a on n", "add c", "lost", "update c on ", "delete c"}
	if !slices.Equal(told, want) {
		t.Fatalf("told %q\nwant %q", told, want)
	}
}

// TestHook lets requests fail before and after their effect.
func TestHook(t *testing.T) {
	ctx := context.Background()
	for _, after := range []bool{false, true} {
		s := NewServer(scheme(), func() time.Time { return begin })
		c, broken := s.Client("test"), errors.New("broken")
		s.Hook = func(op *Op) error {
			if op.Done == after {
				return broken
			}
			return nil
		}
		x := claim("a")
		if err := c.Create(ctx, x); !errors.Is(err, broken) || x.UID != "" {
			t.Errorf("after %v: created with %v as %q", after, err, x.UID)
		}
		s.Hook = nil
		if err := c.Get(ctx, client.ObjectKeyFromObject(x), x); (err == nil) != after {
			t.Errorf("after %v: read with %v", after, err)
		}
	}
}

// TestSameAgain runs the same twice and compares the history.
func TestSameAgain(t *testing.T) {
	run := func(seed uint64) (history []string) {
		ctx := context.Background()
		s := NewServer(scheme(), func() time.Time { return begin }, Seed(seed))
		s.Hook = func(op *Op) error {
			history = append(history, op.String())
			return nil
		}
		c := s.Client("test")
		for i := range 50 {
			x := claim("")
			x.GenerateName = "claim-"
			if i%2 == 0 {
				x.Finalizers = nil
			}
			must(t, c.Create(ctx, x))
			history = append(history, string(x.UID))
			must(t, c.Delete(ctx, x))
		}
		list := &karpv1.NodeClaimList{}
		must(t, c.List(ctx, list))
		for i := range list.Items {
			history = append(history, list.Items[i].Name)
		}
		return history
	}
	if one, two := run(3), run(3); !slices.Equal(one, two) {
		t.Errorf("the same seed gives two histories:\n%q\n%q", one, two)
	}
	if slices.Equal(run(3), run(4)) {
		t.Error("two seeds give one history")
	}
}
