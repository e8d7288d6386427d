package charts

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/test/harness/program"
)

// auditPolicy has the API server note what the controller's account asks of it, and nothing else.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: ["system:serviceaccount:kube-system:karpenter"]
  - level: None
`

// request is what the API server has noted of one.
type request struct {
	Verb        string
	ObjectRef   *struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	Annotations map[string]string
	RequestURI  string
}

// unused are rights that the test does not come to use, with the reason why they are granted.
var unused = map[string]string{
	"update karpenter.sh/nodeclaims/finalizers":                  "asked for by the admission plugin OwnerReferencesPermissionEnforcement when a node gets its owner",
	"update karpenter.sh/nodepools/finalizers":                   "the same, when a claim gets its owner",
	"get networking.k8s.io/servicecidrs kubernetes":              "asked where EKS does not say it: clusters that are not EKS's",
	"update /secrets karpenter-conversion kube-system":           "the webhook's certificate is renewed after months; test/conversion has its clock do so",
	"get karpenter.sh/nodeclaims":                                "a claim that somebody else was faster to change is read again, which depends on chance",
	"get /nodes":                                                 "the same, with a node",
	"patch /events":                                              "an event that is told again is counted",
	"update /configmaps karpenter-dashboard-history kube-system": "written by the second process that has the right; TestTheHistoryOutlivesTheController has three",
}

// audited fails if the API server has refused the controller anything, or if its roles grant what it has not asked for.
func (s *site) audited(t *testing.T) {
	t.Helper()
	file, err := os.Open(s.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var asked []request
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		if r.Annotations["authorization.k8s.io/decision"] == "forbid" {
			t.Errorf("refused: %s %s: %s", r.Verb, r.RequestURI, r.Annotations["authorization.k8s.io/reason"])
		}
		if r.ObjectRef != nil {
			asked = append(asked, r)
		}
	}
	if err := lines.Err(); err != nil || len(asked) < 50 {
		t.Fatalf("%d requests are noted: %v", len(asked), err)
	}
	used := func(right string) bool {
		return slices.ContainsFunc(asked, func(r request) bool { return r.uses(right) })
	}
	for _, right := range granted(t, s) {
		// This API server can send lists as part of a watch; older ones are asked for both.
		rest, lists := strings.CutPrefix(right, "list ")
		if right == "patch /pods/status" && !s.nominates(t) {
			continue // granted all the same: the cluster may be upgraded without the chart
		}
		if unused[right] == "" && !used(right) && !(lists && used("watch "+rest)) {
			t.Errorf("granted and never used: %s", right)
		}
	}
}

// uses reports whether a request needs a right in the form of granted: verb, group/resource, name and namespace.
func (r *request) uses(right string) bool {
	fields := append(strings.Fields(right), "", "")
	resource := r.ObjectRef.APIGroup + "/" + r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}
	fits := func(want, have string) bool { return want == "" || want == "*" || want == have }
	if fields[1] == "*/*/scale" && r.ObjectRef.Subresource == "scale" {
		fields[1] = resource
	}
	return r.Verb == fields[0] && resource == fields[1] && fits(fields[2], r.ObjectRef.Name) && fits(fields[3], r.ObjectRef.Namespace)
}

// nominates says whether the controller nominates pods in this cluster: kube-scheduler heeds that since 1.35.
func (s *site) nominates(t *testing.T) bool {
	t.Helper()
	return s.Version(t).AtLeast(version.MajorMinor(1, 35))
}

// disrupt has a node that nothing runs on, which the controller takes away by itself.
func (s *site) disrupt(t *testing.T) {
	t.Helper()
	s.pending(t, "rival", "nobodys") // without one that might take its place, the pod would not be nominated
	claim := s.provision(t)
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "simulated"}}
	if err := s.Client.Patch(t.Context(), pool, patch(t, map[string]any{"spec": map[string]any{"disruption": map[string]any{
		"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty", "budgets": []any{map[string]any{"nodes": "100%"}},
	}}})); err != nil {
		t.Fatal(err)
	}
	node := s.node(t, claim)
	before := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
	node.Status.Allocatable, node.Status.Capacity = claim.Status.Allocatable, claim.Status.Capacity
	if err := s.Client.Status().Patch(t.Context(), node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if s.nominates(t) {
		program.Until(t, "the pod is nominated", func() bool {
			return s.get(pod, "default", "pending") == nil && pod.Status.NominatedNodeName == node.Name
		})
	} else {
		program.Until(t, "the node is initialized", func() bool {
			return s.get(claim, "", claim.Name) == nil && claim.StatusConditions().IsTrue(karpv1.ConditionInitialized)
		})
		if err := s.get(pod, "default", "pending"); err != nil || pod.Status.NominatedNodeName != "" {
			t.Errorf("the pod is nominated for %q, which this Kubernetes would not take back: %v", pod.Status.NominatedNodeName, err)
		}
	}
	s.unplan(t, "pending")
	s.unplan(t, "rival")
	s.left(t, claim)
}
