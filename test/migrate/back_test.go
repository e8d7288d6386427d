package migrate

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
)

// The rules by which upstream Karpenter judges what it finds are written down here once more, each from its documentation and by its ID, and
// apart from the code of this controller.

func instanceID(c *karpv1.NodeClaim) string {
	return c.Status.ProviderID[strings.LastIndexByte(c.Status.ProviderID, '/')+1:]
}

// stamped is a hash and its version, on an object or the claims made from it.
type stamped struct{ hash, version string }

func classStamp(annotations map[string]string) stamped {
	return stamped{annotations[awsv1.EC2NodeClassHashAnnotationKey], annotations[awsv1.EC2NodeClassHashVersionAnnotationKey]}
}

func poolStamp(annotations map[string]string) stamped {
	return stamped{annotations[karpv1.NodePoolHashAnnotationKey], annotations[karpv1.NodePoolHashVersionAnnotationKey]}
}

// drifts is D44 and D49: other hashes of the same version are drift; another version, or none, is not.
func drifts(is, claim stamped) bool {
	there := is.hash != "" && is.version != "" && claim.hash != "" && claim.version != ""
	return there && is.version == claim.version && is.hash != claim.hash
}

// renews is A61: where the object has another version than the release, its claims get hash and version of the release; one that has drifted
// keeps its hash.
func renews(is, mine, claim stamped, drifted bool) stamped {
	switch {
	case is.version == mine.version:
		return claim
	case drifted:
		return stamped{claim.hash, mine.version}
	}
	return mine
}

// back hands the cluster to a release: nothing that it finds may make it replace a node, at no moment until it has renewed what it renews.
// That is written, too, so that it can be taken over from it again.
func (s *site) back(t *testing.T, r release) {
	ctx := t.Context()
	pool, class := &karpv1.NodePool{}, &awsv1.EC2NodeClass{}
	for _, o := range []client.Object{pool, class} {
		if err := s.Client.Get(ctx, client.ObjectKey{Name: "default"}, o); err != nil {
			t.Fatal(err)
		}
	}
	checkFinalizers(t, pool)
	checkFinalizers(t, class, awsv1.TerminationFinalizer)
	if pool.StatusConditions().Root().Status != metav1.ConditionTrue || class.StatusConditions(true).Root().Status != metav1.ConditionTrue {
		t.Errorf("pool: %+v, class: %+v", pool.Status.Conditions, class.Status.Conditions)
	}
	mine := stamped{r.classHash(class), r.classVersion}
	listed := s.listed(t)
	claims := s.claims()
	for i := range claims {
		c := &claims[i]
		drifted := c.StatusConditions().Get(karpv1.ConditionDrifted) != nil
		was, now := classStamp(class.Annotations), classStamp(c.Annotations)
		renewed := renews(was, mine, now, drifted)
		// Hashes are renewed one after the other, and drift is judged in between: before, with the claim renewed, with the class renewed, after.
		for _, pair := range [][2]stamped{{was, now}, {was, renewed}, {mine, now}, {mine, renewed}} {
			if drifts(pair[0], pair[1]) {
				t.Errorf("A61 D44 D49: claim %s drifts: class %v, claim %v", c.Name, pair[0], pair[1])
			}
		}
		if renewed != mine || drifts(poolStamp(pool.Annotations), poolStamp(c.Annotations)) || poolStamp(pool.Annotations) != (stamped{pool.Hash(), "v3"}) || poolStamp(c.Annotations).version != "v3" {
			t.Errorf("A60 A61: claim %s has %v and %v, pool %v", c.Name, renewed, poolStamp(c.Annotations), poolStamp(pool.Annotations))
		}
		s.checkClaim(t, c, pool)
		in, found := listed[instanceID(c)]
		if !found {
			t.Errorf("L15: claim %s has no instance that upstream lists", c.Name)
			continue
		}
		delete(listed, instanceID(c))
		checkProvider(t, c, class, in)
		if err := restamp(ctx, s.Client, c, renewed); err != nil {
			t.Fatal(err)
		}
	}
	for id := range listed {
		t.Errorf("instance %s has no claim: upstream's garbage collection would end it", id)
	}
	if err := restamp(ctx, s.Client, class, mine); err != nil {
		t.Fatal(err)
	}
}

// listed are the instances that upstream Karpenter takes for its own, by the tags that its list asks for.
func (s *site) listed(t *testing.T) map[string]ec2types.Instance {
	t.Helper()
	out, err := s.Clients.EC2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: aws.String("tag-key"), Values: []string{"karpenter.sh/nodepool"}},
		{Name: aws.String("tag-key"), Values: []string{"karpenter.k8s.aws/ec2nodeclass"}},
		{Name: aws.String("tag:eks:eks-cluster-name"), Values: []string{"my-cluster"}},
		{Name: aws.String("instance-state-name"), Values: []string{"pending", "running", "stopping", "stopped", "shutting-down"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]ec2types.Instance{}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			found[aws.ToString(i.InstanceId)] = i
		}
	}
	return found
}

// checkClaim holds a claim and its node against the rules by which claims are deleted or disrupted.
func (s *site) checkClaim(t *testing.T, c *karpv1.NodeClaim, pool *karpv1.NodePool) {
	t.Helper()
	checkFinalizers(t, c, karpv1.TerminationFinalizer)
	set := c.StatusConditions()
	for _, condition := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized} {
		if !set.IsTrue(condition) {
			t.Errorf("L13: claim %s: %s is not True: %+v", c.Name, condition, set.Get(condition))
		}
	}
	for _, condition := range []string{karpv1.ConditionDrifted, karpv1.ConditionDisruptionReason, karpv1.ConditionRebooting} {
		if set.IsTrue(condition) {
			t.Errorf("A39 N7: claim %s: %+v", c.Name, set.Get(condition))
		}
	}
	for _, key := range []string{karpv1.TerminationTimestampAnnotationKey, karpv1.RebootPreBootIDAnnotationKey, karpv1.RebootGraceAnnotationKey} {
		if value, has := c.Annotations[key]; has {
			t.Errorf("A56 N7: claim %s has %s=%s", c.Name, key, value)
		}
	}
	for _, r := range pool.Spec.Template.Spec.Requirements {
		if r.Operator != "In" || !slices.Contains(r.Values, c.Labels[r.Key]) {
			t.Errorf("D45: claim %s has %s=%s, the pool asks for %s %v", c.Name, r.Key, c.Labels[r.Key], r.Operator, r.Values)
		}
	}
	for key, want := range map[string]string{
		corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: strings.Split(c.Status.ProviderID, "/")[3], karpv1.CapacityTypeLabelKey: "on-demand", // D46
		karpv1.NodePoolLabelKey: "default", "karpenter.k8s.aws/ec2nodeclass": "default", // L18, L20
	} {
		if c.Labels[key] != want {
			t.Errorf("D46 L18 L20: claim %s has %s=%q, want %s", c.Name, key, c.Labels[key], want)
		}
	}
	if o := metav1.GetControllerOf(c); len(c.OwnerReferences) != 1 || c.OwnerReferences[0].UID != pool.UID || o != nil && o.UID != pool.UID {
		t.Errorf("A41: claim %s has the owners %v", c.Name, c.OwnerReferences)
	}
	node := &corev1.Node{}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: c.Status.NodeName}, node); err != nil {
		t.Error(err)
		return
	}
	checkFinalizers(t, node, karpv1.TerminationFinalizer)
	for _, key := range []string{karpv1.NodeRegisteredLabelKey, karpv1.NodeInitializedLabelKey} {
		if node.Labels[key] != "true" {
			t.Errorf("A55: node %s has no label %s", node.Name, key)
		}
	}
	for _, taint := range node.Spec.Taints {
		if strings.HasPrefix(taint.Key, karpv1.Group) || taint.Key == "example.com/agent" {
			t.Errorf("A58 L8: node %s has the taint %s", node.Name, taint.Key)
		}
	}
	if len(node.OwnerReferences) != 1 || node.OwnerReferences[0].UID != c.UID || node.Spec.ProviderID != c.Status.ProviderID || node.Labels["karpenter.k8s.aws/ec2nodeclass"] != "default" {
		t.Errorf("L6 L7 L18: node %s has the owners %v and provider ID %s", node.Name, node.OwnerReferences, node.Spec.ProviderID)
	}
}

// checkProvider is drift as the AWS provider judges it after the hash: image, security groups, subnet, reservation and placement group, in
// that order.
func checkProvider(t *testing.T, c *karpv1.NodeClaim, class *awsv1.EC2NodeClass, in ec2types.Instance) {
	t.Helper()
	image := func(a awsv1.AMI) bool {
		return a.ID == c.Status.ImageID && !slices.ContainsFunc(a.Requirements, func(r corev1.NodeSelectorRequirement) bool {
			return r.Operator == corev1.NodeSelectorOpIn && !slices.Contains(r.Values, c.Labels[r.Key])
		})
	}
	if !slices.ContainsFunc(class.Status.AMIs, image) || aws.ToString(in.ImageId) != c.Status.ImageID {
		t.Errorf("AMIDrift: claim %s has %s, its instance %s, the class %v", c.Name, c.Status.ImageID, aws.ToString(in.ImageId), class.Status.AMIs)
	}
	var has, want []string
	for _, g := range in.SecurityGroups {
		has = append(has, aws.ToString(g.GroupId))
	}
	for _, g := range class.Status.SecurityGroups {
		want = append(want, g.ID)
	}
	slices.Sort(has)
	slices.Sort(want)
	if !slices.Equal(has, want) {
		t.Errorf("SecurityGroupDrift: the instance of claim %s has %v, the class %v", c.Name, has, want)
	}
	if !slices.ContainsFunc(class.Status.Subnets, func(n awsv1.Subnet) bool { return n.ID == aws.ToString(in.SubnetId) }) {
		t.Errorf("SubnetDrift: the instance of claim %s is in %s, the class has %v", c.Name, aws.ToString(in.SubnetId), class.Status.Subnets)
	}
	if aws.ToString(in.CapacityReservationId) != "" || c.Labels[awsv1.LabelPlacementGroupID] != "" {
		t.Errorf("CapacityReservationDrift, PlacementGroupDrift: claim %s, reservation %s, labels %v", c.Name, aws.ToString(in.CapacityReservationId), c.Labels)
	}
}

// checkFinalizers fails if an object has finalizers that upstream Karpenter would not remove, or lacks one.
func checkFinalizers(t *testing.T, o client.Object, want ...string) {
	t.Helper()
	if got := o.GetFinalizers(); !slices.Equal(got, want) || o.GetDeletionTimestamp() != nil {
		t.Errorf("A57: %T %s has the finalizers %v, want %v; deleted: %v", o, o.GetName(), got, want, o.GetDeletionTimestamp())
	}
}

// restamp writes a hash of a class as a release does.
func restamp(ctx context.Context, kube client.Client, o client.Object, with stamped) error {
	before := o.DeepCopyObject().(client.Object)
	annotations := maps.Clone(o.GetAnnotations())
	annotations[awsv1.EC2NodeClassHashAnnotationKey], annotations[awsv1.EC2NodeClassHashVersionAnnotationKey] = with.hash, with.version
	o.SetAnnotations(annotations)
	return kube.Patch(ctx, o, client.MergeFrom(before))
}
