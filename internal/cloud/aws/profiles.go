package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/cloud"
)

// profileName is the instance profile of a class and a role. It follows from both, so that a crash between two steps of making
// it leaves nothing that the next attempt does not find, and a class that changes its role gets another profile while
// instances still start with the old one.
func (p *Provider) profileName(class *awsv1.EC2NodeClass) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{p.opt.Region, class.Name, string(class.UID), roleName(class)}, "\x00")))
	return p.opt.Cluster.Name + "_" + hex.EncodeToString(sum[:10])
}

// profilePath is where the profiles of a class are; without a class, those of the cluster.
func (p *Provider) profilePath(class *awsv1.EC2NodeClass) string {
	path := "/karpenter/" + p.opt.Region + "/" + p.opt.Cluster.Name + "/"
	if class != nil {
		path += string(class.UID) + "/"
	}
	return path
}

// roleName is the class's role without the path that it may have in IAM.
func roleName(class *awsv1.EC2NodeClass) string {
	return class.Spec.Role[strings.LastIndex(class.Spec.Role, "/")+1:]
}

// findProfile returns the instance profile of the class, and makes it if the class gives a role.
func (p *Provider) findProfile(ctx context.Context, class *awsv1.EC2NodeClass) (string, error) {
	if class.Spec.InstanceProfile != nil {
		return *class.Spec.InstanceProfile, nil
	}
	name, role := p.profileName(class), roleName(class)
	out, err := p.opt.Clients.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(name)})
	err = readError("get instance profile "+name, err)
	var has []iamtypes.Role
	switch {
	case cloud.ClassOf(err) == cloud.NotFound:
		if err := p.createProfile(ctx, class, name); err != nil {
			return "", err
		}
	case err != nil:
		return "", err
	case out.InstanceProfile != nil:
		has = out.InstanceProfile.Roles
	}
	if len(has) > 0 && aws.ToString(has[0].RoleName) == role {
		return name, nil
	}
	for _, other := range has { // an instance profile holds one role
		if err := p.removeRole(ctx, name, aws.ToString(other.RoleName)); err != nil {
			return "", err
		}
	}
	return name, p.addRole(ctx, class, name)
}

func (p *Provider) createProfile(ctx context.Context, class *awsv1.EC2NodeClass, name string) error {
	tags := maps.Clone(class.Spec.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	maps.Copy(tags, map[string]string{
		awsv1.TagClusterPrefix + p.opt.Cluster.Name: awsv1.TagClusterOwned,
		awsv1.TagEKSClusterName:                     p.opt.Cluster.Name,
		awsv1.TagNodeClass:                          class.Name,
		corev1.LabelTopologyRegion:                  p.opt.Region,
	})
	in := &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String(name), Path: aws.String(p.profilePath(class))}
	for _, t := range toTags(tags) {
		in.Tags = append(in.Tags, iamtypes.Tag{Key: t.Key, Value: t.Value})
	}
	_, err := p.opt.Clients.IAM.CreateInstanceProfile(ctx, in)
	if codeOf(err) == codeEntityExists {
		return nil
	}
	return writeError("create instance profile "+name, err)
}

func (p *Provider) addRole(ctx context.Context, class *awsv1.EC2NodeClass, name string) error {
	role := roleName(class)
	_, err := p.opt.Clients.IAM.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String(name), RoleName: aws.String(role)})
	err = writeError("add role to instance profile "+name, err)
	switch cloud.ClassOf(err) {
	case cloud.NotFound:
		return &cloud.Error{
			Class: cloud.Invalid, Op: "use class " + class.Name, Reason: "RoleNotFound",
			Err: fmt.Errorf("spec.role: IAM has no role %q in this account; create it or name another: %w", role, err),
		}
	case cloud.Denied:
		return &cloud.Error{
			Class: cloud.Denied, Op: "use class " + class.Name, Reason: cloud.ReasonOf(err),
			Err: fmt.Errorf("spec.role: the controller may not give role %q to instances; allow iam:PassRole on it, or name a role that may be passed: %w", role, err),
		}
	}
	return err
}

func (p *Provider) removeRole(ctx context.Context, profile, role string) error {
	_, err := p.opt.Clients.IAM.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: aws.String(profile), RoleName: aws.String(role)})
	if err = writeError("remove role from instance profile "+profile, err); cloud.ClassOf(err) == cloud.NotFound {
		return nil
	}
	return err
}

// CollectProfiles deletes instance profiles under the class's path (or with nil, under the cluster's) that keep does not
// name. In an isolated VPC, where IAM cannot be reached, it does nothing.
func (p *Provider) CollectProfiles(ctx context.Context, class *awsv1.EC2NodeClass, keep map[string]bool) error {
	if p.opt.IsolatedVPC {
		return nil
	}
	pages := iam.NewListInstanceProfilesPaginator(p.opt.Clients.IAM, &iam.ListInstanceProfilesInput{PathPrefix: aws.String(p.profilePath(class))})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return readError("list instance profiles", err)
		}
		for i := range page.InstanceProfiles {
			if profile := &page.InstanceProfiles[i]; !keep[aws.ToString(profile.InstanceProfileName)] {
				if err := p.deleteProfile(ctx, profile); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p *Provider) deleteProfile(ctx context.Context, profile *iamtypes.InstanceProfile) error {
	name := aws.ToString(profile.InstanceProfileName)
	for _, role := range profile.Roles {
		if err := p.removeRole(ctx, name, aws.ToString(role.RoleName)); err != nil {
			return err
		}
	}
	_, err := p.opt.Clients.IAM.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: aws.String(name)})
	if err = writeError("delete instance profile "+name, err); cloud.ClassOf(err) == cloud.NotFound {
		return nil
	}
	return err
}
