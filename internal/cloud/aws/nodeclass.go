package aws

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
)

// Facts is what AWS has for a class. Where something could not be found out, its error is set and the value is empty.
type Facts struct {
	AMIs         []awsv1.AMI
	Subnets      []awsv1.Subnet
	Groups       []awsv1.SecurityGroup
	Reservations []awsv1.CapacityReservation
	Profile      string

	AMIsErr, SubnetsErr, GroupsErr, ReservationsErr, ProfileErr, PlacementErr error

	// Kubelet is what is wrong with spec.kubelet.
	Kubelet Verdict
}

// Resolve looks up everything that the class selects. One lookup that fails keeps no other from being made.
func (p *Provider) Resolve(ctx context.Context, class *awsv1.EC2NodeClass) Facts {
	var f Facts
	f.AMIs, f.AMIsErr = p.findImages(ctx, class)
	f.Subnets, f.SubnetsErr = p.findSubnets(ctx, class)
	f.Groups, f.GroupsErr = p.findGroups(ctx, class)
	if p.opt.ReservedCapacity {
		f.Reservations, f.ReservationsErr = p.findReservations(ctx, class)
	}
	f.Profile, f.ProfileErr = p.findProfile(ctx, class)
	group, err := p.findPlacement(ctx, class)
	f.PlacementErr = err
	p.notePlacement(class.Name, group, err)
	f.Kubelet = p.checkKubelet(class)
	return f
}

// notePlacement keeps the class's placement group for Types. A lookup that failed changes nothing.
func (p *Provider) notePlacement(class string, group *placement, err error) {
	switch old, had := p.placements.Load(class); {
	case err != nil:
	case group == nil:
		p.placements.Delete(class)
	case !had || *old.(*placement) != *group: // equal values keep their pointer, by which Types sees changes
		p.placements.Store(class, group)
	}
}

// Apply writes facts into the status of the class: what was found, and for each condition whether it holds and why not. A
// lookup that AWS did not answer leaves the condition and the value as they were, so that a throttled call takes nothing
// from a class that works. complete says that nothing stands in the way of trying a launch (see Provider.Try); otherwise
// ValidationSucceeded says what does.
func (f Facts) Apply(class *awsv1.EC2NodeClass, reservedCapacity bool, now time.Time) (complete bool) {
	a := applier{set: class.StatusConditions(reservedCapacity), now: now}
	status := &class.Status
	if a.judge(awsv1.ConditionAMIsReady, f.AMIsErr, awsv1.ReasonAMINotFound, missing(len(f.AMIs), "spec.amiSelectorTerms", "image", imageTerms(class))) {
		status.AMIs = f.AMIs
	}
	if a.judge(awsv1.ConditionSubnetsReady, f.SubnetsErr, awsv1.ReasonSubnetsNotFound, missing(len(f.Subnets), "spec.subnetSelectorTerms", "subnet", subnetTerms(class))) {
		status.Subnets = f.Subnets
	}
	if a.judge(awsv1.ConditionSecurityGroupsReady, f.GroupsErr, awsv1.ReasonSecurityGroupsNotFound, missing(len(f.Groups), "spec.securityGroupSelectorTerms", "security group", groupTerms(class))) {
		status.SecurityGroups = f.Groups
	}
	if reservedCapacity && a.judge(awsv1.ConditionCapacityReservationsReady, f.ReservationsErr, "CapacityReservationsNotFound", "") {
		status.CapacityReservations = f.Reservations
	}
	if a.judge(awsv1.ConditionInstanceProfileReady, f.ProfileErr, "InstanceProfileNotReady", "") {
		status.InstanceProfile = f.Profile
	}
	a.judge(awsv1.ConditionPlacementGroupReady, f.PlacementErr, awsv1.ReasonPlacementGroupNotFound, "")
	return a.validate(class, f.Kubelet)
}

// applier writes conditions.
type applier struct {
	set *karpv1.ConditionSet
	now time.Time
}

// judge sets one condition and says whether the fact behind it is to be taken over. problem, if any, says what is wrong with a
// fact that was found.
func (a *applier) judge(condition string, err error, reason, problem string) (known bool) {
	switch class := cloud.ClassOf(err); {
	case err == nil && problem == "":
		a.set.SetTrue(condition, a.now)
		return true
	case err == nil:
		a.set.SetFalse(condition, reason, problem, a.now)
		return true
	case class == cloud.Invalid || class == cloud.NotFound || class == cloud.Denied:
		a.set.SetFalse(condition, reasonOr(err, reason), stable(err), a.now)
		return true
	}
	if was := a.set.Get(condition); was == nil || was.Reason == karpv1.ReasonAwaitingReconciliation {
		a.set.SetUnknown(condition, "AWSNotReached", "AWS has not answered yet: "+stable(err), a.now)
	}
	return false
}

// validate checks what needs no call to AWS, and says whether all is well so far.
func (a *applier) validate(class *awsv1.EC2NodeClass, kubelet Verdict) bool {
	if bad := restrictedTags(class.Spec.Tags); len(bad) > 0 {
		a.set.SetFalse(awsv1.ConditionValidationSucceeded, awsv1.ReasonTagValidationFailed,
			fmt.Sprintf("spec.tags: %s set by Karpenter; remove %s", strings.Join(bad, ", "), plural(len(bad), "it", "them")), a.now)
		return false
	}
	if kubelet.Reason != "" {
		a.set.SetFalse(awsv1.ConditionValidationSucceeded, kubelet.Reason, kubelet.Message, a.now)
		return false
	}
	for _, dependency := range []string{awsv1.ConditionAMIsReady, awsv1.ConditionSubnetsReady, awsv1.ConditionSecurityGroupsReady, awsv1.ConditionInstanceProfileReady} {
		if !a.set.IsTrue(dependency) {
			a.set.SetUnknown(awsv1.ConditionValidationSucceeded, awsv1.ReasonDependenciesNotReady, dependency+" must be True first", a.now)
			return false
		}
	}
	return true
}

// restrictedTags lists the tags that only Karpenter may set.
func restrictedTags(tags map[string]string) []string {
	var bad []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if strings.HasPrefix(key, "kubernetes.io/cluster") || slices.Contains([]string{awsv1.TagEKSClusterName, awsv1.TagNodePool, awsv1.TagNodeClaim, awsv1.TagNodeClass}, key) {
			bad = append(bad, key)
		}
	}
	return bad
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// reasonOr is the error's own reason where the API has one for it, or else the condition's.
func reasonOr(err error, otherwise string) string {
	switch reason := cloud.ReasonOf(err); reason {
	case awsv1.ReasonUnsupportedAlias, "Unauthorized", "RoleNotFound":
		return reason
	}
	return otherwise
}

// varying are the parts of AWS's error texts that differ between two equal failures.
var varying = regexp.MustCompile(`, RequestID: [^,]*|\.? Encoded authorization failure message: \S*`)

// stable is the error's text without what differs between two equal failures, so that a condition does not change for nothing.
func stable(err error) string { return varying.ReplaceAllString(err.Error(), "") }
