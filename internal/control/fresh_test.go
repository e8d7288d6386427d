package control_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/control"
)

// lagging is a client whose cache still shows an older version than the API server has.
type lagging struct {
	client.Client
	cached *corev1.Node
	server *corev1.Node
	answer error // to a deletion
}

func (l *lagging) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if l.cached == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, key.Name)
	}
	l.cached.DeepCopyInto(obj.(*corev1.Node))
	return nil
}

func (l *lagging) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*corev1.NodeList).Items = []corev1.Node{*l.cached.DeepCopy()}
	return nil
}

func (l *lagging) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
	if obj.GetResourceVersion() != l.server.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, obj.GetName(), nil)
	}
	version, _ := strconv.Atoi(l.server.ResourceVersion)
	obj.SetResourceVersion(strconv.Itoa(version + 1))
	l.server = obj.DeepCopyObject().(*corev1.Node)
	return nil
}

func (l *lagging) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	version, _ := strconv.Atoi(l.server.ResourceVersion)
	l.server = l.server.DeepCopy()
	l.server.ResourceVersion, l.server.DeletionTimestamp = strconv.Itoa(version+1), &metav1.Time{Time: time.Unix(1, 0)}
	return l.answer
}

// live reads from the server.
type live struct{ *lagging }

func (l live) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	l.server.DeepCopyInto(obj.(*corev1.Node))
	return nil
}

func freshNode(version, label string) *corev1.Node {
	n := &corev1.Node{}
	n.Name, n.UID, n.ResourceVersion = "a", "u", version
	n.Labels = map[string]string{"is": label}
	return n
}

func TestFresh_ReadsItsOwnWrites(t *testing.T) {
	now := time.Unix(0, 0)
	l := &lagging{cached: freshNode("1", "old"), server: freshNode("1", "old")}
	c := control.NewFresh(l, live{l}, func() time.Time { return now })
	get := func() string {
		t.Helper()
		var n corev1.Node
		if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &n); err != nil {
			t.Fatal(err)
		}
		return n.Labels["is"]
	}
	n := freshNode("1", "new")
	if err := c.Patch(t.Context(), n, client.Merge); err != nil {
		t.Fatal(err)
	}
	n.Labels["is"] = "changed by its owner"
	if got := get(); got != "new" {
		t.Errorf("after the write: %q", got)
	}
	var list corev1.NodeList
	if err := c.List(t.Context(), &list); err != nil || list.Items[0].Labels["is"] != "new" {
		t.Errorf("listed after the write: %v %v", list.Items[0].Labels, err)
	}
	l.cached = freshNode("3", "newer")
	if got := get(); got != "newer" {
		t.Errorf("the cache has overtaken: %q", got)
	}
	l.cached = freshNode("1", "old")
	if got := get(); got != "old" {
		t.Errorf("what was overtaken is remembered: %q", got)
	}
}

func TestFresh_ConflictIsReadFromTheServer(t *testing.T) {
	now := time.Unix(0, 0)
	l := &lagging{cached: freshNode("1", "old"), server: freshNode("5", "foreign")}
	c := control.NewFresh(l, live{l}, func() time.Time { return now })
	n := &corev1.Node{}
	for _, wanted := range []string{"old", "foreign"} {
		if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, n); err != nil || n.Labels["is"] != wanted {
			t.Fatalf("%v %v, want %s", n.Labels, err, wanted)
		}
		if wanted == "old" && !apierrors.IsConflict(c.Patch(t.Context(), n, client.Merge)) {
			t.Fatal("no conflict")
		}
	}
	if err := c.Patch(t.Context(), n, client.Merge); err != nil {
		t.Errorf("the second attempt: %v", err)
	}
	for range 3 { // however late the watch is
		now = now.Add(20 * time.Minute)
		var list corev1.NodeList
		if err := c.List(t.Context(), &list); err != nil || list.Items[0].Labels["is"] != "foreign" {
			t.Errorf("what was written is listed as it was before: %v %v", list.Items[0].Labels, err)
		}
	}
	l.cached = nil
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, n); !apierrors.IsNotFound(err) {
		t.Errorf("what is gone is gone: %v", err)
	}
}

// Whoever has deleted an object that has finalizers does not do it again because the watch is late, or the answer got lost.
func TestFresh_SeesItsOwnDeletions(t *testing.T) {
	for name, answer := range map[string]error{"answered": nil, "without an answer": apierrors.NewTimeoutError("lost", 1)} {
		t.Run(name, func(t *testing.T) {
			node := freshNode("1", "old")
			node.Finalizers = []string{"karpenter.sh/termination"}
			l := &lagging{cached: node, server: node, answer: answer}
			c := control.NewFresh(l, live{l}, func() time.Time { return time.Unix(0, 0) })
			if err := c.Delete(t.Context(), node.DeepCopy()); !errors.Is(err, answer) {
				t.Fatal(err)
			}
			var got corev1.Node
			if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &got); err != nil {
				t.Fatal(err)
			}
			if got.DeletionTimestamp.IsZero() {
				t.Error("a node that was deleted is seen as it was before")
			}
		})
	}
}

// never is what nobody may read.
type never struct {
	client.Reader
	t *testing.T
}

func (n never) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	n.t.Error("a pod was read, which the role does not allow")
	return nil
}

// Pods of Jobs have a finalizer too.
func TestFresh_ReadsNoPodAfterItsDeletion(t *testing.T) {
	node := freshNode("1", "old")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "job-1", Finalizers: []string{"batch.kubernetes.io/job-tracking"}}}
	c := control.NewFresh(&lagging{cached: node, server: node}, never{t: t}, func() time.Time { return time.Unix(0, 0) })
	if err := c.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}
