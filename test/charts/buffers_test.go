package charts

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	"karpenter/test/harness/program"
)

// workloads are one object of every kind that buffers may name, without pods, and a kind that is like them.
const workloads = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crowds.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: crowds, singular: crowd, kind: Crowd, listKind: CrowdList}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
      subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: idle, namespace: default}
template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: idle, namespace: default}
spec: {replicas: 0, selector: {app: idle}, template: {metadata: {labels: {app: idle}}, spec: {containers: [{name: c, image: i}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: idle, namespace: default}
spec: {replicas: 0, selector: {matchLabels: {app: idle}}, template: {metadata: {labels: {app: idle}}, spec: {containers: [{name: c, image: i}]}}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: idle, namespace: default}
spec: {replicas: 0, selector: {matchLabels: {app: idle}}, template: {metadata: {labels: {app: idle}}, spec: {containers: [{name: c, image: i}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: idle, namespace: default}
spec: {replicas: 0, serviceName: idle, selector: {matchLabels: {app: idle}}, template: {metadata: {labels: {app: idle}}, spec: {containers: [{name: c, image: i}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: idle, namespace: default}
spec: {parallelism: 0, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
`

// buffers has a buffer of no spare pods for every kind of workload: the controller reads and watches each, and says what it has found.
func (s *site) buffers(t *testing.T) {
	t.Helper()
	if out, err := s.Kubectl(t.Context(), workloads, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := s.Kubectl(t.Context(), "", "wait", "--for=condition=Established", "--timeout=60s", "crd/crowds.example.com"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for kind, group := range map[string]string{"PodTemplate": "", "ReplicationController": "", "Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps", "Job": "batch", "Crowd": "example.com"} {
		b := &bufferv1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, GenerateName: "idle-"}, Spec: bufferv1.CapacityBufferSpec{Replicas: new(int32(0))}}
		if kind == "PodTemplate" {
			b.Spec.PodTemplateRef = &bufferv1.LocalObjectRef{Name: "idle"}
		} else {
			b.Spec.ScalableRef = &bufferv1.ScalableRef{APIGroup: group, Kind: kind, Name: "idle"}
		}
		if err := s.Client.Create(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		program.Until(t, fmt.Sprintf("the buffer of kind %s is resolved", kind), func() bool {
			if s.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b) != nil {
				return false
			}
			for _, c := range b.Status.Conditions {
				if c.Type == bufferv1.ConditionReadyForProvisioning {
					return (c.Status == metav1.ConditionTrue) == (kind != "Crowd") // of that there is none yet
				}
			}
			return false
		})
	}
}
