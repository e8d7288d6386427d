package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/aws/shape"
	"karpenter/internal/cloud/aws/userdata"
	"karpenter/internal/engine/world"
)

const (
	// trialLife is how long a trial that passed counts, as long as nothing that it tried changes.
	trialLife = 30 * time.Minute
	// ReasonUserDataInvalid is the reason of ValidationSucceeded when an instance could not boot with the user data.
	ReasonUserDataInvalid = "UserDataInvalid"
)

// Verdict is the outcome of a trial. The zero value is a pass.
type Verdict struct {
	// Reason and Message say why the class cannot launch.
	Reason, Message string
	// Err means that there is no verdict: AWS did not answer.
	Err error
}

// Apply writes the verdict into the class's status. Without an answer what was known stays.
func (v Verdict) Apply(class *awsv1.EC2NodeClass, reservedCapacity bool, now time.Time) {
	set := class.StatusConditions(reservedCapacity)
	switch was := set.Get(awsv1.ConditionValidationSucceeded); {
	case v.Err != nil && was.Status == "True" && was.ObservedGeneration == class.Generation:
	case v.Err != nil:
		set.SetUnknown(awsv1.ConditionValidationSucceeded, "AWSNotReached", "AWS has not answered yet: "+stable(v.Err), now)
	case v.Reason != "":
		set.SetFalse(awsv1.ConditionValidationSucceeded, v.Reason, v.Message, now)
	default:
		set.SetTrue(awsv1.ConditionValidationSucceeded, now)
	}
}

// How soon a class is looked at again: sooner while something is wrong, as somebody is likely to be mending it.
const (
	recheckReady   = time.Minute
	recheckUnready = 15 * time.Second
	// recheckEarly is the same while instance types are still being loaded, which is a matter of moments.
	recheckEarly = time.Second
)

// Reconcile looks up what the class selects, tries a launch, and writes what came of it into the class's status, in memory
// only. It returns when to look again.
func (p *Provider) Reconcile(ctx context.Context, class *awsv1.EC2NodeClass) (again time.Duration) {
	now, loaded := p.opt.Clock.Now(), p.catalogue.now.Load() != nil
	if p.Resolve(ctx, class).Apply(class, p.opt.ReservedCapacity, now) {
		p.Try(ctx, class).Apply(class, p.opt.ReservedCapacity, now)
	}
	if class.StatusConditions(p.opt.ReservedCapacity).IsTrue(karpv1.ConditionReady) {
		return recheckReady
	}
	if !loaded {
		return recheckEarly
	}
	return recheckUnready
}

// passed is a trial that went well: of what, and until when it counts.
type passed struct {
	what  string
	until time.Time
}

// Try finds out whether the class could launch, without launching: it writes user data and launch template, and asks EC2
// whether it would allow each call. A trial of the same things counts for a while.
func (p *Provider) Try(ctx context.Context, class *awsv1.EC2NodeClass) Verdict {
	if class.AMIFamily() == awsv1.AMIFamilyAL2023 && p.opt.Cluster.ServiceCIDR == "" {
		return Verdict{Reason: awsv1.ReasonClusterCIDRResolutionFailed, Message: "the range of Service addresses is not known, which AL2023 needs; allow eks:DescribeCluster"}
	}
	specimens, verdict := p.specimens(class)
	what := ""
	for i := range specimens {
		t, err := p.newTemplate(specimens[i].blueprint)
		if err != nil {
			return invalidTemplate(err)
		}
		specimens[i].template = t
		what += t.name + " " + specimens[i].typ + " "
	}
	if len(specimens) == 0 {
		return verdict
	}
	for _, s := range class.Status.Subnets {
		what += s.ID + " "
	}
	p.opt.Meter.Set(UserDataBytes, float64(specimens[0].template.userData), "nodeclass", class.Name)
	old, _ := p.tried.Load(class.Name)
	if last, ok := old.(passed); p.opt.DisableDryRun || ok && last.what == what && p.opt.Clock.Now().Before(last.until) {
		return Verdict{}
	}
	for _, s := range specimens {
		if verdict := p.dryRun(ctx, class, s); verdict != (Verdict{}) {
			return verdict
		}
	}
	p.tried.Store(class.Name, passed{what, p.opt.Clock.Now().Add(trialLife)})
	return Verdict{}
}

// invalidTemplate is the verdict on what cannot be written.
func invalidTemplate(err error) Verdict {
	var size *userdata.SizeError
	var input *userdata.InputError
	switch {
	case errors.As(err, &size):
		return Verdict{Reason: awsv1.ReasonUserDataSizeLimitExceeded, Message: err.Error()}
	case errors.As(err, &input):
		return Verdict{Reason: ReasonUserDataInvalid, Message: err.Error()}
	}
	return Verdict{Reason: "LaunchTemplateInvalid", Message: err.Error()}
}

// commonTypes are tried first: EC2 has them everywhere.
var commonTypes = []string{"m5.large", "m6g.large"}

// maxSpecimens bounds how much is tried for one class, however many pools it has.
const maxSpecimens = 3

// specimen is a launch that is tried.
type specimen struct {
	blueprint
	typ      string
	template *template
}

// specimens are launches of types that the class can use and its pools allow, with the tenancy that they ask for: one for each pool that
// differs in that, up to maxSpecimens, or of any type where no pool says more. If there is none, verdict says why.
func (p *Provider) specimens(class *awsv1.EC2NodeClass) (out []specimen, verdict Verdict) {
	in := inputs{class: class, offered: p.catalogue.now.Load()}
	if in.offered == nil {
		return nil, Verdict{Err: errors.New("instance types have not been loaded")}
	}
	if group, ok := p.placements.Load(class.Name); ok {
		in.placement = group.(*placement)
	}
	shapes := p.shapes(in)
	wishes := p.poolWishes(class.Name)
	for _, w := range append(wishes, &wish{}) {
		at := pickSpecimen(in, shapes, w)
		if at < 0 || w.Need == nil && len(out) > 0 {
			continue
		}
		one := p.specimen(in, shapes[at], w.tenancy())
		known := func(s specimen) bool { return s.typ == one.typ && s.tenancy == one.tenancy }
		if !slices.ContainsFunc(out, known) && len(out) < maxSpecimens {
			out = append(out, one)
		}
	}
	if len(out) == 0 {
		return nil, Verdict{Reason: "NoInstanceTypes", Message: p.unusable(in)}
	}
	return out, verdict
}

// poolWishes are what the pools of a class ask of instances, by the pools' names. One that cannot be read asks for nothing here: its own
// status says so.
func (p *Provider) poolWishes(class string) (out []*wish) {
	if p.opt.Pools == nil {
		return nil
	}
	pools := slices.SortedFunc(slices.Values(p.opt.Pools(class)), func(a, b *karpv1.NodePool) int { return strings.Compare(a.Name, b.Name) })
	for _, pool := range pools {
		claim := &karpv1.NodeClaim{Spec: karpv1.NodeClaimSpec{Requirements: pool.Spec.Template.Spec.Requirements}}
		for key, value := range pool.Spec.Template.Labels {
			claim.Spec.Requirements = append(slices.Clone(claim.Spec.Requirements), karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
		}
		if w, err := newWish(claim, shapeResources); err == nil {
			out = append(out, w)
		}
	}
	return out
}

// pickSpecimen is the index of a type that the class can use, the wish admits and a zone of the class sells, or -1; a common one if
// there is.
func pickSpecimen(in inputs, shapes []shaped, w *wish) int {
	at := -1
	zones := classZones(in.class)
	for i := range shapes {
		name := shapes[i].typ.Name
		common := slices.Contains(commonTypes, name)
		if !shapes[i].usable || at >= 0 && (!common || slices.Contains(commonTypes, shapes[at].typ.Name)) {
			continue
		}
		sold := w.Need == nil || slices.ContainsFunc(zones, func(z zone) bool {
			return in.offered.zones[name][z.name] && slices.ContainsFunc([]string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot, karpv1.CapacityTypeReserved}, func(capacityType string) bool {
				return w.Admits(&shapes[i].typ, &world.Offering{Zone: z.name, CapacityType: capacityType, Labels: z.labels})
			})
		})
		if sold {
			at = i
		}
	}
	return at
}

// specimen is a launch of one type.
func (p *Provider) specimen(in inputs, s shaped, tenancy string) specimen {
	claim := &karpv1.NodeClaim{}
	kubelets, _ := p.kubelets(p.settings(in))
	kubelet, _ := kubelets.of(s.described) // a type that it does not work out for is not usable
	images := in.class.Status.AMIs
	b := blueprint{
		class: in.class, claim: claim, capacityType: karpv1.CapacityTypeOnDemand, tenancy: tenancy, pods: s.typ.Capacity.Get(world.PodSlot), kubelet: kubelet,
		image: images[pickImage(imageNeeds(images), s.typ.Labels)],
	}
	if in.placement != nil {
		b.group = in.placement.id
	}
	b.tags = p.birthTags(in.class, cloud.Batch{ID: "trial", Claims: []*karpv1.NodeClaim{claim}})
	delete(b.tags, cloud.BatchAnnotationKey)
	delete(b.tags, awsv1.TagNodeClaim)
	return specimen{blueprint: b, typ: s.typ.Name}
}

// unusable says why no instance type can be used: for want of an image, or because of a setting that none has.
func (p *Provider) unusable(in inputs) string {
	s := p.settings(in)
	why := map[string]int{}
	for _, m := range in.offered.list {
		why[shape.Incompatible(m, &s)]++
	}
	reasons := slices.SortedFunc(maps.Keys(why), func(a, b string) int { return cmp.Or(cmp.Compare(why[b], why[a]), strings.Compare(a, b)) })
	if _, some := why[""]; !some && len(reasons) > 0 {
		return fmt.Sprintf("of %d instance types none has what the class asks for (%s); change %s", len(in.offered.list), strings.Join(reasons, "; "), settingsAsked(in.class))
	}
	var images []string
	for _, image := range in.class.Status.AMIs {
		var needs []string
		for _, r := range image.Requirements {
			needs = append(needs, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ","))))
		}
		images = append(images, image.ID+" ("+strings.Join(needs, ", ")+")")
	}
	return fmt.Sprintf("spec.amiSelectorTerms: no instance type can run %s with AMI family %s; select an image for instances that the family runs on", strings.Join(images, " or "), in.class.AMIFamily())
}

// settingsAsked names the fields that limit the choice of instances, with their values.
func settingsAsked(class *awsv1.EC2NodeClass) string {
	var out []string
	for _, i := range class.Spec.NetworkInterfaces {
		out = append(out, fmt.Sprintf("spec.networkInterfaces {card %d, device %d, %s}", i.NetworkCardIndex, i.DeviceIndex, i.InterfaceType))
	}
	if class.Spec.PlacementGroupSelector != nil {
		out = append(out, "spec.placementGroupSelector")
	}
	if o := class.Spec.CPUOptions; o != nil && o.NestedVirtualization != nil {
		out = append(out, "spec.cpuOptions.nestedVirtualization "+*o.NestedVirtualization)
	}
	if class.Enclaves() {
		out = append(out, "spec.enclaveOptions.enabled true")
	}
	return strings.Join(out, " or ")
}

// dryRun asks EC2 about each call of a launch, in the order in which a launch makes them, and about every subnet: each may have a
// policy, and a zone, of its own.
func (p *Provider) dryRun(ctx context.Context, class *awsv1.EC2NodeClass, s specimen) Verdict {
	t, client := s.template, p.opt.Clients.EC2
	tags := func(kinds ...types.ResourceType) (out []types.TagSpecification) {
		for _, kind := range kinds {
			out = append(out, types.TagSpecification{ResourceType: kind, Tags: toTags(t.tags)})
		}
		return out
	}
	if err := p.templates.ensure(ctx, t); err != nil {
		return judgeTrial(class, err, awsv1.ReasonCreateLaunchTemplateAuthCheckFailed, "ec2:CreateLaunchTemplate")
	}
	spec := &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String(t.name), Version: aws.String("$Latest")}
	var overrides []types.FleetLaunchTemplateOverridesRequest
	zones := map[string]bool{} // a fleet takes one subnet of each
	for _, subnet := range class.Status.Subnets {
		if !zones[subnet.Zone] {
			overrides = append(overrides, types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(s.typ), SubnetId: aws.String(subnet.ID)})
		}
		zones[subnet.Zone] = true
	}
	_, err := client.CreateFleet(ctx, &ec2.CreateFleetInput{
		DryRun: aws.Bool(true), Type: types.FleetTypeInstant, TagSpecifications: tags(types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeFleet),
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand},
		LaunchTemplateConfigs:       []types.FleetLaunchTemplateConfigRequest{{LaunchTemplateSpecification: spec, Overrides: overrides}},
	}, once)
	if v := judgeTrial(class, readError("try CreateFleet", err), awsv1.ReasonCreateFleetAuthCheckFailed, "ec2:CreateFleet"); v != (Verdict{}) {
		return v
	}
	for _, subnet := range class.Status.Subnets {
		interfaces := []types.InstanceNetworkInterfaceSpecification{{NetworkCardIndex: aws.Int32(0), DeviceIndex: aws.Int32(0), SubnetId: aws.String(subnet.ID)}}
		for _, g := range class.Status.SecurityGroups {
			interfaces[0].Groups = append(interfaces[0].Groups, g.ID)
		}
		_, err = client.RunInstances(ctx, &ec2.RunInstancesInput{
			DryRun: aws.Bool(true), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: types.InstanceType(s.typ), NetworkInterfaces: interfaces,
			LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String(t.name), Version: aws.String("$Latest")},
			TagSpecifications: tags(types.ResourceTypeInstance, types.ResourceTypeVolume),
		}, once)
		if v := judgeTrial(class, readError("try RunInstances in subnet "+subnet.ID, err), awsv1.ReasonRunInstancesAuthCheckFailed, "ec2:RunInstances"); v != (Verdict{}) {
			return v
		}
	}
	return Verdict{}
}

// judgeTrial reads EC2's answer to a call that was only tried. A call that would be allowed comes back as an error too.
func judgeTrial(class *awsv1.EC2NodeClass, err error, reason, action string) Verdict {
	if err == nil || codeOf(err) == codeDryRun {
		return Verdict{}
	}
	switch cloud.ClassOf(err) {
	case cloud.NoCapacity: // EC2 has looked at the call and has none of it here now, or does not sell it here: the class is not at fault
		return Verdict{}
	case cloud.Denied:
		return Verdict{Reason: reason, Message: "the controller's IAM role may not call " + action + "; allow it in the role's policies: " + stable(err)}
	case cloud.Invalid:
		if cloud.ReasonOf(err) == "InstanceProfileNameInvalid" {
			if class.Spec.InstanceProfile == nil {
				return Verdict{Err: err} // made a moment ago: EC2 will know it soon
			}
			return Verdict{Reason: awsv1.ReasonInstanceProfileNotFound, Message: "spec.instanceProfile: EC2 does not know the instance profile " + *class.Spec.InstanceProfile}
		}
		return Verdict{Reason: cloud.ReasonOf(err), Message: stable(err)}
	case cloud.Throttled, cloud.NotReady, cloud.NotFound, cloud.Transient, cloud.Unknown:
	}
	return Verdict{Err: err}
}
