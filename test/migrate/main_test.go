package migrate

import (
	"os"
	"testing"

	"karpenter/internal/cli"
	"karpenter/internal/clouds"
	"karpenter/internal/operator"
	"karpenter/test/harness"
	"karpenter/test/harness/program"
	"karpenter/test/harness/simcloud"
)

func TestMain(m *testing.M) {
	program.Act(operator.NewCommand("test", clouds.Plugins()...), cli.NewImport("test"))
	os.Exit(m.Run())
}

// startController runs our controller on a cluster and an AWS simulator.
func startController(t *testing.T, c *harness.Cluster, w *simcloud.World) *program.Controller {
	t.Helper()
	return program.Start(t, program.Options{World: w, Env: map[string]string{
		"KUBECONFIG": c.Kubeconfig, "SYSTEM_NAMESPACE": "kube-system", "CLUSTER_NAME": w.Cluster, "CLUSTER_CA_BUNDLE": caBundle(c),
	}})
}
