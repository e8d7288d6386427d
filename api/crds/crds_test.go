package crds

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFresh fails when a Go type was changed and the manifests were not generated again.
func TestFresh(t *testing.T) {
	dir := t.TempDir()
	generate(t, "crd", "paths=./api/...", "output:crd:dir="+dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifests := Files()
	if len(entries) != len(manifests) {
		t.Errorf("the types make %d CRDs, the package holds %d: run make generate", len(entries), len(manifests))
	}
	for _, entry := range entries {
		if !bytes.Equal(read(t, filepath.Join(dir, entry.Name())), manifests[entry.Name()]) {
			t.Errorf("%s is stale: run make generate", entry.Name())
		}
	}
}

// TestFreshCopies does the same for the generated deep copies.
func TestFreshCopies(t *testing.T) {
	const name = "zz_generated.deepcopy.go"
	found, err := filepath.Glob(filepath.Join("..", "*", "*", name))
	if err != nil || len(found) == 0 {
		t.Fatalf("no generated deep copies found: %v", err)
	}
	for _, file := range found {
		pkg := filepath.Join("api", strings.TrimPrefix(filepath.Dir(file), ".."))
		t.Run(pkg, func(t *testing.T) {
			dir := t.TempDir()
			generate(t, "object", "paths=./"+pkg, "output:object:dir="+dir)
			if !bytes.Equal(read(t, filepath.Join(dir, name)), read(t, file)) {
				t.Errorf("%s is stale: run make generate", file)
			}
		})
	}
}

func generate(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"run", "-modfile=tools/tools.mod", "sigs.k8s.io/controller-tools/cmd/controller-gen"}, args...)...)
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("controller-gen: %v\n%s", err, out)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestKinds holds the names, scope and subresources that users and tools rely on.
func TestKinds(t *testing.T) {
	type kind struct {
		Name, Kind, Scope string
		Short, Categories []string
		Stored            string
		Status, Scale     bool
		Columns           []string
	}
	var got []kind
	for _, object := range Objects() {
		names := object.Spec.Names
		k := kind{Name: object.Name, Kind: names.Kind, Scope: string(object.Spec.Scope), Short: names.ShortNames, Categories: names.Categories}
		for _, version := range object.Spec.Versions {
			if !version.Storage {
				continue
			}
			k.Stored = version.Name
			k.Status = version.Subresources.Status != nil
			k.Scale = version.Subresources.Scale != nil
			for _, column := range version.AdditionalPrinterColumns {
				name := column.Name
				if column.Priority > 0 {
					name += " (wide)"
				}
				k.Columns = append(k.Columns, name)
			}
		}
		got = append(got, k)
	}
	want := []kind{
		{ // A4, A8
			Name: "capacitybuffers.autoscaling.x-k8s.io", Kind: "CapacityBuffer", Scope: "Namespaced", Short: []string{"cb"}, Categories: []string{"autoscaling"},
			Stored: "v1beta1", Status: true,
			Columns: []string{"Strategy", "PodTemplate", "Replicas", "ConditionsType", "ConditionsStatus", "ConditionsReason", "Age"},
		},
		{
			Name: "clusterapinodeclasses.karpenter.cluster.x-k8s.io", Kind: "ClusterAPINodeClass", Scope: "Cluster", Short: []string{"capinc", "capincs"},
			Categories: []string{"karpenter"}, Stored: "v1alpha1", Status: true, Columns: []string{"Ready", "Age"},
		},
		{
			Name: "ec2nodeclasses.karpenter.k8s.aws", Kind: "EC2NodeClass", Scope: "Cluster", Short: []string{"ec2nc", "ec2ncs"},
			Categories: []string{"karpenter"}, Stored: "v1", Status: true, Columns: []string{"Ready", "Age", "Role (wide)"},
		},
		{ // A2, A7
			Name: "nodeclaims.karpenter.sh", Kind: "NodeClaim", Scope: "Cluster", Categories: []string{"karpenter"}, Stored: "v1", Status: true,
			Columns: []string{
				"Type", "Capacity", "Zone", "Node", "Ready", "Age",
				"ImageID (wide)", "ID (wide)", "NodePool (wide)", "NodeClass (wide)", "Drifted (wide)",
			},
		},
		{ // A3, A8
			Name: "nodeoverlays.karpenter.sh", Kind: "NodeOverlay", Scope: "Cluster", Short: []string{"overlays"}, Categories: []string{"karpenter"},
			Stored: "v1alpha1", Status: true, Columns: []string{"Ready", "Age", "Weight (wide)"},
		},
		{ // A1, A6
			Name: "nodepools.karpenter.sh", Kind: "NodePool", Scope: "Cluster", Categories: []string{"karpenter"}, Stored: "v1", Status: true, Scale: true,
			Columns: []string{"NodeClass", "Nodes", "Ready", "Age", "Weight (wide)", "CPU (wide)", "Memory (wide)"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds differ (-want +got):\n%s", diff)
	}
}
