package convert

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"
)

// The seeds of the fuzz targets: each kind in each version, with what makes conversion interesting.
var fuzzSeeds = []string{
	`{"apiVersion":"karpenter.sh/v1beta1","kind":"NodePool","metadata":{"name":"a"},"spec":{"weight":3,"template":{"spec":{"requirements":[{"key":"a","operator":"Gt","values":["4"]}],"kubelet":{"maxPods":4},"nodeClassRef":{"name":"a"}}},"disruption":{"consolidationPolicy":"WhenUnderutilized","consolidateAfter":"30s","expireAfter":"Never","budgets":[{"nodes":"0","schedule":"@daily"}]}}}`,
	`{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"a","annotations":{"compatibility.karpenter.sh/v1beta1-spec":"{\"disruption\":null}"}},"spec":{"replicas":3,"template":{"spec":{"requirements":[{"key":"a","operator":"Gte","values":["4"]}],"terminationGracePeriod":"1h","nodeClassRef":{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"a"}}}}}`,
	`{"apiVersion":"karpenter.sh/v1beta1","kind":"NodeClaim","metadata":{"name":"a","annotations":{"compatibility.karpenter.sh/v1-spec":"{\"expireAfter\":\"1h\"}"}},"spec":{"requirements":[],"resources":{"requests":{"cpu":1}}}}`,
	`{"apiVersion":"karpenter.k8s.aws/v1beta1","kind":"EC2NodeClass","metadata":{"name":"a","annotations":{"compatibility.karpenter.k8s.aws/v1-alias-version":"v20240807"}},"spec":{"amiFamily":"AL2","role":"r","amiSelectorTerms":[{"name":"ssm:/a"}],"metadataOptions":{"httpTokens":"optional"}}}`,
	`{"apiVersion":"karpenter.k8s.aws/v1","kind":"EC2NodeClass","metadata":{"name":"a","annotations":{"compatibility.karpenter.k8s.aws/v1beta1-ubuntu":"amiFamily,blockDeviceMappings"}},"spec":{"amiSelectorTerms":[{"alias":"al2@latest"}],"blockDeviceMappings":[{"ebs":{"volumeSize":"1Gi"}}]}}`,
	`{"apiVersion":"karpenter.sh/v1alpha5","kind":"Provisioner","metadata":{"name":"a"},"spec":{"requirements":[],"ttlSecondsAfterEmpty":30,"provider":{"subnetSelector":{"a":"b,c"},"instanceProfile":"p"},"limits":{"resources":{"cpu":"1"}}}}`,
	`{"apiVersion":"karpenter.k8s.aws/v1alpha1","kind":"AWSNodeTemplate","metadata":{"name":"a"},"spec":{"amiSelector":{"aws::name":"a","aws::owners":"b"},"subnetSelector":{"aws-ids":"subnet-1"}}}`,
	`{"apiVersion":"karpenter.sh/v1alpha5","kind":"Provisioner","spec":{"provider":{}}}`,
	`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"karpenter.sh/v1beta1","kind":"NodeClaim","spec":{"requirements":[]}},3]}`,
}

// FuzzObject: whatever is decoded, converting it gives an object or an error that names it, there and back.
func FuzzObject(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var object map[string]any
		if json.Unmarshal([]byte(text), &object) != nil {
			return
		}
		for _, apiVersion := range []string{"karpenter.sh/v1", "karpenter.sh/v1beta1", "karpenter.k8s.aws/v1", "karpenter.k8s.aws/v1beta1"} {
			out, err := Object(object, apiVersion, nil)
			if err != nil {
				kind, _ := object["kind"].(string)
				if !strings.Contains(err.Error(), kind) {
					t.Errorf("the error does not name the object: %v", err)
				}
				continue
			}
			from, _ := object["apiVersion"].(string)
			if _, err := Object(out, from, nil); err != nil {
				t.Errorf("not convertible back: %v", err)
			}
		}
	})
}

// FuzzOffline: no manifest stops the command.
func FuzzOffline(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, v1 bool) {
		var object map[string]any
		if json.Unmarshal([]byte(text), &object) != nil {
			return
		}
		version := versionBeta
		if v1 {
			version = versionV1
		}
		for _, outcome := range (Offline{Version: version, InstanceProfile: "p"}).Convert([]map[string]any{object}) {
			if outcome.Err != nil && len(outcome.Objects) > 0 {
				t.Error("an error and a result")
			}
			for _, converted := range outcome.Objects {
				if kind, _ := converted["kind"].(string); strings.HasSuffix(kind, "List") {
					continue
				}
				if err := Check(converted); err != nil {
					t.Errorf("the result is not of its type: %v", err)
				}
			}
		}
	})
}
