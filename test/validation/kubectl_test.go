package validation

import (
	"strings"
	"testing"
)

const (
	poolManifest = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: NAME}
spec:
  REPLICAS
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
`
	classManifest = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: kubectl}
spec:
  role: some-role
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
`
)

func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := cluster.Kubectl(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestKubectl uses the API as a person does: names, columns, categories, scaling, explanations.
func TestKubectl(t *testing.T) {
	pool := strings.NewReplacer("NAME", "kubectl", "REPLICAS", "").Replace(poolManifest)
	static := strings.NewReplacer("NAME", "kubectl-static", "REPLICAS", "replicas: 2").Replace(poolManifest)
	kubectl(t, pool+"---"+static+"---"+classManifest, "apply", "-f", "-")

	t.Run("A1 scaling a static pool", func(t *testing.T) {
		kubectl(t, "", "scale", "nodepool", "kubectl-static", "--replicas=5")
		if got := kubectl(t, "", "get", "nodepool", "kubectl-static", "-o", "jsonpath={.spec.replicas}"); got != "5" {
			t.Errorf("replicas = %s, want 5", got)
		}
	})
	t.Run("A28 a pool that is not static cannot be scaled", func(t *testing.T) {
		_, err := cluster.Kubectl(t.Context(), "", "scale", "nodepool", "kubectl", "--replicas=5")
		if err == nil || !strings.Contains(err.Error(), "replicas cannot be added") {
			t.Errorf("scaled, or refused for another reason: %v", err)
		}
	})
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"A6 columns of pools", []string{"get", "nodepools", "-o", "wide"}, []string{"NODECLASS", "NODES", "READY", "AGE", "WEIGHT", "CPU", "MEMORY"}},
		{"A1 category", []string{"get", "karpenter"}, []string{"nodepool.karpenter.sh/kubectl", "ec2nodeclass.karpenter.k8s.aws/kubectl"}},
		{"short name ec2nc", []string{"get", "ec2nc", "-o", "wide"}, []string{"READY", "AGE", "ROLE", "some-role"}},
		{"short name ec2ncs", []string{"get", "ec2ncs"}, []string{"kubectl"}},
		{"explain a pool", []string{"explain", "nodepool.spec.disruption.budgets"}, []string{"schedule", "UTC", "10%"}},
		{"explain a claim", []string{"explain", "nodeclaim.spec.expireAfter"}, []string{"720h", "Never"}},
		{"explain a class", []string{"explain", "ec2nodeclass.spec.amiSelectorTerms.alias"}, []string{"al2023@v20250505"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := kubectl(t, "", test.args...)
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is not in\n%s", want, out)
				}
			}
		})
	}
}

// TestEveryFieldIsExplained holds that each field of the stored versions has a description.
func TestEveryFieldIsExplained(t *testing.T) {
	for path, description := range fields() {
		if strings.TrimSpace(description) == "" {
			t.Errorf("%s has no description", path)
		}
	}
}
