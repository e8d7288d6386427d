package aws

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/api/convert"
	"karpenter/cloud"
)

// userDataOf is what an instance was booted with.
func (w *testWorld) userDataOf(id string) string {
	w.t.Helper()
	out, err := w.admin.EC2.DescribeInstanceAttribute(w.ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: aws.String(id), Attribute: "userData"})
	w.must(err)
	text, err := base64.StdEncoding.DecodeString(aws.ToString(out.UserData.Value))
	w.must(err)
	return string(text)
}

// TestA68_KubeletSettingsOfAPool: what v1beta1 had on pools stays in force for their claims, over what the class says.
func TestA68_KubeletSettingsOfAPool(t *testing.T) {
	w := newWorld(t)
	class := w.load(func(c *awsv1.EC2NodeClass) { c.Spec.Kubelet = &awsv1.KubeletConfiguration{MaxPods: aws.Int32(50)} })
	b := w.batch("old", 1, onDemandOnly, typeIs("m5.large"))
	b.Claims[0].Annotations[convert.KubeletAnnotation] = `{"maxPods":17,"systemReserved":{"cpu":"500m"},"containerRuntime":"containerd"}`
	r := w.Launch(w.ctx, b)[0]
	w.must(r.Err)
	if pods, cpu := r.Instance.Capacity.Pods().Value(), r.Instance.Allocatable.Cpu().MilliValue(); pods != 17 || cpu != 1430 {
		t.Errorf("%d pods and %dm cpu, want 17 and 1430m", pods, cpu)
	}
	if got := r.Instance.Annotations[awsv1.EC2NodeClassHashAnnotationKey]; got != class.Hash(w.opt.Cluster.CABundle) {
		t.Error("the hash must be the class's own, or the node would drift")
	}
	text := w.userDataOf(r.Instance.ID)
	if !strings.Contains(text, "maxPods: 17") || strings.Contains(text, "containerRuntime") {
		t.Errorf("user data:\n%s", text)
	}
	plain := w.one("new", onDemandOnly, typeIs("m5.large"))
	if pods := plain.Capacity.Pods().Value(); pods != 50 {
		t.Errorf("claims without settings of their own: %d pods, want the class's 50", pods)
	}
	list, err := w.TypesWith("default", b.Claims[0].Annotations[convert.KubeletAnnotation])
	w.must(err)
	again, err := w.TypesWith("default", b.Claims[0].Annotations[convert.KubeletAnnotation])
	w.must(err)
	if list != again || list.List[0].Capacity[2] != 17 {
		t.Errorf("types with the settings: the same value %v, %d pods", list == again, list.List[0].Capacity[2])
	}
	w.Forget("default")
}

func TestA68_KubeletSettingsThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.load()
	for _, text := range []string{"{", `{"maxPods":"many"}`, `{"kubeReserved":{"cpu":"lots"}}`} {
		b := w.batch("bad", 1, onDemandOnly, typeIs("m5.large"))
		b.Claims[0].Annotations[convert.KubeletAnnotation] = text
		r := w.Launch(w.ctx, b)[0]
		if cloud.ClassOf(r.Err) != cloud.Invalid || !strings.Contains(r.Err.Error(), convert.KubeletAnnotation) {
			t.Errorf("%s: got %v, want Invalid with the annotation's name", text, r.Err)
		}
	}
	if n := len(w.living()); n != 0 {
		t.Errorf("%d instances were launched", n)
	}
}
