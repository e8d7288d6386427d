package v1

import (
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

// Fields that are newer than the version of the golden values change the hash, and so does each of their values.
func TestHash_NewerFieldsCount(t *testing.T) {
	seen := map[string]string{}
	for _, spec := range []string{
		`{}`, `{enclaveOptions: {enabled: true}}`, `{enclaveOptions: {enabled: false}}`,
		`{kubelet: {maxPods: 10}}`, `{kubelet: {maxPods: "min(10, max_pods)"}}`, `{kubelet: {singleProcessOOMKill: true}}`, `{kubelet: {singleProcessOOMKill: false}}`,
		`{kubelet: {logging: {format: json}}}`, `{kubelet: {logging: {format: text}}}`,
	} {
		class := &EC2NodeClass{}
		if err := yaml.UnmarshalStrict([]byte(spec), &class.Spec); err != nil {
			t.Fatal(err)
		}
		hash := class.Hash("")
		if other, taken := seen[hash]; taken {
			t.Errorf("%s and %s have the same hash", spec, other)
		}
		seen[hash] = spec
	}
	// The order of what was written does not matter.
	a, b := &EC2NodeClass{}, &EC2NodeClass{}
	for class, spec := range map[*EC2NodeClass]string{a: `{kubelet: {logging: {a: 1, b: 2}, oomScoreAdj: 1}}`, b: `{kubelet: {oomScoreAdj: 1, logging: {b: 2, a: 1}}}`} {
		if err := yaml.UnmarshalStrict([]byte(spec), &class.Spec); err != nil {
			t.Fatal(err)
		}
	}
	if a.Hash("") != b.Hash("") {
		t.Error("the order of fields changes the hash")
	}
}

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
