package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// poolStore holds pools with the record of who owns their fields, which the fake client does not keep.
type poolStore struct {
	pools   map[string]*unstructured.Unstructured
	fails   error
	gets    int
	patches []string
}

func betaPool(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
		"metadata": map[string]any{"name": name, "resourceVersion": "7", "managedFields": []any{map[string]any{
			"manager": "kubectl", "operation": "Update", "apiVersion": "karpenter.sh/v1beta1", "fieldsType": "FieldsV1", "time": "2025-01-01T00:00:00Z",
			"fieldsV1": map[string]any{"f:spec": map[string]any{"f:disruption": map[string]any{"f:expireAfter": map[string]any{}}}},
		}}},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"expireAfter": "1h"}}},
	}}
}

func newPoolStore(names ...string) *poolStore {
	s := &poolStore{pools: map[string]*unstructured.Unstructured{}}
	for _, name := range names {
		s.pools[name] = betaPool(name)
	}
	return s
}

func (s *poolStore) owners(t *testing.T) *owners {
	t.Helper()
	kube := interceptor.NewClient(newCluster(t).(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
			s.gets++
			pool, ok := s.pools[key.Name]
			if s.fails != nil {
				return s.fails
			}
			if !ok {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "nodepools"}, key.Name)
			}
			pool.DeepCopyInto(into.(*unstructured.Unstructured))
			return nil
		},
		List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			list := into.(*metav1.PartialObjectMetadataList)
			list.Items, list.Continue = nil, ""
			if s.fails != nil {
				return s.fails
			}
			applied := (&client.ListOptions{}).ApplyOptions(options)
			for i := range len(s.pools) { // one on each page
				if list.Kind == "NodePoolList" && applied.Continue == strings.Repeat("x", i) {
					name := fmt.Sprintf("p%d", i)
					list.Items = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: name, ManagedFields: s.pools[name].GetManagedFields()}}}
					if i+1 < len(s.pools) {
						list.Continue = applied.Continue + "x"
					}
				}
			}
			return nil
		},
		Patch: func(_ context.Context, _ client.WithWatch, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
			body, err := patch.Data(object)
			if err != nil {
				return err
			}
			s.patches = append(s.patches, object.GetName())
			var changed struct {
				Metadata struct {
					ResourceVersion string
					ManagedFields   []any
				}
			}
			if err := json.Unmarshal(body, &changed); err != nil || changed.Metadata.ResourceVersion != "7" {
				return fmt.Errorf("patch %s: %w", body, err)
			}
			return unstructured.SetNestedSlice(s.pools[object.GetName()].Object, changed.Metadata.ManagedFields, "metadata", "managedFields")
		},
	})
	return newOwners(Options{Client: kube, Clock: newClock(), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

func TestOwners_SweepAtStart(t *testing.T) {
	s := newPoolStore("p0", "p1", "p2")
	o := s.owners(t)
	o.round(t.Context())
	if strings.Join(s.patches, " ") != "p0 p1 p2" || o.wait() != 0 {
		t.Fatalf("patched %v, wait %s", s.patches, o.wait())
	}
	text := fmt.Sprint(s.pools["p1"].Object["metadata"])
	if strings.Contains(text, "v1beta1") || !strings.Contains(text, "f:template:map[f:spec:map[f:expireAfter:map[]]]") {
		t.Errorf("record: %s", text)
	}
	o.round(t.Context())
	if len(s.patches) != 3 {
		t.Errorf("patched again: %v", s.patches)
	}
}

func TestOwners_LooksAgainForAWriteOnItsWay(t *testing.T) {
	s := newPoolStore()
	o := s.owners(t)
	o.round(t.Context())
	o.note(betaPool("late").Object)
	for looks := range 2 {
		o.round(t.Context())
		if want := stored << (looks + 1); o.wait() != want {
			t.Errorf("after %d looks it waits %s, want %s", looks+1, o.wait(), want)
		}
	}
	s.pools["late"] = betaPool("late")
	o.round(t.Context())
	if len(s.patches) != 1 || o.wait() != 0 {
		t.Errorf("patched %v, wait %s", s.patches, o.wait())
	}

	// A write that was refused leaves nothing to wait for.
	before := s.gets
	o.note(betaPool("never").Object)
	for range ownerAttempts + 2 {
		o.round(t.Context())
	}
	if s.gets-before != ownerAttempts || o.wait() != 0 {
		t.Errorf("looked %d times, wait %s", s.gets-before, o.wait())
	}
}

func TestOwners_LeavesTroubleToASweep(t *testing.T) {
	s := newPoolStore("p0")
	s.fails = errors.New("the API server is away")
	o := s.owners(t)
	o.round(t.Context())
	if o.wait() != syncEvery {
		t.Errorf("after a sweep that failed it waits %s", o.wait())
	}
	o.note(betaPool("p0").Object)
	for range ownerAttempts {
		o.round(t.Context())
	}
	if o.wait() != syncEvery {
		t.Errorf("after the last attempt it waits %s", o.wait())
	}
	s.fails = nil
	o.round(t.Context())
	if len(s.patches) != 1 || o.wait() != 0 {
		t.Errorf("patched %v, wait %s", s.patches, o.wait())
	}
}

func TestOwners_NotesOnlyWhatIsWrittenInBeta(t *testing.T) {
	o := newPoolStore().owners(t)
	o.take()
	plain, unnamed := betaPool("plain"), betaPool("")
	plain.SetManagedFields(nil)
	for _, object := range []map[string]any{plain.Object, unnamed.Object, {}} {
		o.note(object)
	}
	if o.wait() != 0 {
		t.Errorf("waiting for %v", o.waiting)
	}
	for i := range maxNoted + 1 {
		o.remember(noted{name: fmt.Sprint(i)}, 0)
	}
	if waiting, all := o.take(); len(waiting) != maxNoted || !all {
		t.Errorf("%d are remembered, all: %v", len(waiting), all)
	}
}
