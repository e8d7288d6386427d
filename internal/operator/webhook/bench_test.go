package webhook

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// listed is a NodeClaim as etcd has it.
func listed(i int) string {
	return fmt.Sprintf(`{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim","metadata":{"name":"default-%d","uid":"5f0c3d5e-2f0b-4b5a-9a55-0c7a9f5fb0aa","resourceVersion":"%d","generation":1,
"creationTimestamp":"2026-11-19T04:30:00Z","finalizers":["karpenter.sh/termination"],"annotations":{"karpenter.k8s.aws/ec2nodeclass-hash":"12345678901234567890","karpenter.k8s.aws/ec2nodeclass-hash-version":"v6",
"karpenter.sh/nodepool-hash":"1234567890123456789","karpenter.sh/nodepool-hash-version":"v3","karpenter.k8s.aws/instance-profile-name":"my-cluster_1234567890"},
"labels":{"karpenter.sh/nodepool":"default","karpenter.sh/capacity-type":"spot","node.kubernetes.io/instance-type":"c6a.xlarge","topology.kubernetes.io/zone":"us-west-2b","topology.kubernetes.io/region":"us-west-2",
"karpenter.k8s.aws/ec2nodeclass":"default","karpenter.k8s.aws/instance-category":"c","karpenter.k8s.aws/instance-cpu":"4","karpenter.k8s.aws/instance-cpu-manufacturer":"amd","karpenter.k8s.aws/instance-family":"c6a",
"karpenter.k8s.aws/instance-generation":"6","karpenter.k8s.aws/instance-memory":"8192","karpenter.k8s.aws/instance-network-bandwidth":"1562","karpenter.k8s.aws/instance-size":"xlarge","kubernetes.io/arch":"amd64","kubernetes.io/os":"linux"},
"ownerReferences":[{"apiVersion":"karpenter.sh/v1","blockOwnerDeletion":true,"kind":"NodePool","name":"default","uid":"5f0c3d5e-2f0b-4b5a-9a55-0c7a9f5fb0ab"}],
"managedFields":[{"manager":"karpenter","operation":"Update","apiVersion":"karpenter.sh/v1","time":"2026-11-19T04:30:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:karpenter.k8s.aws/ec2nodeclass-hash":{},
"f:karpenter.sh/nodepool-hash":{}},"f:finalizers":{".":{},"v:\"karpenter.sh/termination\"":{}},"f:labels":{".":{},"f:karpenter.sh/nodepool":{},"f:karpenter.k8s.aws/instance-family":{},"f:karpenter.k8s.aws/instance-size":{}}},
"f:spec":{".":{},"f:expireAfter":{},"f:nodeClassRef":{".":{},"f:group":{},"f:kind":{},"f:name":{}},"f:requirements":{},"f:resources":{".":{},"f:requests":{".":{},"f:cpu":{},"f:memory":{},"f:pods":{}}}}}},
{"manager":"karpenter","operation":"Update","subresource":"status","apiVersion":"karpenter.sh/v1","time":"2026-11-19T04:31:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:status":{".":{},"f:allocatable":{".":{},"f:cpu":{},"f:memory":{},"f:pods":{}},
"f:capacity":{".":{},"f:cpu":{},"f:memory":{},"f:pods":{}},"f:conditions":{".":{},"k:{\"type\":\"Launched\"}":{".":{},"f:status":{},"f:reason":{}},"k:{\"type\":\"Registered\"}":{".":{},"f:status":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}},"f:nodeName":{},"f:providerID":{}}}}]},
"spec":{"expireAfter":"720h","nodeClassRef":{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"default"},"requirements":[{"key":"karpenter.sh/nodepool","operator":"In","values":["default"]},
{"key":"node.kubernetes.io/instance-type","operator":"In","values":["c5.xlarge","c5a.xlarge","c6a.xlarge","c6i.xlarge","c7a.xlarge","c7i.xlarge","m5.xlarge","m6a.xlarge","m6i.xlarge","m7a.xlarge","r5.xlarge","r6a.xlarge","r6i.xlarge"]},
{"key":"karpenter.sh/capacity-type","operator":"In","values":["spot","on-demand"]},{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]},{"key":"kubernetes.io/os","operator":"In","values":["linux"]}],"resources":{"requests":{"cpu":"3150m","memory":"5Gi","pods":"6"}}},
"status":{"allocatable":{"cpu":"3920m","ephemeral-storage":"17Gi","memory":"6584Mi","pods":"58"},"capacity":{"cpu":"4","ephemeral-storage":"20Gi","memory":"7577Mi","pods":"58"},"conditions":[
{"lastTransitionTime":"2026-11-19T04:30:02Z","message":"","observedGeneration":1,"reason":"Launched","status":"True","type":"Launched"},{"lastTransitionTime":"2026-11-19T04:30:12Z","message":"","observedGeneration":1,"reason":"Registered","status":"True","type":"Registered"},
{"lastTransitionTime":"2026-11-19T04:30:12Z","message":"","observedGeneration":1,"reason":"Initialized","status":"True","type":"Initialized"},{"lastTransitionTime":"2026-11-19T04:30:12Z","message":"","observedGeneration":1,"reason":"Ready","status":"True","type":"Ready"}],
"imageID":"ami-0123456789abcdef0","nodeName":"ip-192-168-64-4.us-west-2.compute.internal","providerID":"aws:///us-west-2b/i-0123456789abcdef0"}}`, i, i)
}

func BenchmarkReview(b *testing.B) {
	var claims []string
	for i := range 1000 {
		claims = append(claims, listed(i))
	}
	body := review("karpenter.sh/v1beta1", claims...)
	h := newReviewer(nil)
	b.ReportAllocs()
	for b.Loop() {
		request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/convert/nodeclaims", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		to := newRecorder()
		if h.ServeHTTP(to, request); to.status != http.StatusOK || to.Len() < len(body)/2 {
			b.Fatal(to.status, to.String())
		}
	}
}
