package harness_test

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"karpenter/test/harness"
)

// The binary also serves tests written for controller-runtime's envtest, through the symlinks beside it.
func TestEnvtestRunsOnTheSymlinks(t *testing.T) {
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	environment := &envtest.Environment{BinaryAssetsDirectory: filepath.Dir(binary), CRDDirectoryPaths: []string{"../../api/crds"}, ErrorIfCRDPathMissing: true}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if version, err := clients.Discovery().ServerVersion(); err != nil || version.GitVersion != "v1.37.1" {
		t.Errorf("server version %v, %v", version, err)
	}
}
