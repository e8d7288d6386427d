package drain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	awscloud "karpenter/internal/cloud/aws"
	"karpenter/test/harness/simcloud"
)

// The same with the real provider and an AWS simulator whose instances take a while to end. Provider IDs may have been written in another
// form, by another version or another hand.
func TestL21_WithTheProvider(t *testing.T) {
	for seed, form := range []string{"aws:///", "Provider:///"} {
		t.Run(strings.Trim(form, ":/"), func(t *testing.T) {
			w := prepare(t)
			aws := simcloud.Start(t, simcloud.Options{Clock: w.clock, Cluster: w.name, Seed: uint64(seed + 1)})
			w.clouds, w.instanceID = aws.Provider, awscloud.ParseProviderID
			w.start()
			made := simcloud.NewClaim("made")
			made.UID, made.CreationTimestamp = types.UID(w.name), metav1.NewTime(w.clock.Now())
			result := aws.Provider.Launch(t.Context(), cloud.Batch{ID: w.name, Claims: []*karpv1.NodeClaim{made}})[0]
			if result.Err != nil {
				t.Fatal(result.Err)
			}
			id := form + strings.TrimPrefix(result.Instance.ProviderID, "aws:///")
			claim := w.claim("n", func(c *karpv1.NodeClaim) { c.Status.ProviderID = id })
			node := w.node("n", func(n *corev1.Node) { n.Spec.ProviderID = id })
			w.pod("web", node)
			w.clock.skip(time.Minute) // it boots
			w.delete(node)
			w.await("the pod's end", func() bool { return len(w.left()) == 1 })
			w.finish(node, claim)
			if living := aws.Living(); len(living) != 0 {
				t.Errorf("S8: living instances: %+v", living)
			}
			if got := aws.Called("TerminateInstances"); got != 1 {
				t.Errorf("TerminateInstances was called %d times", got)
			}
		})
	}
}

// TestT33_AnOldInstanceEndsWithItsNode: a node of an older version whose kubelet is silent takes its instance with it. The instance lacks
// the tags of today, which is no proof that it is gone.
func TestT33_AnOldInstanceEndsWithItsNode(t *testing.T) {
	w := prepare(t)
	aws := simcloud.Start(t, simcloud.Options{Clock: w.clock, Cluster: w.name, Seed: 33})
	w.clouds, w.instanceID = aws.Provider, awscloud.ParseProviderID
	w.start()
	made := simcloud.NewClaim("made")
	made.UID, made.CreationTimestamp = types.UID(w.name), metav1.NewTime(w.clock.Now())
	result := aws.Provider.Launch(t.Context(), cloud.Batch{ID: w.name, Claims: []*karpv1.NodeClaim{made}})[0]
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	id := result.Instance.ID
	found, err := aws.Clients.EC2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	off := &ec2.DeleteTagsInput{Resources: []string{id}}
	for _, tag := range found.Reservations[0].Instances[0].Tags {
		if *tag.Key != "karpenter.sh/nodepool" && !strings.HasPrefix(*tag.Key, "kubernetes.io/cluster/") {
			off.Tags = append(off.Tags, tag)
		}
	}
	if _, err := aws.Clients.EC2.DeleteTags(t.Context(), off); err != nil {
		t.Fatal(err)
	}
	claim := w.claim("n", func(c *karpv1.NodeClaim) { c.Status.ProviderID = result.Instance.ProviderID })
	node := w.node("n", func(n *corev1.Node) {
		n.Spec.ProviderID = result.Instance.ProviderID
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	})
	w.clock.skip(time.Minute)
	w.delete(claim)
	w.finish(node, claim)
	aws.Sim.Tick()
	found, err = aws.Clients.EC2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	if state := found.Reservations[0].Instances[0].State.Name; state != "terminated" {
		t.Errorf("S8: claim and node are gone, and the instance is %s", state)
	}
}
