package aws

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/engine/world"
)

// RepairPolicies implements cloud.Judge.
func (p *Provider) RepairPolicies() []cloud.RepairPolicy {
	return RepairPolicies(p.opt.RebootForRepair)
}

// RepairPolicies are those of AWS, with or without reboots for what a reboot cures.
func RepairPolicies(reboot bool) []cloud.RepairPolicy {
	const usual, hardware = 30 * time.Minute, 10 * time.Minute
	policy := func(condition corev1.NodeConditionType, status corev1.ConditionStatus) cloud.RepairPolicy {
		return cloud.RepairPolicy{Condition: condition, Status: status, Tolerated: usual, TerminationGracePeriod: new(10 * time.Minute), Action: cloud.ReplaceNode}
	}
	gpu := func(codes string) cloud.RepairPolicy {
		p := policy(conditionHardware, corev1.ConditionFalse)
		p.ReasonRegex, p.Tolerated, p.TerminationGracePeriod = "^NvidiaXID("+codes+")Error$", hardware, new(5*time.Minute)
		return p
	}
	rebooted := gpu(xidReboot)
	if reboot {
		rebooted.Action = cloud.RebootNode
	}
	return []cloud.RepairPolicy{
		policy(corev1.NodeReady, corev1.ConditionFalse),
		policy(corev1.NodeReady, corev1.ConditionUnknown),
		rebooted,
		gpu(xidReplace),
		policy(conditionHardware, corev1.ConditionFalse),
		policy("StorageReady", corev1.ConditionFalse),
		policy("NetworkingReady", corev1.ConditionFalse),
		policy("KernelReady", corev1.ConditionFalse),
		policy("ContainerRuntimeReady", corev1.ConditionFalse),
	}
}

// What EKS's node monitoring agent says of GPUs: the condition, and the NVIDIA XID codes in its reasons. A GPU with one of the first codes
// is usually fine again after a reboot; one with one of the others is not.
const (
	conditionHardware = "AcceleratedHardwareReady"
	xidReboot         = "46|48|54|62|63|95|109|110|136|140|143|155|156|158"
	xidReplace        = "64|74|79|119|120"
)

// Drifted implements cloud.Judge.
func (p *Provider) Drifted(ctx context.Context, claim *karpv1.NodeClaim) (reason string, err error) {
	id, err := ParseProviderID(claim.Status.ProviderID)
	if err != nil || claim.Spec.NodeClassRef == nil {
		return "", nil // not launched yet, or not one of ours
	}
	in, err := p.inputs(claim.Spec.NodeClassRef.Name, "")
	if err != nil {
		return "", err
	}
	if reason := driftOfClass(in.class, claim); reason != "" {
		return reason, nil
	}
	// What the last list showed is enough to see that all is well.
	if listed, ok := p.listed.find(id); ok && driftOfInstance(in, claim, listed) == "" {
		return "", nil
	}
	op := "judge drift of claim " + claim.Name
	raw, found, err := p.describing.Get(ctx, id)
	switch {
	case err != nil:
		return "", readError(op, err)
	case !found:
		return "", p.absent(op, id)
	}
	if err := p.reachable(op, p.toShape(raw)); err != nil {
		return "", err
	}
	return driftOfInstance(in, claim, tiesOf(raw)), nil
}

// ties are what an instance hangs on that its class may stop naming.
type ties struct {
	subnet, reservation string
	groups              string // ids, joined in order
}

func tiesOf(i *types.Instance) ties {
	var groups []string
	for _, g := range i.SecurityGroups {
		groups = append(groups, aws.ToString(g.GroupId))
	}
	return ties{subnet: aws.ToString(i.SubnetId), reservation: aws.ToString(i.CapacityReservationId), groups: joined(groups)}
}

func joined(ids []string) string {
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), ",")
}

// listedFor is for how long what a list showed is good enough; lists are made more often than that.
const listedFor = 4 * time.Minute

// listed has the ties of the instances that were in the last list. Asking for each again would cost more than the list did.
type listed struct {
	clock Clock
	mu    sync.Mutex
	at    time.Time
	ties  map[string]ties
}

func (l *listed) set(all map[string]ties) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.ties = l.clock.Now(), all
}

func (l *listed) find(id string) (ties, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clock.Now().Sub(l.at) > listedFor {
		return ties{}, false
	}
	t, ok := l.ties[id]
	return t, ok
}

// driftOfClass finds drift that the objects show: a changed class, or another image.
func driftOfClass(class *awsv1.EC2NodeClass, claim *karpv1.NodeClaim) string {
	was, is := claim.Annotations, class.Annotations
	sameCount := was[awsv1.EC2NodeClassHashVersionAnnotationKey] == is[awsv1.EC2NodeClassHashVersionAnnotationKey]
	oldHash, newHash := was[awsv1.EC2NodeClassHashAnnotationKey], is[awsv1.EC2NodeClassHashAnnotationKey]
	if sameCount && oldHash != "" && newHash != "" && oldHash != newHash {
		return awsv1.ReasonNodeClassDrift
	}
	labels := world.NewLabels(claim.Labels)
	if images := imageNeeds(class.Status.AMIs); len(images) > 0 && claim.Status.ImageID != "" {
		if i := pickImage(images, labels); i < 0 || class.Status.AMIs[i].ID != claim.Status.ImageID {
			return awsv1.ReasonAMIDrift
		}
	}
	return ""
}

// driftOfInstance finds drift that only the instance shows.
func driftOfInstance(in inputs, claim *karpv1.NodeClaim, is ties) string {
	class := in.class
	if groups := class.Status.SecurityGroups; len(groups) > 0 {
		var want []string
		for _, g := range groups {
			want = append(want, g.ID)
		}
		if joined(want) != is.groups {
			return awsv1.ReasonSecurityGroupDrift
		}
	}
	if len(class.Status.Subnets) > 0 && !slices.ContainsFunc(class.Status.Subnets, func(s awsv1.Subnet) bool { return s.ID == is.subnet }) {
		return awsv1.ReasonSubnetDrift
	}
	if claim.Labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeReserved {
		if !slices.ContainsFunc(class.Status.CapacityReservations, func(r awsv1.CapacityReservation) bool { return r.ID == is.reservation }) {
			return awsv1.ReasonCapacityReservationDrift
		}
	}
	want := ""
	if in.placement != nil {
		want = in.placement.id
	}
	known := class.Spec.PlacementGroupSelector == nil || in.placement != nil
	if known && claim.Labels[awsv1.LabelPlacementGroupID] != want {
		return awsv1.ReasonPlacementGroupDrift
	}
	return ""
}
