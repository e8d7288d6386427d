package migrate

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/api/crds"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/test/harness"
	"karpenter/test/harness/program"
)

// TestTakeOver_V1 takes over a cluster that upstream Karpenter has left in v1, and hands it back.
func TestTakeOver_V1(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.Options{}, "v1")
	s.hashes("v1.yaml")
	s.write("v1.yaml")
	s.write("nodes.yaml")
	s.takeOver(false)
}

// TestTakeOver_V1_HashV6 takes over from a release whose hashes of classes have other values.
func TestTakeOver_V1_HashV6(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.Options{}, "v1")
	s.hashes("v1.yaml")
	s.left.ClassHash, s.left.ClassHashVersion = "4067990795380418201", "v6"
	s.write("v1.yaml")
	s.write("nodes.yaml")
	s.takeOver(false)
}

// TestTakeOver_V1Beta1 takes over a cluster whose definitions and objects are still v1beta1.
func TestTakeOver_V1Beta1(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.Options{NoCRDs: true}, "v1beta1")
	old := crds.Objects()
	for _, definition := range old {
		for i := range definition.Spec.Versions {
			if len(definition.Spec.Versions) == 1 {
				continue // has never had another
			}
			beta := definition.Spec.Versions[i].Name == "v1beta1"
			definition.Spec.Versions[i].Served, definition.Spec.Versions[i].Storage = beta, beta
		}
	}
	if err := s.Plane.Install(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	s.write("v1beta1.yaml")
	s.write("nodes.yaml")
	if err := errors.Join(s.StartConversion(t.Context(), clock.RealClock{}), s.AwaitConversion(t.Context())); err != nil {
		t.Fatal(err)
	}
	s.takeOver(true)
}

// takeOver runs our controller on what is there until it has judged everything, twice, with a restart between; nothing may
// have been launched, ended, drifted or rewritten by then. Last, something does change, to show that it would have been seen.
func (s *site) takeOver(converted bool) {
	s.t.Helper()
	before, instances := s.cluster(), s.instances()
	for range 2 {
		run := startController(s.t, s.Cluster, s.World)
		s.settle(run)
		run.Stop()
	}
	if diff := cmp.Diff(instances, s.instances()); diff != "" {
		s.t.Errorf("instances:\n%s", diff)
	}
	after := s.cluster()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after))); diff != "" {
		s.t.Fatalf("objects:\n%s", diff)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		s.t.Run(name, func(t *testing.T) { handedBack(t, before[name], after[name], converted) })
	}

	run := startController(s.t, s.Cluster, s.World)
	pool := &karpv1.NodePool{}
	pool.Name = "default"
	if err := s.Client.Patch(s.t.Context(), pool, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"template":{"metadata":{"labels":{"team":"other"}}}}}`))); err != nil {
		s.t.Fatal(err)
	}
	program.Until(s.t, "a change of the pool is drift", func() bool {
		claims := &karpv1.NodeClaimList{}
		if err := s.Client.List(s.t.Context(), claims); err != nil {
			return false
		}
		return !slices.ContainsFunc(claims.Items, func(c karpv1.NodeClaim) bool { return !c.StatusConditions().IsTrue(karpv1.ConditionDrifted) })
	})
	run.Stop()
}

// settle waits until the controller has resolved the class, counted the nodes, asked the provider about drift of each claim and
// decided about disruption a few times.
func (s *site) settle(run *program.Controller) {
	s.t.Helper()
	program.Until(s.t, "the pool counts its nodes", func() bool {
		run.MustRun()
		pool := &karpv1.NodePool{}
		err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: "default"}, pool)
		count := pool.Status.Resources["nodes"]
		return err == nil && count.Value() == int64(len(s.left.Instances)) && pool.StatusConditions().Root().Status == "True"
	})
	program.Until(s.t, "drift is judged and disruption decided", func() bool {
		run.MustRun()
		text := run.Scrape()
		return total(text, `karpenter_cloudprovider_duration_seconds_count\{[^}]*method="IsDrifted"[^}]*\}`) >= float64(len(s.left.Instances)) &&
			total(text, `karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count\{[^}]*\}`) >= 3
	})
}

// total adds up the series whose name and labels match.
func total(text, series string) float64 {
	sum := 0.0
	for _, m := range regexp.MustCompile(`(?m)^`+series+` (\S+)$`).FindAllStringSubmatch(text, -1) {
		if v, err := strconv.ParseFloat(m[1], 64); err == nil {
			sum += v
		}
	}
	return sum
}

// theirs are annotations that upstream Karpenter writes too: they may be new, or renewed with a newer version of the
// hash.
var theirs = []string{
	"karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version", "karpenter.k8s.aws/ec2nodeclass-hash", "karpenter.k8s.aws/ec2nodeclass-hash-version",
	"karpenter.k8s.aws/tagged", "compatibility.karpenter.k8s.aws/cluster-name-tagged", "karpenter.k8s.aws/instance-profile-name", "compatibility.karpenter.sh/provider",
}

// lasting is the spec of an object without taints that whoever is in charge adds and removes.
func lasting(o *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	taints, _, _ := unstructured.NestedSlice(spec, "taints")
	taints = slices.DeleteFunc(taints, func(t any) bool {
		key, _ := t.(map[string]any)["key"].(string)
		return strings.HasPrefix(key, karpv1.Group+"/")
	})
	if delete(spec, "taints"); len(taints) > 0 {
		spec["taints"] = taints
	}
	return spec
}

// handedBack checks that upstream Karpenter can go on with an object: its spec, finalizers, owners, labels and annotations
// are as it has left them, but for hashes of another version, which it renews.
func handedBack(t *testing.T, before, after *unstructured.Unstructured, converted bool) {
	t.Helper()
	if diff := cmp.Diff(lasting(before), lasting(after)); diff != "" {
		t.Errorf("spec:\n%s", diff)
	}
	if before.GetUID() != after.GetUID() || after.GetDeletionTimestamp() != nil {
		t.Errorf("it was made anew, or is being deleted: %s", after.GetDeletionTimestamp())
	}
	if diff := cmp.Diff(before.GetFinalizers(), after.GetFinalizers()); diff != "" && before.GetKind() != "NodePool" {
		t.Errorf("finalizers:\n%s", diff)
	}
	if diff := cmp.Diff(before.GetOwnerReferences(), after.GetOwnerReferences()); diff != "" && before.GetKind() == "Node" {
		t.Errorf("owners:\n%s", diff)
	}
	was, is := before.GetLabels(), after.GetLabels()
	for key, value := range was {
		if is[key] != value {
			t.Errorf("label %s was %q and is %q", key, value, is[key])
		}
	}
	was, is = before.GetAnnotations(), after.GetAnnotations()
	for key, value := range was {
		renewed := strings.Contains(key, "-hash") && (converted || strings.Contains(key, "ec2nodeclass")) ||
			strings.HasPrefix(key, "karpenter.sh/reboot-") // whoever ends a reboot removes them
		if is[key] != value && !renewed {
			t.Errorf("annotation %s was %q and is %q", key, value, is[key])
		}
	}
	for key, value := range is {
		if _, there := was[key]; !there && !slices.Contains(theirs, key) {
			t.Errorf("annotation %s=%s is new", key, value)
		}
	}
	for _, want := range [][2]string{{"karpenter.sh/nodepool-hash-version", "v3"}, {"karpenter.k8s.aws/ec2nodeclass-hash-version", awsv1.EC2NodeClassHashVersion}} {
		// Whoever has another version of a hash renews it on pool, class and claims.
		if got, has := is[want[0]]; has && got != want[1] && before.GetKind() != "Node" {
			t.Errorf("%s is %q, want %q", want[0], got, want[1])
		}
	}
	conditions, _, _ := unstructured.NestedSlice(after.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == karpv1.ConditionDrifted {
			t.Errorf("drifted: %v", condition)
		}
	}
}
