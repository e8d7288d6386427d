package charts

import (
	"strings"
	"testing"
)

// TestTemplateOfTheLocalCluster holds what "karpenter local" installs against what the chart makes of these values.
func TestTemplateOfTheLocalCluster(t *testing.T) {
	t.Parallel()
	h := newHelm(t, "")
	if h.three(t) {
		t.Skip("the file is Helm 4's")
	}
	for file, values := range map[string][]string{
		"karpenter.yaml":             {"--set", "settings.clusterName=THIS-CLUSTER", "--set", "settings.clusterEndpoint=https://THIS-ENDPOINT", "--set", "settings.interruptionQueue=THIS-CLUSTER"},
		"karpenter-cluster-api.yaml": {"--set", "settings.provider=cluster-api"},
	} {
		text := localTemplate(t, h, values)
		hold(t, at("internal", "local", "manifests", file), strings.TrimPrefix(text, "---\n"))
	}
}

func localTemplate(t *testing.T, h *helm, values []string) string {
	t.Helper()
	return h.must(t, append([]string{
		"template", "karpenter", "karpenter", "--namespace", "kube-system",
		"--set", "settings.dashboardAddress=127.0.0.1:8082",
		// The program has them, with their conversion.
		"--set", "crds.install=false",
		// There is one system node, so one replica at most, which need not wait after a crash until its own lease runs out.
		"--set", "replicas=1", "--set", "controller.env[0].name=DISABLE_LEADER_ELECTION", "--set-string", "controller.env[0].value=true",
		// How large a cluster may be is up to this computer.
		"--set", "controller.resources.limits=null",
		// What settings that may be turned on in the environment need: PodDeletionCostManagement, NodeOverlay, SCHEDULER_CONFIG, IGNORE_DRA_REQUESTS.
		"--set-json", `additionalClusterRoleRules=[{"apiGroups":[""],"resources":["pods"],"verbs":["patch"]},{"apiGroups":[""],"resources":["services","replicationcontrollers"],"verbs":["list","watch"]},` +
			`{"apiGroups":["apps"],"resources":["statefulsets"],"verbs":["list","watch"]},{"apiGroups":["resource.k8s.io"],"resources":["resourceslices"],"verbs":["list"]},` +
			`{"apiGroups":["karpenter.sh"],"resources":["nodeoverlays"],"verbs":["list","watch"]},{"apiGroups":["karpenter.sh"],"resources":["nodeoverlays/status"],"verbs":["patch"]}]`,
	}, values...)...)
}
