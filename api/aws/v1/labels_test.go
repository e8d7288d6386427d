package v1

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestA59_LabelRulesOfAWS(t *testing.T) {
	rules := LabelRules()
	for key, want := range map[string]bool{
		LabelInstanceCategory: false, LabelZoneID: false, "karpenter.k8s.aws/colour": true, "a.karpenter.k8s.aws/x": true,
		"mykarpenter.k8s.aws/x": false, "karpenter.sh/registered": true, "karpenter.sh/capacity-type": false,
	} {
		if got := rules.IsRestricted(key); got != want {
			t.Errorf("%s restricted: %v, want %v", key, got, want)
		}
	}
	if got := rules.Normalize(LabelCSIZone); got != "topology.kubernetes.io/zone" {
		t.Error(got)
	}
}

// TestWellKnownLabelsAreInTheCRDs holds the list in the admission rules of pools and claims against the constants.
func TestWellKnownLabelsAreInTheCRDs(t *testing.T) {
	for _, file := range []string{"karpenter.sh_nodepools.yaml", "karpenter.sh_nodeclaims.yaml"} {
		data, err := os.ReadFile("../../crds/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range wellKnownLabels {
			if !strings.Contains(string(data), "''"+key+"''") {
				t.Errorf("%s does not admit %s", file, key)
			}
		}
		for part := range strings.SplitSeq(string(data), "''") {
			if strings.HasPrefix(part, Group+"/") && !slices.Contains(wellKnownLabels, part) {
				t.Errorf("%s admits %s, which is no label", file, part)
			}
		}
	}
}
