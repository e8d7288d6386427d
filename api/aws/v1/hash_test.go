package v1

import (
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestHash_EqualsTheReference holds the drift hash against values that upstream Karpenter gave for
// the same classes. A difference would replace every node of a cluster that is taken over.
func TestHash_EqualsTheReference(t *testing.T) {
	data, err := os.ReadFile("testdata/hashes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name     string           `json:"name"`
		Hash     string           `json:"hash"`
		CABundle string           `json:"caBundle"`
		Spec     EC2NodeClassSpec `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 25 {
		t.Fatalf("only %d golden hashes", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			class := &EC2NodeClass{Spec: c.Spec}
			if got := class.Hash(c.CABundle); got != c.Hash {
				t.Errorf("Hash() = %s, want %s", got, c.Hash)
			}
			if got := class.DeepCopy().Hash(c.CABundle); got != c.Hash {
				t.Errorf("Hash() of a copy = %s, want %s", got, c.Hash)
			}
		})
	}
}
