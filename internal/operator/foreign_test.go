package operator_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/test/harness/rig"
	"karpenter/test/harness/sdk"
	"karpenter/test/harness/simcloud"
)

// emptyPool has no reason to keep an empty node for a moment.
func emptyPool(name string, ref karpv1.NodeClassReference) *karpv1.NodePool {
	p := newPool(name)
	p.Spec.Limits = nil
	p.Spec.Template.Spec.NodeClassRef = &ref
	p.Spec.Disruption = karpv1.Disruption{
		ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized, ConsolidateAfter: karpv1.NewNillableDuration(0), Budgets: []karpv1.Budget{{Nodes: "100%"}},
	}
	return p
}

// joined is a claim of the pool with its node, in use for an hour and empty. The API server must have the pool.
func joined(t *testing.T, name string, pool *karpv1.NodePool, providerID string) (*karpv1.NodeClaim, *corev1.Node) {
	t.Helper()
	node := newNode(name, pool.Name)
	node.Spec.ProviderID = providerID
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	node.Labels[karpv1.NodeRegisteredLabelKey] = "true"
	node.Labels[karpv1.CapacityTypeLabelKey] = karpv1.CapacityTypeOnDemand
	node.Labels[karpv1.NodeClassLabelKey(*pool.Spec.Template.Spec.NodeClassRef)] = pool.Spec.Template.Spec.NodeClassRef.Name
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(node.Labels)},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: pool.Spec.Template.Spec.NodeClassRef, Requirements: []karpv1.NodeSelectorRequirementWithMinValues{}, ExpireAfter: karpv1.NeverDuration(),
		},
	}
	create(t, node, claim)
	claim.Status = karpv1.NodeClaimStatus{ProviderID: providerID, NodeName: name, Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable}
	for _, kind := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized} {
		claim.StatusConditions().SetTrue(kind, time.Now().Add(-time.Hour))
	}
	if err := cluster.Client.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	return claim, node
}

// L20: beside a provider whose class has the name of ours, our own nodes are made and ended, and its are left alone: no claim is made
// in its pools, no empty node of its is removed, and no taint is taken off one that it is removing.
func TestL20_TwoAutoscalersInOneCluster(t *testing.T) {
	create(t, simcloud.NewClass("default", "test"))
	ours := emptyPool("ours", karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: "default"})
	theirs := emptyPool("theirs", karpv1.NodeClassReference{Group: "karpenter.example.com", Kind: "OtherNodeClass", Name: "default"})
	theirs.Spec.Weight = new(int32(100))
	ours.Spec.Template.Spec.Requirements = append(ours.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
		Key: awsv1.LabelInstanceFamily, Operator: corev1.NodeSelectorOpIn, Values: []string{"c5"},
	})
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "default"}} // pods need it
	if err := cluster.Client.Create(t.Context(), account); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	create(t, ours, theirs)
	empty, _ := joined(t, "ours-empty", ours, "aws:///us-west-2a/i-0a")
	foreignEmpty, foreignEmptyNode := joined(t, "theirs-empty", theirs, "other:///theirs-empty")
	foreignGoing, foreignGoingNode := joined(t, "theirs-going", theirs, "other:///theirs-going")
	foreignGoingNode.Spec.Taints = append(foreignGoingNode.Spec.Taints, karpv1.DisruptedTaint())
	if err := cluster.Client.Update(t.Context(), foreignGoingNode); err != nil {
		t.Fatal(err)
	}
	foreign := []client.Object{theirs, foreignEmpty, foreignEmptyNode, foreignGoing, foreignGoingNode}
	versions := map[client.Object]string{}
	for _, o := range foreign {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		versions[o] = o.GetResourceVersion()
	}
	t.Cleanup(func() {
		rig.Sweep(t, cluster.Client, &corev1.PodList{}, &karpv1.NodePoolList{}, &karpv1.NodeClaimList{}, &corev1.NodeList{}, &awsv1.EC2NodeClassList{})
	})

	url, tried := newObservedAWS(t)
	_, err := iam.NewFromConfig(sdk.Config("us-west-2", url, "AKIATEST")).CreateRole(t.Context(), &iam.CreateRoleInput{
		RoleName: aws.String(simcloud.Role), AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	c := startChild(t, []string{"AWS_ENDPOINT_URL=" + url, "DISABLE_LEADER_ELECTION=true", "BATCH_IDLE_DURATION=100ms"})
	t.Cleanup(c.stop)
	made := func() (names []string) {
		list := &karpv1.NodeClaimList{}
		if err := cluster.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if pool := list.Items[i].Labels[karpv1.NodePoolLabelKey]; !slices.Contains([]string{empty.Name, foreignEmpty.Name, foreignGoing.Name}, list.Items[i].Name) {
				names = append(names, pool)
			}
		}
		return names
	}
	// Once our own empty node goes and our own pool grows, everything has been looked at.
	await(t, "the end of our empty node", func() string {
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(empty), empty)
		if err == nil && empty.DeletionTimestamp.IsZero() {
			return fmt.Sprintf("it stays: %+v", empty.Status.Conditions)
		}
		return ""
	})
	pod := newPod("big", "")
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("6")
	pod.Spec.Containers[0].Resources.Limits = nil
	create(t, pod)
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.Now(),
	}}
	if err := cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	await(t, "a claim for the pod", func() string {
		if len(made()) == 0 {
			return "there is none"
		}
		return ""
	})
	// O53: who said it, about what, and in which round.
	if keys := c.message("created nodeclaim"); keys["controller"] != "provisioner" {
		t.Errorf("the controller of a line is %v: %v", keys["controller"], keys)
	}
	if keys := c.message("launched nodeclaim"); keys["controller"] != "nodeclaim.lifecycle" || keys["name"] == nil || keys["reconcileID"] == nil {
		t.Errorf("a line of a reconciler lacks controller, name or id: %v", keys)
	}
	c.show( // O29, O31: by everybody who plans
		`karpenter_scheduler_scheduling_duration_seconds_count{controller="provisioner"} .*`, `karpenter_scheduler_scheduling_duration_seconds_count{controller="disruption"} .*`,
		`karpenter_scheduler_unschedulable_pods_count{controller="disruption"} .*`, `karpenter_voluntary_disruption_consolidation_timeouts_total{consolidation_type="multi"} 0`,
	)
	if types := tried(); len(types) == 0 || slices.ContainsFunc(types, func(name string) bool { return !strings.HasPrefix(name, "c5.") }) {
		t.Errorf("the class was tried with %v, want types that its pool allows", types)
	}
	if got := made(); !slices.Equal(got, []string{"ours"}) {
		t.Errorf("claims were made in the pools %v, want one in ours", got)
	}
	for _, o := range foreign {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || o.GetResourceVersion() != versions[o] {
			t.Errorf("%T %s was written: %v %v", o, o.GetName(), o, err)
		}
	}
}

// await waits until nothing is wrong any more.
func await(t *testing.T, what string, wrong func() string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text := wrong()
		if text == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: %s", what, text)
		}
	}
}
