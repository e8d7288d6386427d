package userdata

import (
	"errors"
	"testing"
	"time"
)

// basic is an instance of a cluster with nothing asked for beyond what a launch always knows.
func basic() Options {
	return Options{
		ClusterName: "test-cluster",
		Endpoint:    "https://example.eks.amazonaws.com",
		CABundle:    "Y2EtYnVuZGxlCg==",
		ServiceCIDR: "10.100.0.0/16",
		Labels: map[string]string{
			"karpenter.sh/nodepool":         "default",
			"karpenter.sh/capacity-type":    "spot",
			"karpenter.k8s.aws/instance-id": "x",
			"topology.kubernetes.io/zone":   "us-west-2a",
		},
		Taints:  []Taint{{Key: "dedicated", Value: "batch", Effect: "NoSchedule"}},
		Kubelet: Kubelet{ClusterDNS: []string{"10.100.0.10"}, MaxPods: ptr[int32](58)},
	}
}

// withKubelet sets all fields of spec.kubelet that every family but Bottlerocket can carry.
func withKubelet(o Options) Options {
	o.Kubelet = Kubelet{
		ClusterDNS:                  []string{"10.100.0.10"},
		MaxPods:                     ptr[int32](42),
		PodsPerCore:                 ptr[int32](4),
		SystemReserved:              map[string]string{"memory": "100Mi", "cpu": "100m", "ephemeral-storage": "1Gi"},
		KubeReserved:                map[string]string{"pid": "100", "cpu": "200m"},
		EvictionHard:                map[string]string{"nodefs.available": "10%", "memory.available": "5%"},
		EvictionSoft:                map[string]string{"memory.available": "500Mi"},
		EvictionSoftGracePeriod:     map[string]time.Duration{"memory.available": 90 * time.Second},
		EvictionMaxPodGracePeriod:   ptr[int32](60),
		ImageGCHighThresholdPercent: ptr[int32](85),
		ImageGCLowThresholdPercent:  ptr[int32](80),
		CPUCFSQuota:                 ptr(false),
	}
	return o
}

// withBottlerocketKubelet sets all fields that Bottlerocket can carry.
func withBottlerocketKubelet(o Options) Options {
	o = withKubelet(o)
	o.Kubelet.PodsPerCore = nil
	delete(o.Kubelet.KubeReserved, "pid")
	return o
}

func with(o Options, change func(*Options)) Options {
	change(&o)
	return o
}

func withUserData(text string) Options {
	return with(basic(), func(o *Options) { o.UserData = text })
}

func ptr[T any](v T) *T { return &v }

func mustRender(t testing.TB, family Family, o Options) string {
	t.Helper()
	doc, err := Render(family, o)
	if err != nil {
		t.Fatalf("Render(%s): %v", family, err)
	}
	return doc.Text
}

// wantInputError checks field and line, and that the error says what is wrong and what would be right.
func wantInputError(t *testing.T, err error, field string, line int) {
	t.Helper()
	var input *InputError
	if !errors.As(err, &input) {
		t.Fatalf("error is %v, want an InputError about %s", err, field)
	}
	if input.Field != field || input.Line != line {
		t.Errorf("error is about %s line %d, want %s line %d: %v", input.Field, input.Line, field, line, err)
	}
	if input.Wrong == "" || input.Cure == "" {
		t.Errorf("error does not say what is wrong and what would be right: %+v", input)
	}
}

const userArchive = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo "Running custom user data script"

--BOUNDARY--`

const userNodeConfig = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config:
      maxPods: 42
    flags:
    - --v=4
`
