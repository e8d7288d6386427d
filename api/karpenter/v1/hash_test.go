package v1

import (
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestA60_HashEqualsTheReference holds the drift hash against values that upstream Karpenter gave for
// the same templates. A difference would replace every node of a cluster that is taken over.
func TestA60_HashEqualsTheReference(t *testing.T) {
	data, err := os.ReadFile("testdata/hashes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name     string            `json:"name"`
		Hash     string            `json:"hash"`
		Template NodeClaimTemplate `json:"template"`
	}
	if err := yaml.UnmarshalStrict(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 25 {
		t.Fatalf("only %d golden hashes", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			pool := &NodePool{Spec: NodePoolSpec{Template: c.Template}}
			if got := pool.Hash(); got != c.Hash {
				t.Errorf("Hash() = %s, want %s", got, c.Hash)
			}
			if got := pool.DeepCopy().Hash(); got != c.Hash {
				t.Errorf("Hash() of a copy = %s, want %s", got, c.Hash)
			}
		})
	}
}
