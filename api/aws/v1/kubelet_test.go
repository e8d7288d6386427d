package v1

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func kubelet(t testing.TB, text string) *KubeletConfiguration {
	t.Helper()
	k := &KubeletConfiguration{}
	if err := yaml.Unmarshal([]byte(text), k); err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKubelet_OtherFieldsAreKept(t *testing.T) {
	k := kubelet(t, `{maxPods: 20, registryPullQPS: 10, featureGates: {B: true, A: false}, shutdownGracePeriod: 30s, nothing: null}`)
	want := map[string]string{"registryPullQPS": "10", "featureGates": `{"A":false,"B":true}`, "shutdownGracePeriod": `"30s"`, "nothing": "null"}
	if diff := cmp.Diff(want, k.Extra); diff != "" {
		t.Error(diff)
	}
	data, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"featureGates":{"A":false,"B":true},"maxPods":20,"nothing":null,"registryPullQPS":10,"shutdownGracePeriod":"30s"}`; string(data) != want {
		t.Errorf("written as %s", data)
	}
	clone := k.DeepCopy()
	clone.Extra["registryPullQPS"] = "11"
	if k.Extra["registryPullQPS"] != "10" {
		t.Error("the copy shares its map")
	}
}

// TestKubelet_WhatCannotBeReadIsKept: one class with a mistyped field must not hide all others from a watch, and what reads and writes
// it, such as a finalizer, must not change what the user wrote.
func TestKubelet_WhatCannotBeReadIsKept(t *testing.T) {
	const text = `{"clusterDNS":"10.0.0.10","evictionSoftGracePeriod":{"memory.available":"5min"},"maxPods":20,"registryPullQPS":10,"systemReserved":{"cpu":1,"memory":"1Gi"}}`
	k := &KubeletConfiguration{}
	if err := json.Unmarshal([]byte(text), k); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"clusterDNS": `"10.0.0.10"`, "evictionSoftGracePeriod": `{"memory.available":"5min"}`, "systemReserved": `{"cpu":1,"memory":"1Gi"}`}
	if diff := cmp.Diff(want, k.Unreadable); diff != "" || *k.MaxPods != 20 || k.SystemReserved != nil || k.EvictionSoftGracePeriod != nil {
		t.Errorf("%+v\n%s", k, diff)
	}
	if data, err := json.Marshal(k.DeepCopy()); err != nil || string(data) != text {
		t.Errorf("written as %s, %v", data, err)
	}
	var list EC2NodeClassList
	if err := json.Unmarshal([]byte(`{"items":[{"spec":{"kubelet":`+text+`}},{"spec":{"role":"r"}}]}`), &list); err != nil || len(list.Items) != 2 {
		t.Errorf("%d classes, %v", len(list.Items), err)
	}
}

func TestKubelet_NamesDifferInCase(t *testing.T) {
	k := kubelet(t, `{maxpods: 20}`)
	if k.MaxPods != nil || k.Extra["maxpods"] != "20" {
		t.Errorf("%+v", k)
	}
}

func TestKubelet_ExtraCannotHideAField(t *testing.T) {
	if _, err := json.Marshal(KubeletConfiguration{Extra: map[string]string{"maxPods": "5"}}); err == nil {
		t.Error("written")
	}
}

// TestKubelet_HashCountsOtherFields holds that a changed field drifts nodes also when it has no place of its own, and that the
// order of its parts does not matter.
func TestKubelet_HashCountsOtherFields(t *testing.T) {
	hash := func(text string) string {
		return (&EC2NodeClass{Spec: EC2NodeClassSpec{Kubelet: kubelet(t, text)}}).Hash("")
	}
	if hash(`{maxPods: 20, registryPullQPS: 10}`) == hash(`{maxPods: 20, registryPullQPS: 11}`) {
		t.Error("registryPullQPS does not count")
	}
	if hash(`{featureGates: {A: true, B: true}}`) != hash(`{featureGates: {B: true, A: true}}`) {
		t.Error("order counts")
	}
}

func TestValidateKubelet(t *testing.T) {
	tests := []struct {
		name, alias, kubelet string
		reason, want         string
	}{
		{"nothing", "al2023@latest", `{}`, "", ""},
		{"known fields", "bottlerocket@latest", `{maxPods: 5, clusterDNS: [a, b], systemReserved: {cpu: 100m}, evictionHard: {memory.available: 5%}}`, "", ""},
		{"other fields with AL2023", "al2023@latest", `{registryPullQPS: 10}`, "", ""},
		{"other fields with AL2", "al2@latest", `{registryPullQPS: 10}`, ReasonUnsupportedKubeletConfiguration, "spec.kubelet.registryPullQPS"},
		{"other fields with Bottlerocket", "bottlerocket@latest", `{registryPullQPS: 10}`, ReasonUnsupportedKubeletConfiguration, "AMI family Bottlerocket cannot pass it on"},
		{"1.5 podsPerCore with Bottlerocket", "bottlerocket@latest", `{podsPerCore: 2}`, ReasonUnsupportedKubeletConfiguration, "spec.kubelet.podsPerCore: Forbidden: AMI family Bottlerocket cannot pass it on; use maxPods"},
		{"1.5 podsPerCore with AL2", "al2@latest", `{podsPerCore: 2}`, "", ""},
		{"other fields with Windows", "windows2022@latest", `{registryPullQPS: 10}`, ReasonUnsupportedKubeletConfiguration, "Windows2022"},
		{"registerWithTaints", "al2023@latest", `{registerWithTaints: []}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.registerWithTaints"},
		{"a negative maxPods", "al2023@latest", `{maxPods: -1}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.maxPods"},
		{"a reserved amount that is none", "al2023@latest", `{systemReserved: {cpu: lots}}`, ReasonKubeletExpressionsDisabled, "spec.kubelet.systemReserved[cpu]"},
		{"1.5 maxPods as an expression", "al2@latest", `{maxPods: "min(110, max_pods)"}`, ReasonKubeletExpressionsDisabled, "NodeClassCEL=true"},
		{"1.5 kubeReserved as an expression", "bottlerocket@latest", `{kubeReserved: {memory: 11 * max_pods + 255}}`, ReasonKubeletExpressionsDisabled, "spec.kubelet.kubeReserved[memory]"},
		{"a reserved amount below zero", "al2023@latest", `{kubeReserved: {memory: -1Gi}}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.kubeReserved[memory]"},
		{"a reserved amount of something else", "al2023@latest", `{kubeReserved: {gpu: "1"}}`, ReasonInvalidKubeletConfiguration, "supported values"},
		{"a threshold of 101%", "al2023@latest", `{evictionHard: {memory.available: 101%}}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.evictionHard[memory.available]"},
		{"a threshold that is none", "al2023@latest", `{evictionSoft: {memory.available: lots}}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.evictionSoft[memory.available]"},
		{"a threshold for something else", "al2023@latest", `{evictionHard: {x: 5%}}`, ReasonInvalidKubeletConfiguration, "supported values"},
		{"a negative grace period", "al2023@latest", `{evictionSoftGracePeriod: {memory.available: -1m}}`, ReasonInvalidKubeletConfiguration, "evictionSoftGracePeriod"},
		{"1.5 a field that no kubelet has", "al2023@latest", `{registryPullQps: 10}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.registryPullQps"},
		{"1.5 a field of another kind", "al2023@latest", `{registryPullQPS: fast}`, ReasonInvalidKubeletConfiguration, "must be a whole number"},
		{"1.5 a field of nothing", "al2023@latest", `{registryPullQPS: null}`, "", ""},
		{"1.5 fields of every kind", "al2023@latest", `{failSwapOn: false, podPidsLimit: 100, syncFrequency: 1m, tlsCipherSuites: [a], featureGates: {A: true}, memoryThrottlingFactor: 0.9}`, "", ""},
		{"1.5 fields of every shape", "al2023@latest", `{authentication: {x509: {clientCAFile: /ca}, webhook: {enabled: true, cacheTTL: 2m}}, logging: {format: json, flushFrequency: 5000000000, vmodule: [{filePattern: a, verbosity: 5}], options: {json: {infoBufferSize: "0"}}},
			memorySwap: {swapBehavior: LimitedSwap}, reservedMemory: [{numaNode: 0, limits: {memory: 1Gi, hugepages-2Mi: 0}}], shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 10}], staticPodURLHeader: {a: [b]}, tlsCurvePreferences: [29], qosReserved: {memory: 50%}}`, "", ""},
		{"1.5 a feature in quotes", "al2023@latest", `{featureGates: {X: "true"}}`, ReasonInvalidKubeletConfiguration, `spec.kubelet.featureGates[X]: Invalid value: "\"true\"": must be true or false`},
		{"1.5 half a file", "al2023@latest", `{containerLogMaxFiles: 2.5}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.containerLogMaxFiles"},
		{"1.5 more than 32 bits", "al2023@latest", `{eventBurst: 2147483648}`, ReasonInvalidKubeletConfiguration, "must be a whole number from -2147483648 to 2147483647"},
		{"1.5 a duration without a unit", "al2023@latest", `{shutdownGracePeriod: "30"}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.shutdownGracePeriod"},
		{"1.5 a number for a duration", "al2023@latest", `{shutdownGracePeriod: 30}`, ReasonInvalidKubeletConfiguration, "must be a duration"},
		{"1.5 a field within that no kubelet has", "al2023@latest", `{memorySwap: {swapBehaviour: LimitedSwap}}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.memorySwap.swapBehaviour"},
		{"1.5 a field deep within", "al2023@latest", `{logging: {vmodule: [{filePattern: a, verbosity: 5}, {verbosity: -1}]}}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.logging.vmodule[1].verbosity"},
		{"1.5 a number in a list of texts", "al2023@latest", `{tlsCipherSuites: [a, 5]}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.tlsCipherSuites[1]"},
		{"1.5 a number that is too large", "al2023@latest", `{podPidsLimit: 1e999}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.podPidsLimit"},
		{"a text for a list", "al2023@latest", `{clusterDNS: 10.0.0.10}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.clusterDNS: Invalid value: \"\\\"10.0.0.10\\\"\": must be a list of texts"},
		{"a number for an amount", "al2023@latest", `{systemReserved: {cpu: 1, memory: 100Mi}}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.systemReserved[cpu]"},
		{"a grace period that is none", "al2023@latest", `{evictionSoft: {memory.available: 5%}, evictionSoftGracePeriod: {memory.available: 5min}}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.evictionSoftGracePeriod[memory.available]"},
		{"an object for a number", "bottlerocket@latest", `{maxPods: {}}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.maxPods"},
		{"half a pod", "bottlerocket@latest", `{maxPods: 1.5}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.maxPods"},
		{"a text for true or false", "al2@latest", `{cpuCFSQuota: "yes"}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.cpuCFSQuota"},
		{"a soft limit without a grace period", "al2023@latest", `{evictionSoft: {memory.available: 5%}}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.evictionSoft[memory.available]"},
		{"a grace period without a soft limit", "al2023@latest", `{evictionSoftGracePeriod: {memory.available: 1m}}`, ReasonInvalidKubeletConfiguration, "needs an entry for the same signal in evictionSoft"},
		{"a grace period for something else", "al2023@latest", `{evictionSoft: {x: 5%}, evictionSoftGracePeriod: {x: 1m}}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.evictionSoftGracePeriod[x]: Unsupported value"},
		{"soft limits", "al2023@latest", `{evictionSoft: {memory.available: 5%}, evictionSoftGracePeriod: {memory.available: 1m}}`, "", ""},
		{"a disk fuller than full", "al2023@latest", `{imageGCHighThresholdPercent: 101}`, ReasonInvalidKubeletConfiguration, "must be from 0 to 100"},
		{"a disk emptier than empty", "al2023@latest", `{imageGCLowThresholdPercent: -1}`, ReasonInvalidKubeletConfiguration, "must be from 0 to 100"},
		{"image limits that cross", "al2023@latest", `{imageGCHighThresholdPercent: 80, imageGCLowThresholdPercent: 80}`, ReasonInvalidKubeletConfiguration, "must be below imageGCHighThresholdPercent, which is 80"},
		{"a negative podsPerCore", "al2023@latest", `{podsPerCore: -1}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.podsPerCore"},
		{"a negative evictionMaxPodGracePeriod", "al2023@latest", `{evictionMaxPodGracePeriod: -1}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.evictionMaxPodGracePeriod"},
		{"minimum reclaim", "al2023@latest", `{evictionMinimumReclaim: {memory.available: 500Mi}}`, "", ""},
		{"minimum reclaim that is none", "al2023@latest", `{evictionMinimumReclaim: {memory.available: lots}}`, ReasonInvalidKubeletConfiguration, "spec.kubelet.evictionMinimumReclaim[memory.available]"},
		{"minimum reclaim that is a list", "al2023@latest", `{evictionMinimumReclaim: [5]}`, ReasonInvalidKubeletConfiguration, "must be an object"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := &EC2NodeClass{Spec: EC2NodeClassSpec{AMISelectorTerms: []AMISelectorTerm{{Alias: test.alias}}, Kubelet: kubelet(t, test.kubelet)}}
			reason, problems := c.ValidateKubelet(false)
			text := ""
			if len(problems) > 0 {
				text = problems.ToAggregate().Error()
			}
			if reason != test.reason || (text == "") != (test.want == "") || !strings.Contains(text, test.want) {
				t.Errorf("%s %q, want %s %q", reason, text, test.reason, test.want)
			}
		})
	}
	if reason, problems := (&EC2NodeClass{}).ValidateKubelet(false); reason != "" || problems != nil {
		t.Error(reason, problems)
	}
}

// TestAWS_1_5_Expressions: a text in maxPods and a reserved amount that is no quantity are expressions, which survive being
// read and written and count for drift; a class with plain values has none.
func TestAWS_1_5_Expressions(t *testing.T) {
	k := kubelet(t, `{maxPods: "min(110, max_pods)", systemReserved: {memory: 100Mi, cpu: vcpus * 10}, kubeReserved: {pid: "1000", memory: 11 * max_pods + 255}}`)
	want := []KubeletExpression{{"maxPods", "", "min(110, max_pods)"}, {"kubeReserved", "memory", "11 * max_pods + 255"}, {"systemReserved", "cpu", "vcpus * 10"}}
	if diff := cmp.Diff(want, k.Expressions()); diff != "" {
		t.Error(diff)
	}
	data, err := json.Marshal(k)
	if err != nil || !strings.Contains(string(data), `"maxPods":"min(110, max_pods)"`) {
		t.Errorf("written as %s, %v", data, err)
	}
	c := &EC2NodeClass{Spec: EC2NodeClassSpec{AMISelectorTerms: []AMISelectorTerm{{Alias: "al2023@latest"}}, Kubelet: k}}
	if reason, problems := c.ValidateKubelet(true); reason != "" {
		t.Error(reason, problems)
	}
	other := c.DeepCopy()
	other.Spec.Kubelet.MaxPodsExpression = "min(111, max_pods)"
	if c.Hash("") == other.Hash("") {
		t.Error("a changed expression does not drift")
	}
	if got := kubelet(t, `{maxPods: 20, kubeReserved: {cpu: 100m}}`).Expressions(); got != nil {
		t.Error(got)
	}
	if _, err := json.Marshal(KubeletConfiguration{MaxPods: new(int32), MaxPodsExpression: "1"}); err == nil {
		t.Error("a number and an expression at once are written")
	}
}

func FuzzKubelet(f *testing.F) {
	for _, text := range []string{
		`{"maxPods":"vcpus * 2"}`, `{"maxPods":""}`, `{"maxPods":1e3}`, `{"kubeReserved":{"cpu":"vcpus"}}`,
		`{}`, `null`, `{"maxPods":5,"x":[1,2.5,{"b":null,"a":"c"}]}`, `{"systemReserved":{"cpu":"1e-999999999"}}`,
		`{"evictionSoftGracePeriod":{"memory.available":"1m"}}`, `{"evictionHard":{"memory.available":"%"}}`, `{"evictionMinimumReclaim":5}`,
		`{"clusterDNS":"10.0.0.10","podsPerCore":"x","cpuCFSQuota":1}`, `{"systemReserved":{"cpu":1}}`, `{"evictionSoftGracePeriod":{"memory.available":"5min"}}`, `{"maxPods":{},"x":1e999}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k := &KubeletConfiguration{}
		if err := json.Unmarshal([]byte(text), k); err != nil {
			var object map[string]json.RawMessage
			if json.Unmarshal([]byte(text), &object) == nil {
				t.Fatalf("%q is an object and cannot be read, which hides all classes: %v", text, err)
			}
			return
		}
		data, err := json.Marshal(k)
		if err != nil {
			t.Fatalf("%q is read and cannot be written: %v", text, err)
		}
		again := &KubeletConfiguration{}
		if err := json.Unmarshal(data, again); err != nil {
			t.Fatalf("%q is written as %s and cannot be read: %v", text, data, err)
		}
		if twice, err := json.Marshal(again); err != nil || string(twice) != string(data) {
			t.Fatalf("%q is written as %s and then as %s (%v)", text, data, twice, err)
		}
		c := &EC2NodeClass{Spec: EC2NodeClassSpec{Kubelet: k}}
		c.Hash("")
		c.ValidateKubelet(false)
		c.ValidateKubelet(true)
	})
}
