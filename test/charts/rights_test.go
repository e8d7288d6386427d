package charts

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
)

// needs are what the code of the controller asks of the API server: verbs, then group/resource, then name and namespace if only
// that one is meant. VerticalPodAutoscalers are not among them: what upstream keeps of those, nothing reads (N14).
const needs = `
list,watch                 /pods
list,watch                 /nodes
list,watch                 /namespaces
list,watch                 /persistentvolumes
list,watch                 /persistentvolumeclaims
list,watch                 storage.k8s.io/storageclasses
list,watch                 storage.k8s.io/csinodes
list,watch                 storage.k8s.io/volumeattachments
list,watch                 apps/daemonsets
list,watch                 policy/poddisruptionbudgets
list,watch                 autoscaling.x-k8s.io/capacitybuffers
patch                      autoscaling.x-k8s.io/capacitybuffers/status
get,list,watch             /podtemplates
get,list,watch             /replicationcontrollers
get,list,watch             apps/deployments
get,list,watch             apps/replicasets
get,list,watch             apps/statefulsets
get,list,watch             batch/jobs
get                        */*/scale
get                        /namespaces kube-system
get                        /services kube-dns kube-system
get                        networking.k8s.io/servicecidrs kubernetes
get,patch,delete           /nodes
delete                     /pods
create                     /pods/eviction
patch                      /pods/status
create,patch               /events
get,list,watch,create,patch,delete karpenter.sh/nodeclaims
patch                      karpenter.sh/nodeclaims/status
update                     karpenter.sh/nodeclaims/finalizers
get,list,watch,patch       karpenter.sh/nodepools
patch                      karpenter.sh/nodepools/status
update                     karpenter.sh/nodepools/finalizers
get,list,watch,patch       karpenter.k8s.aws/ec2nodeclasses
patch                      karpenter.k8s.aws/ec2nodeclasses/status
get,patch                  apiextensions.k8s.io/customresourcedefinitions nodepools.karpenter.sh
get,patch                  apiextensions.k8s.io/customresourcedefinitions nodeclaims.karpenter.sh
get,patch                  apiextensions.k8s.io/customresourcedefinitions ec2nodeclasses.karpenter.k8s.aws
create                     coordination.k8s.io/leases * kube-system
get,update                 coordination.k8s.io/leases karpenter-leader-election kube-system
create                     /secrets * kube-system
get,update                 /secrets karpenter-conversion kube-system
create                     /configmaps * kube-system
get,update                 /configmaps karpenter-dashboard-history kube-system
`

// granted spells out the rules of the account's roles in the form of needs, one verb a line.
func granted(t *testing.T, s *site) []string {
	t.Helper()
	var lines []string
	add := func(rules []rbacv1.PolicyRule, namespace string) {
		for _, rule := range rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
				if namespace != "" {
					names = []string{"*"}
				}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						for _, verb := range rule.Verbs {
							lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s/%s %s %s", verb, group, resource, name, namespace)))
						}
					}
				}
			}
		}
	}
	for _, name := range []string{"karpenter", "karpenter-core"} {
		role := &rbacv1.ClusterRole{}
		if err := s.get(role, "", name); err != nil {
			t.Fatal(err)
		}
		add(role.Rules, "")
	}
	for _, name := range []string{"karpenter", "karpenter-dns"} {
		role := &rbacv1.Role{}
		if err := s.get(role, "kube-system", name); err != nil {
			t.Fatal(err)
		}
		add(role.Rules, "kube-system")
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// rights checks that the account may do what the controller needs, by the API server's own judgement, and that nothing else is granted.
func rights(t *testing.T, s *site) {
	var wanted []string
	for line := range strings.Lines(strings.TrimSpace(needs)) {
		fields := append(strings.Fields(line), "", "")
		for verb := range strings.SplitSeq(fields[0], ",") {
			wanted = append(wanted, strings.TrimSpace(strings.Join([]string{verb, fields[1], fields[2], fields[3]}, " ")))
			if !allowed(t, s, verb, fields[1:]) {
				t.Errorf("the account may not %s %s", verb, strings.Join(fields[1:], " "))
			}
		}
	}
	slices.Sort(wanted)
	for _, line := range granted(t, s) {
		if _, found := slices.BinarySearch(wanted, line); !found {
			t.Errorf("granted and not needed: %s", line)
		}
	}
	for _, line := range []string{"get /secrets other kube-system", "list /secrets", "get /configmaps other kube-system", "update /configmaps other kube-system", "create /pods", "create /nodes", "patch /pods", "delete karpenter.sh/nodepools", "create rbac.authorization.k8s.io/clusterroles", "update /nodes"} {
		fields := append(strings.Fields(line), "", "")
		if allowed(t, s, fields[0], fields[1:]) {
			t.Errorf("the account may %s", line)
		}
	}
}

// allowed asks the API server.
func allowed(t *testing.T, s *site, verb string, of []string) bool {
	t.Helper()
	group, rest, _ := strings.Cut(of[0], "/")
	resource, sub, _ := strings.Cut(rest, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:kube-system:karpenter", Groups: []string{"system:serviceaccounts", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: group, Resource: resource, Subresource: sub, Name: strings.Trim(of[1], "*"), Namespace: of[2],
		},
	}}
	if err := s.Client.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// policies checks that the account cannot touch what is not Karpenter's, though its roles would let it.
func policies(t *testing.T, s *site) {
	ctx, ours := t.Context(), s.as("kube-system", "karpenter")
	node := func(name string, labels map[string]string, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{Taints: taints}}
	}
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	}
	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
	}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: "default"}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "kubernetes.io/arch", Operator: "In", Values: []string{"amd64"}}}
	for _, object := range []client.Object{
		node("foreign", nil), node("ours", map[string]string{"karpenter.sh/nodepool": "general"}),
		node("alone", map[string]string{"karpenter.sh/registered": "true"}),
		node("joining", nil, corev1.Taint{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}},
		pod("on-foreign", "foreign"), pod("on-ours", "ours"), pod("on-alone", "alone"), pod("nowhere", ""), pod("nominee", ""), pool, class("default"),
	} {
		if err := s.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	note := patch(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"n": "1"}}})
	nominated := patch(t, map[string]any{"status": map[string]any{"nominatedNodeName": "ours"}})
	unscheduled := patch(t, map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "PodScheduled", "status": "True"}}}})
	heavier := patch(t, map[string]any{"spec": map[string]any{"weight": 7}})
	// Before 1.30 there are roles alone, which let the account do all of this.
	guarded := s.Version(t).AtLeast(version.MajorMinor(1, 30))
	if guarded {
		s.await(t,
			func() error { return ours.Delete(ctx, node("foreign", nil), client.DryRunAll) },
			func() error { return ours.Delete(ctx, pod("on-foreign", ""), client.DryRunAll) },
			func() error { return ours.Patch(ctx, pool.DeepCopy(), heavier, client.DryRunAll) },
			func() error { return ours.Create(ctx, named("other"), client.DryRunAll) },
			func() error { return ours.Status().Patch(ctx, pod("nominee", ""), unscheduled, client.DryRunAll) })
	}
	for _, c := range []struct {
		name string
		ok   bool
		do   func() error
	}{
		{"change a node of ours", true, func() error { return ours.Patch(ctx, node("ours", nil), note) }},
		{"change a node that joins", true, func() error { return ours.Patch(ctx, node("joining", nil), note) }},
		{"A40 change a node without a pool", true, func() error { return ours.Patch(ctx, node("alone", nil), note) }},
		{"change a foreign node", false, func() error { return ours.Patch(ctx, node("foreign", nil), note) }},
		{"take a foreign node", false, func() error {
			return ours.Patch(ctx, node("foreign", nil), patch(t, map[string]any{"metadata": map[string]any{"labels": map[string]any{"karpenter.sh/nodepool": "general"}}}))
		}},
		{"delete a foreign node", false, func() error { return ours.Delete(ctx, node("foreign", nil)) }},
		{"delete a pod on a foreign node", false, func() error { return ours.Delete(ctx, pod("on-foreign", "")) }},
		{"delete a pod on our node", true, func() error { return ours.Delete(ctx, pod("on-ours", "")) }},
		{"A40 delete a pod on a node without a pool", true, func() error { return ours.Delete(ctx, pod("on-alone", "")) }},
		{"delete a pod without a node", true, func() error { return ours.Delete(ctx, pod("nowhere", "")) }},
		{"nominate a pod", true, func() error { return ours.Status().Patch(ctx, pod("nominee", ""), nominated) }},
		{"take a nomination back", true, func() error {
			return ours.Status().Patch(ctx, pod("nominee", ""), patch(t, map[string]any{"status": map[string]any{"nominatedNodeName": nil}}))
		}},
		{"change another status of a pod", false, func() error {
			return ours.Status().Patch(ctx, pod("nominee", ""), patch(t, map[string]any{"status": map[string]any{"phase": "Failed", "nominatedNodeName": "ours"}}))
		}},
		{"change a condition of a pod", false, func() error { return ours.Status().Patch(ctx, pod("nominee", ""), unscheduled) }},
		{"label a pod by way of its status", false, func() error {
			return ours.Status().Patch(ctx, pod("nominee", ""), patch(t, map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}))
		}},
		{"delete a node of ours", true, func() error { return ours.Delete(ctx, node("ours", nil)) }},
		{"A40 delete a node without a pool", true, func() error { return ours.Delete(ctx, node("alone", nil)) }},
		{"note something on a pool", true, func() error { return ours.Patch(ctx, pool.DeepCopy(), note) }},
		{"change the spec of a pool", false, func() error { return ours.Patch(ctx, pool.DeepCopy(), heavier) }},
		{"note something on a class", true, func() error { return ours.Patch(ctx, class("default"), note) }},
		{"change the spec of a class", false, func() error {
			return ours.Patch(ctx, class("default"), patch(t, map[string]any{"spec": map[string]any{"userData": "x"}}))
		}},
		{"keep the dashboard's history", true, func() error { return ours.Create(ctx, named("karpenter-dashboard-history"), client.DryRunAll) }},
		{"create another ConfigMap", false, func() error { return ours.Create(ctx, named("other"), client.DryRunAll) }},
		{"the administrator's node", true, func() error { return s.Client.Patch(ctx, node("foreign", nil), note) }},
	} {
		if !c.ok && !guarded {
			continue
		}
		err := c.do()
		if c.ok && err != nil || !c.ok && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "Karpenter may")) {
			t.Errorf("%s: %v, want allowed: %t", c.name, err, c.ok)
		}
	}
}

// deletionCosts checks that the account may give pods deletion costs once the feature is on, and change nothing else of them.
func deletionCosts(t *testing.T, s *site, install []string) {
	s.h.must(t, append(slices.Clone(install), "--set", "settings.featureGates.podDeletionCostManagement=true")...)
	ctx, ours := t.Context(), s.as("kube-system", "karpenter")
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	}
	free, owned := pod("free"), pod("owned")
	free.Annotations = map[string]string{"a": "1"}
	owned.Annotations = map[string]string{corev1.PodDeletionCost: "7", karpv1.DeletionCostAnnotationKey: "-1"}
	for _, p := range []*corev1.Pod{free, owned} {
		if err := s.Client.Create(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	annotate := func(name string, annotations map[string]any, opts ...client.PatchOption) error {
		return ours.Patch(ctx, pod(name), patch(t, map[string]any{"metadata": map[string]any{"annotations": annotations}}), opts...)
	}
	cost := func(value any) map[string]any {
		return map[string]any{corev1.PodDeletionCost: value, karpv1.DeletionCostAnnotationKey: value}
	}
	guarded := s.Version(t).AtLeast(version.MajorMinor(1, 30))
	if guarded {
		s.await(t, func() error {
			err := annotate("free", map[string]any{"b": "2"}, client.DryRunAll)
			if err != nil && !strings.Contains(err.Error(), "Karpenter may") {
				return fmt.Errorf("the role has no effect yet: %s", err)
			}
			return err
		})
	}
	for _, c := range []struct {
		name string
		ok   bool
		do   func() error
	}{
		{"give a cost", true, func() error { return annotate("free", cost("-3")) }},
		{"change a cost of ours", true, func() error { return annotate("free", cost("-2147483648")) }},
		{"take a cost of ours back", true, func() error { return annotate("free", cost(nil)) }},
		{"change an owner's cost", false, func() error { return annotate("owned", cost("-3")) }},
		{"take an owner's cost back", false, func() error { return annotate("owned", cost(nil)) }},
		{"take our mark from an owner's cost", true, func() error { return annotate("owned", map[string]any{karpv1.DeletionCostAnnotationKey: nil}) }},
		{"add another annotation", false, func() error { return annotate("free", map[string]any{corev1.PodDeletionCost: "-3", "b": "2"}) }},
		{"change another annotation", false, func() error { return annotate("free", map[string]any{"a": "2"}) }},
		{"remove another annotation", false, func() error { return annotate("free", map[string]any{"a": nil}) }},
		{"label a pod", false, func() error {
			return ours.Patch(ctx, pod("free"), patch(t, map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}))
		}},
		{"change the image of a pod", false, func() error {
			return ours.Patch(ctx, pod("free"), client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/containers/0/image","value":"other"}]`)))
		}},
	} {
		if !c.ok && !guarded {
			continue
		}
		err := c.do()
		if c.ok && err != nil || !c.ok && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "Karpenter may")) {
			t.Errorf("%s: %v, want allowed: %t", c.name, err, c.ok)
		}
	}
	// What is left of ours can be taken away by hand, and nothing else goes with it.
	if err := annotate("free", cost("-3")); err != nil {
		t.Fatal(err)
	}
	if err := annotate("owned", map[string]any{karpv1.DeletionCostAnnotationKey: "-1"}); err != nil {
		t.Fatal(err)
	}
	s.follow("concepts/consolidation.md", "TestInstallUpgradeUninstall")
	for _, p := range []*corev1.Pod{free, owned} {
		if err := s.get(p, p.Namespace, p.Name); err != nil {
			t.Fatal(err)
		}
	}
	if !maps.Equal(free.Annotations, map[string]string{"a": "1"}) || owned.Annotations[corev1.PodDeletionCost] != "7" {
		t.Errorf("by the documented command the pods have come to %v and %v", free.Annotations, owned.Annotations)
	}
}

func patch(t *testing.T, content map[string]any) client.Patch {
	t.Helper()
	raw, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return client.RawPatch(types.MergePatchType, raw)
}
