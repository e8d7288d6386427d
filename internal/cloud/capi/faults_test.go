package capi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/capi"
	"karpenter/internal/cloud/capi/kinds"
	"karpenter/internal/local/infra"
)

// cutLaunches ends the process at each of its steps, before and after it, and has another one go on.
func cutLaunches(t *testing.T, w *world) {
	for at, total := 0, 1; at < total; at++ {
		b := w.batch(fmt.Sprint("b", at), 2)
		p, c := w.process(&cut{at: at})
		for range 50 {
			p.Launch(t.Context(), b)
			if c.dead.Load() {
				break
			}
			time.Sleep(50 * time.Millisecond)
			if len(w.claimed("large")) == 2*(at+1) {
				break
			}
		}
		w.settle(w.start(nil), b)
		w.holds("large", 2*(at+1), 2*(at+1))
		if c.dead.Load() {
			total = at + 2 // there may be another step
		}
	}
}

// claimed are the names of Machines that claims have.
func (w *world) claimed(deployment string) (out []string) {
	for _, m := range w.machines(deployment) {
		if m.Annotations[v1alpha1.ClaimUIDAnnotationKey] != "" {
			out = append(out, m.Name)
		}
	}
	return out
}

// cutDeletions does the same with deletions: the Machine that was meant is gone, and no other one.
func cutDeletions(t *testing.T, w *world) {
	const n = 8
	first := w.start(nil)
	ids := w.settle(first, w.batch("b", n))
	for at := 0; at < n-1; at++ {
		p, c := w.process(&cut{at: at})
		_ = p.Delete(t.Context(), ids[0])
		w.remove(w.start(nil), ids[0])
		ids = ids[1:]
		w.holds("large", len(ids), len(ids))
		for _, id := range ids {
			if in, err := first.Get(t.Context(), id); err != nil || in.State.Ending() {
				t.Fatalf("after step %d: %s was to stay: %v", at, id, err)
			}
		}
		if !c.dead.Load() {
			return // it had no more steps than that
		}
	}
}

// flaky loses a third of all answers to writes after their effect, and repeats nothing.
func flaky(seed uint64) func(http.RoundTripper) http.RoundTripper {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	return func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			mu.Lock()
			lose := r.Method != http.MethodGet && random.IntN(3) == 0
			mu.Unlock()
			if err == nil && lose {
				_ = response.Body.Close()
				return nil, errCut
			}
			return response, err
		})
	}
}

func lostAnswers(t *testing.T, w *world) {
	p := w.start(flaky(1))
	ids := w.settle(p, w.batch("b", 12))
	w.holds("large", 12, 12)
	for _, id := range ids[:7] {
		w.remove(p, id)
	}
	w.holds("large", 5, 5)
	for _, id := range ids[7:] {
		if in, err := w.start(nil).Get(t.Context(), id); err != nil || in.State.Ending() {
			t.Errorf("%s was to stay: %v", id, err)
		}
	}
}

// twoProcesses has two processes launch and delete the same at the same time.
func twoProcesses(t *testing.T, w *world) {
	processes := []*capi.Provider{w.start(nil), w.start(nil)}
	b := w.batch("b", 6)
	var all sync.WaitGroup
	for _, p := range processes {
		all.Go(func() {
			for range 5 {
				p.Launch(t.Context(), b)
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	all.Wait()
	ids := w.settle(processes[0], b)
	w.holds("large", 6, 6)
	if other := w.settle(processes[1], b); !slices.Equal(ids, other) {
		t.Errorf("one process has %v, the other %v", ids, other)
	}
	for _, p := range processes {
		all.Go(func() {
			for _, id := range ids[:4] {
				_ = p.Delete(t.Context(), id)
			}
		})
	}
	all.Wait()
	for _, id := range ids[:4] {
		w.remove(processes[0], id)
	}
	w.holds("large", 2, 2)
}

// scaledByOthers has Machines before Karpenter comes, and somebody scale while it launches and deletes.
func scaledByOthers(t *testing.T, w *world) {
	w.scale("large", 2)
	w.until("two Machines of others", func() bool { return len(w.machines("large")) == 2 })
	others := []string{w.machines("large")[0].Name, w.machines("large")[1].Name}
	p := w.start(nil)
	b := w.batch("b", 3)
	p.Launch(t.Context(), b)
	w.scale("large", w.replicas("large")+1)
	ids := w.settle(p, b)
	w.holds("large", 6, 3)
	for _, m := range w.machines("large") {
		if slices.Contains(others, m.Name) && m.Annotations[v1alpha1.ClaimUIDAnnotationKey] != "" {
			t.Errorf("Machine %s was there before, and a claim was given it", m.Name)
		}
	}
	for _, id := range ids {
		w.remove(p, id)
	}
	w.holds("large", 3, 0)
	for _, name := range others {
		if m := (&kinds.Machine{}); w.kube.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, m) != nil || !m.DeletionTimestamp.IsZero() {
			t.Errorf("Machine %s of others was deleted", name)
		}
	}
	list, err := p.List(t.Context())
	if err != nil || len(list) != 0 {
		t.Errorf("%v is listed: %v", list, err)
	}
}

// deletedByOthers deletes a claim's Machine: Cluster API makes another one, which no claim gets once it
// has an instance, whose node may be older than the claim. It is listed without a claim, and is removed.
func deletedByOthers(t *testing.T, w *world) {
	p := w.start(nil)
	b := w.batch("b", 2)
	ids := w.settle(p, b)
	m := &kinds.Machine{}
	namespace, name, _ := cutID(ids[0])
	w.must(w.kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, m))
	claim := b.Claims[0]
	claim.Status.ProviderID = m.Spec.ProviderID
	w.must(w.kube.Delete(t.Context(), m))
	w.until("the claim is told", func() bool { return p.Ended(claim) != "" || len(w.machines("large")) == 2 })
	w.until("it is replaced", func() bool { return len(w.machines("large")) == 2 })
	var spare *cloud.Instance
	w.until("the replacement is listed without a claim", func() bool {
		list, err := p.List(t.Context())
		w.must(err)
		i := slices.IndexFunc(list, func(in *cloud.Instance) bool { return in.Claim == "" })
		if i >= 0 {
			spare = list[i]
		}
		return i >= 0 && spare.ProviderID != ""
	})
	if got := w.settle(p, w.batch("c", 1)); got[0] == spare.ID {
		t.Errorf("the next claim got %s, whose instance is older than the claim", spare.ID)
	}
	w.holds("large", 3, 2)
	w.must(p.Delete(t.Context(), spare.ID))
	w.until("it is removed", func() bool { return len(w.machines("large")) == 2 })
	w.holds("large", 2, 2)
}

func cutID(id string) (namespace, name string, ok bool) {
	for i := range id {
		if id[i] == '/' {
			return id[:i], id[i+1:], true
		}
	}
	return "", "", false
}

// rollout changes the template of a MachineDeployment with the strategy OnDelete: old Machines have drifted, and when a new one is removed it is
// that one which goes.
func rollout(t *testing.T, w *world) {
	p := w.start(nil)
	b := w.batch("old", 3)
	w.settle(p, b)
	results := p.Launch(t.Context(), b)
	for i, r := range results {
		b.Claims[i].Status.ProviderID = r.Instance.ProviderID
		if reason, err := p.Drifted(t.Context(), b.Claims[i]); reason != "" || err != nil {
			t.Errorf("%s has drifted already: %s %v", b.Claims[i].Name, reason, err)
		}
	}
	w.patch("large", map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"version": "v1.35.0"}}}})
	for _, claim := range b.Claims {
		w.until(claim.Name+" has drifted", func() bool {
			reason, err := p.Drifted(t.Context(), claim)
			return err == nil && reason == v1alpha1.ReasonTemplateDrift
		})
	}
	fresh := w.settle(p, w.batch("new", 6))
	w.holds("large", 9, 9)
	w.remove(p, fresh[0]) // of the newer MachineSet, while Cluster API would take one of the older
	w.holds("large", 8, 8)
	for i, step := range []capi.Step{capi.StepPause, capi.StepShrink, capi.StepLower, capi.StepShrink} { // a process ends after it
		q, c := w.process(&cut{after: step})
		if _ = q.Delete(t.Context(), fresh[i+1]); !c.dead.Load() {
			t.Errorf("in a rollout there is no step %s", step)
		}
		if q = w.start(nil); i == 3 { // the next one comes when the Machine is gone
			w.until("the Machine is gone", func() bool { _, err := q.Get(t.Context(), fresh[i+1]); return cloud.ClassOf(err) == cloud.NotFound })
			_, err := q.List(t.Context())
			w.must(err)
		} else {
			w.remove(q, fresh[i+1])
		}
		w.holds("large", 7-i, 7-i)
		if _, paused := w.live("large").Annotations[kinds.PausedAnnotation]; paused {
			t.Errorf("cut after %s, the MachineDeployment is still paused", step)
		}
	}
	for _, r := range results {
		if in, err := p.Get(t.Context(), r.Instance.ID); err != nil || in.State.Ending() {
			t.Errorf("%s was to stay: %v", r.Instance.ID, err)
		}
	}
	w.remove(p, results[1].Instance.ID)
	w.holds("large", 3, 3)
	if _, paused := w.live("large").Annotations[kinds.PausedAnnotation]; paused {
		t.Error("the MachineDeployment is still paused")
	}
}

// later is a clock that is ahead of the API server's by more than a Machine may say that it cannot be provisioned.
type later struct{ clock.RealClock }

func (later) Now() time.Time { return time.Now().Add(2 * time.Minute) }

// failed has the infrastructure provider fail for one MachineDeployment: the claim is told why, the next one gets a Machine of another
// MachineDeployment, and the Machine that failed can be removed.
func failed(t *testing.T, w *world) {
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(schema.GroupVersionKind{Group: infra.Group, Version: infra.Version, Kind: "SimMachineTemplate"})
	template.SetNamespace(w.namespace)
	template.SetName("large")
	w.must(w.cluster.Client.Patch(t.Context(), template, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"fault":"ProvisioningFailed"}}}}`))))
	w.deployment("other", "8", map[string]string{kinds.MaxSizeAnnotation: "0"})
	p := w.start(nil, func(o *capi.Options) { o.Clock = later{} })
	b := w.batch("b", 1)
	w.until("the claim is told why", func() bool {
		r := p.Launch(t.Context(), b)[0]
		return cloud.ClassOf(r.Err) == cloud.NoCapacity && strings.Contains(r.Err.Error(), "large cannot be provisioned")
	})
	w.patch("other", map[string]any{"metadata": map[string]any{"annotations": map[string]any{kinds.MaxSizeAnnotation: nil}}})
	w.until("a Machine of another MachineDeployment is launched", func() bool {
		r := p.Launch(t.Context(), w.batch("c", 1))[0]
		return r.Instance != nil && r.Instance.ProviderID != ""
	})
	w.holds("other", 1, 1)
	w.remove(p, w.namespace+"/"+w.claimed("large")[0])
	w.holds("large", 0, 0)
}

// sizes holds the annotations for the least and the most replicas.
func sizes(t *testing.T, w *world) {
	w.patch("large", map[string]any{"metadata": map[string]any{"annotations": map[string]string{kinds.MaxSizeAnnotation: "2"}}})
	p := w.start(nil)
	var served, refused int
	b := w.batch("b", 3)
	w.until("two claims have instances and one is refused", func() bool {
		served, refused = 0, 0
		for _, r := range p.Launch(t.Context(), b) {
			switch {
			case r.Instance != nil && r.Instance.ProviderID != "":
				served++
			case cloud.ClassOf(r.Err) == cloud.NoCapacity:
				refused++
			}
		}
		return served == 2 && refused == 1
	})
	w.holds("large", 2, 2)
	w.patch("large", map[string]any{"metadata": map[string]any{"annotations": map[string]string{kinds.MinSizeAnnotation: "2"}}})
	id := w.namespace + "/" + w.claimed("large")[0]
	w.remove(p, id)
	w.holds("large", 2, 1) // Cluster API has replaced it
}

// hundred launches 100 claims in two batches, as the controller does.
func hundred(t *testing.T, w *world) {
	var mu sync.Mutex
	var requests int
	var longest time.Duration
	p := w.start(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			defer func(began time.Time) {
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, time.Since(began))
				if !strings.Contains(r.URL.Path, "/machines") { // what asks for Machines, not what is done with those that are there already
					requests++
				}
			}(time.Now())
			return next.RoundTrip(r)
		})
	})
	batches := []cloud.Batch{w.batch("x", 50), w.batch("y", 50)}
	mu.Lock()
	requests, longest = 0, 0
	mu.Unlock()
	begin := time.Now()
	var all sync.WaitGroup
	for _, b := range batches {
		all.Go(func() { p.Launch(t.Context(), b) })
	}
	all.Wait()
	took := time.Since(begin)
	if n := w.replicas("large"); n != 100 {
		t.Errorf("%d replicas", n)
	}
	// A request goes through a webhook of Cluster API, which may take ten seconds for it while the computer does other things; then only how
	// many requests there were says something.
	mu.Lock()
	n, most := requests, longest
	mu.Unlock()
	t.Logf("100 Machines asked for in %v, with %d requests of at most %v", took, n, most)
	if n > 50 {
		t.Errorf("%d requests for two batches: their number should not depend on that of the Machines", n)
	}
	if took > 10*time.Second && most < time.Second {
		t.Errorf("took %v, the bar is 10 s", took)
	}
	// Cluster API itself makes one too many, and then ends any of them, when its cache is later than it waits for. So how many Machines there
	// are is not looked at, and a claim may lose its Machine: it is told, and the controller launches another.
	ended := 0
	for _, b := range batches {
		w.until("every claim has its instance or is told that somebody else has ended it", func() bool {
			var left []*karpv1.NodeClaim
			served := 0
			for i, r := range p.Launch(t.Context(), b) {
				var refused *cloud.Error
				if errors.As(r.Err, &refused) && refused.Reason == "MachineDeleted" {
					ended++
					continue
				}
				if r.Err != nil && cloud.ClassOf(r.Err).Response().GiveUp {
					t.Fatal(r.Err)
				}
				if r.Instance != nil && r.Instance.ProviderID != "" {
					served++
				}
				left = append(left, b.Claims[i])
			}
			b.Claims = left
			return served == len(left)
		})
	}
	t.Logf("%d Machines with provider IDs after %v", 100-ended, time.Since(begin))
	if ended > 5 {
		t.Errorf("%d claims of 100 have lost their Machine", ended)
	}
	if n := w.replicas("large"); n != 100 {
		t.Errorf("%d replicas in the end", n)
	}
}
