package pool_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/aws"
	"karpenter/internal/control/pool"
	"karpenter/test/harness"
	"karpenter/test/harness/rig"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{}, func(c *harness.Cluster) { cluster = c }))
}

func newPool(name, class string) *karpv1.NodePool {
	return &karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: karpv1.NodePoolSpec{Template: karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: class},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{},
			ExpireAfter:  karpv1.NeverDuration(),
		}}},
	}
}

// run starts reconcilers for as long as the test takes.
func run(t *testing.T, register func(manager.Manager) error) {
	t.Helper()
	m := rig.Manager(t, cluster)
	if err := register(m); err != nil {
		t.Fatal(err)
	}
	rig.Run(t, m)
}

// awaitCondition returns when a condition of a pool is as wanted, and fails the test with the last one seen if that
// does not happen.
func awaitCondition(t *testing.T, pool, conditionType string, wanted func(karpv1.Condition) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	watcher, err := cluster.Client.Watch(ctx, &karpv1.NodePoolList{}, client.MatchingFields{"metadata.name": pool})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	var last karpv1.Condition
	for event := range watcher.ResultChan() {
		found, ok := event.Object.(*karpv1.NodePool)
		if !ok {
			continue
		}
		last = *found.StatusConditions().Get(conditionType)
		if wanted(last) {
			return
		}
	}
	t.Errorf("%s of pool %s is %+v", conditionType, pool, last)
}

func is(status metav1.ConditionStatus, reason, message string) func(karpv1.Condition) bool {
	return func(c karpv1.Condition) bool {
		return c.Status == status && c.Reason == reason && strings.Contains(c.Message, message)
	}
}

func TestA30_PoolsAreJudged(t *testing.T) {
	run(t, func(m manager.Manager) error {
		return (&pool.Ready{Client: m.GetClient(), Kind: aws.Kind(), NoStatic: true, Clock: clock.RealClock{}}).Register(m)
	})

	static := newPool("static", "absent")
	replicas := int64(3)
	static.Spec.Replicas = &replicas
	long := newPool("long-key", "absent")
	long.Spec.Template.Labels = map[string]string{"example.com/" + strings.Repeat("n", 64): "x"}
	for _, p := range []*karpv1.NodePool{static, long, newPool("good", "later")} {
		if err := cluster.Client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}

	// O63, A28: with the gate off nothing acts on static pools, and the pool says so.
	awaitCondition(t, "static", karpv1.ConditionValidationSucceeded, is(metav1.ConditionFalse, karpv1.ReasonStaticCapacityDisabled, "feature gate StaticCapacity is off"))
	awaitCondition(t, "static", karpv1.ConditionReady, is(metav1.ConditionFalse, karpv1.ReasonUnhealthyDependents, ""))
	// A81: accepted by the API server, refused here.
	awaitCondition(t, "long-key", karpv1.ConditionValidationSucceeded, is(metav1.ConditionFalse, karpv1.ReasonNodePoolValidationFailed, "spec.template.metadata.labels"))
	awaitCondition(t, "good", karpv1.ConditionValidationSucceeded, is(metav1.ConditionTrue, karpv1.ConditionValidationSucceeded, ""))
	awaitCondition(t, "good", karpv1.ConditionNodeClassReady, is(metav1.ConditionFalse, karpv1.ReasonNodeClassNotFound, `"later"`))

	class := &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "later"},
		Spec: awsv1.EC2NodeClassSpec{
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"a": "b"}}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: map[string]string{"a": "b"}}},
			AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			Role:                       "nodes",
		},
	}
	if err := cluster.Client.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	awaitCondition(t, "good", karpv1.ConditionNodeClassReady, is(metav1.ConditionUnknown, karpv1.ReasonNodeClassReadinessUnknown, `"later"`))

	class.Status.Conditions = []karpv1.Condition{{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now()}}
	if err := cluster.Client.Status().Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	awaitCondition(t, "good", karpv1.ConditionReady, is(metav1.ConditionTrue, karpv1.ConditionReady, ""))
}
