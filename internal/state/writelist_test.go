package state

import (
	"bytes"
	"strings"
	"testing"

	"karpenter/internal/state/dump"
)

// secrets has everything that must not be written down, marked with the word hidden.
const secrets = `{"kind":"List","items":[
	{"kind":"Pod","metadata":{"name":"web","namespace":"a","uid":"1","labels":{"app":"web"},"annotations":{"example.com/token":"hidden","karpenter.sh/do-not-disrupt":"true",
	 "kubectl.kubernetes.io/last-applied-configuration":"hidden"}},
	 "spec":{"nodeName":"n1","serviceAccountName":"hidden","imagePullSecrets":[{"name":"hidden"}],
	 "containers":[{"name":"c","image":"hidden","command":["hidden"],"args":["hidden"],"env":[{"name":"PASSWORD","value":"hidden"}],
	 "envFrom":[{"secretRef":{"name":"hidden"}}],"resources":{"requests":{"cpu":"1"}}}],
	 "volumes":[{"name":"v","secret":{"secretName":"hidden"}},{"name":"w","persistentVolumeClaim":{"claimName":"data"}}]},
	 "status":{"phase":"Running","message":"hidden","podIP":"hidden","containerStatuses":[{"name":"c","image":"hidden","imageID":"hidden","state":{"terminated":{"message":"hidden","exitCode":1}}}]}},
	{"kind":"Pod","metadata":{"name":"gated","namespace":"a","uid":"2"},"spec":{"schedulingGates":[{"name":"example.com/wait"}],"containers":[{"name":"c","env":[{"name":"P","value":"hidden"}]}]},
	 "status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"SchedulingGated"}]}},
	{"kind":"Node","metadata":{"name":"n1","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hidden"}},"status":{"images":[{"names":["hidden"]}],"allocatable":{"cpu":"2"}}},
	{"kind":"DaemonSet","metadata":{"name":"d","namespace":"a"},"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"P","value":"hidden"}],"command":["hidden"]}]}}}},
	{"kind":"PersistentVolume","metadata":{"name":"v"},"spec":{"csi":{"driver":"ebs.csi.aws.com","volumeHandle":"vol-1","volumeAttributes":{"password":"hidden"},
	 "nodeStageSecretRef":{"name":"hidden"}}}},
	{"kind":"StorageClass","metadata":{"name":"s"},"provisioner":"ebs.csi.aws.com","parameters":{"password":"hidden"}}]}`

func TestWhatNobodyReadsIsNotWritten(t *testing.T) {
	objects, problems, err := dump.Read([]byte(secrets))
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	v, _ := BuildView(objects, &dump.Catalog{}, Options{}, epoch)
	if len(v.Idle()) != 1 || v.Idle()[0].Name != "gated" {
		t.Errorf("pods that take no part: %v", v.Idle())
	}
	var b bytes.Buffer
	if err := v.Objects().Write(&b); err != nil {
		t.Fatal(err)
	}
	if at := strings.Index(b.String(), "hidden"); at >= 0 {
		t.Errorf("it is written down: … %s …", b.String()[max(0, at-100):at+20])
	}
	for _, want := range []string{`"name":"web"`, `"app":"web"`, `karpenter.sh/do-not-disrupt`, `"claimName":"data"`, `"ebs.csi.aws.com"`, `"nodeName":"n1"`, `example.com/wait`, `"kind":"DaemonSet"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s is missing in\n%s", want, b.String())
		}
	}
	again, problems, err := dump.Read(b.Bytes())
	if err != nil || len(problems) > 0 || len(again.Pods) != 2 || again.Pods[1].Spec.NodeName != "n1" {
		t.Errorf("read back: %v %v", err, problems)
	}
}

func TestPodsOfOneTemplateShareTheirSpec(t *testing.T) {
	const item = `{"kind":"Pod","metadata":{"name":"NAME","namespace":"a","uid":"NAME"},"spec":{"nodeName":"NODE","containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Running"}}`
	var list []string
	for _, name := range []string{"p1", "p2", "p3"} {
		list = append(list, strings.NewReplacer("NAME", name, "NODE", "node-of-"+name).Replace(item))
	}
	objects, problems, err := dump.Read([]byte(`{"items":[` + strings.Join(list, ",") + `]}`))
	if err != nil || len(problems) > 0 || len(objects.Pods) != 3 {
		t.Fatal(err, problems)
	}
	for _, p := range objects.Pods {
		if p.Spec.NodeName != "node-of-"+p.Name || &p.Spec.Containers[0] != &objects.Pods[0].Spec.Containers[0] {
			t.Errorf("pod %s is on %s, with a spec of its own", p.Name, p.Spec.NodeName)
		}
	}
}
