package simaws

import (
	"strings"
	"testing"
	"time"
)

// controllerPolicy is of the shape a node autoscaler's launch permissions have:
// everything it makes must carry the cluster's tag.
const controllerPolicy = `{"Version":"2012-10-17","Statement":[
 {"Sid":"Access","Effect":"Allow","Action":["ec2:RunInstances","ec2:CreateFleet"],
  "Resource":["arn:aws:ec2:us-west-2::image/*","arn:aws:ec2:us-west-2:*:subnet/*","arn:aws:ec2:us-west-2:*:security-group/*"]},
 {"Sid":"Templates","Effect":"Allow","Action":["ec2:RunInstances","ec2:CreateFleet","ec2:DeleteLaunchTemplate"],"Resource":"arn:aws:ec2:us-west-2:*:launch-template/*",
  "Condition":{"StringEquals":{"aws:ResourceTag/kubernetes.io/cluster/c1":"owned"}}},
 {"Sid":"Create","Effect":"Allow","Action":["ec2:RunInstances","ec2:CreateFleet","ec2:CreateLaunchTemplate"],
  "Resource":["arn:aws:ec2:us-west-2:*:fleet/*","arn:aws:ec2:us-west-2:*:instance/*","arn:aws:ec2:us-west-2:*:volume/*","arn:aws:ec2:us-west-2:*:network-interface/*","arn:aws:ec2:us-west-2:*:launch-template/*","arn:aws:ec2:us-west-2:*:spot-instances-request/*"],
  "Condition":{"StringEquals":{"aws:RequestTag/kubernetes.io/cluster/c1":"owned"}}},
 {"Sid":"TagAtBirth","Effect":"Allow","Action":"ec2:CreateTags","Resource":"arn:aws:ec2:us-west-2:*:*",
  "Condition":{"StringEquals":{"ec2:CreateAction":["RunInstances","CreateFleet","CreateLaunchTemplate"]}}},
 {"Sid":"TagLater","Effect":"Allow","Action":"ec2:CreateTags","Resource":"arn:aws:ec2:us-west-2:*:instance/*",
  "Condition":{"StringEquals":{"aws:ResourceTag/kubernetes.io/cluster/c1":"owned"},"ForAllValues:StringEquals":{"aws:TagKeys":["Name","karpenter.sh/nodeclaim"]}}},
 {"Sid":"End","Effect":"Allow","Action":"ec2:TerminateInstances","Resource":"arn:aws:ec2:us-west-2:*:instance/*",
  "Condition":{"StringEquals":{"aws:ResourceTag/kubernetes.io/cluster/c1":"owned"}}},
 {"Sid":"Pass","Effect":"Allow","Action":"iam:PassRole","Resource":"arn:aws:iam::*:role/node","Condition":{"StringEquals":{"iam:PassedToService":"ec2.amazonaws.com"}}},
 {"Sid":"Profiles","Effect":"Allow","Action":["iam:CreateInstanceProfile","iam:TagInstanceProfile"],"Resource":"*","Condition":{"StringEquals":{"aws:RequestTag/kubernetes.io/cluster/c1":"owned"}}},
 {"Sid":"Look","Effect":"Allow","Action":["ec2:DescribeInstances","ec2:DescribeLaunchTemplates","ec2:DescribeImages"],"Resource":"*"}]}`

// asController lets the calls that follow run under the policy.
func (w *world) asController(policies ...string) {
	w.t.Helper()
	w.key = "test"
	w.must("iam", "CreateRole", "RoleName", "controller", "AssumeRolePolicyDocument", `{"Statement":{"Effect":"Allow","Action":"sts:AssumeRole"}}`)
	for i, p := range policies {
		w.must("iam", "PutRolePolicy", "RoleName", "controller", "PolicyName", string(rune('a'+i)), "PolicyDocument", p)
	}
	if err := w.RegisterKey("AKIACONTROLLER", "controller"); err != nil {
		w.t.Fatal(err)
	}
	w.key = "AKIACONTROLLER"
}

// owned adds the cluster's tag for each kind of resource.
func owned(pairs []string, kinds ...string) []string {
	for i, k := range kinds {
		n := string(rune('1' + i))
		pairs = append(pairs, "TagSpecification."+n+".ResourceType", k, "TagSpecification."+n+".Tag.1.Key", "kubernetes.io/cluster/c1", "TagSpecification."+n+".Tag.1.Value", "owned")
	}
	return pairs
}

func TestLaunchUnderPolicy(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch() // a template without tags, by the account's root
	w.asController(controllerPolicy)
	bare := fleetPairs("tpl", "spot", 1, "m5.large@"+subnetA)
	if body := w.refused("UnauthorizedOperation", "CreateFleet", bare...); !strings.Contains(body, "ec2:CreateFleet on resource: arn:aws:ec2:us-west-2:111122223333:fleet/*") {
		t.Errorf("message: %s", body)
	}
	all := []string{"fleet", "instance", "volume"}
	if body := w.refused("UnauthorizedOperation", "CreateFleet", owned(bare, all...)...); !strings.Contains(body, "launch-template/lt-") {
		t.Errorf("a foreign template: %s", body)
	}
	w.refused("UnauthorizedOperation", "CreateLaunchTemplate", "LaunchTemplateName", "mine", "LaunchTemplateData.KeyName", "k")
	data := []string{
		"LaunchTemplateName", "mine", "LaunchTemplateData.ImageId", w.image("amazon-eks-node-al2023-x86_64-standard-1.34-v20250920"), "LaunchTemplateData.IamInstanceProfile.Name", "node",
		"LaunchTemplateData.TagSpecification.1.ResourceType", "network-interface", "LaunchTemplateData.TagSpecification.1.Tag.1.Key", "kubernetes.io/cluster/c1", "LaunchTemplateData.TagSpecification.1.Tag.1.Value", "owned",
	}
	w.must("ec2", "CreateLaunchTemplate", owned(data, "launch-template")...)
	mine := fleetPairs("mine", "spot", 1, "m5.large@"+subnetA)
	// The spot request carries no tag yet: RunInstances refuses, per override.
	body := w.must("ec2", "CreateFleet", owned(mine, all...)...)
	if got := pickFirst(body, "errorMessage"); len(launched(body)) != 0 || !strings.Contains(got, "spot-instances-request") {
		t.Errorf("untagged spot request: %s", body)
	}
	dry := append(owned(mine, append(all, "spot-instances-request")...), "DryRun", "true")
	w.refused("DryRunOperation", "CreateFleet", dry...)
	ids := launched(w.must("ec2", "CreateFleet", dry[:len(dry)-2]...))
	if len(ids) != 1 {
		t.Fatal("the controller could not launch under its own policy")
	}
	w.must("ec2", "CreateTags", "ResourceId.1", ids[0], "Tag.1.Key", "Name", "Tag.1.Value", "n")
	w.refused("UnauthorizedOperation", "CreateTags", "ResourceId.1", ids[0], "Tag.1.Key", "owner", "Tag.1.Value", "me")
	w.refused("UnauthorizedOperation", "CreateTags", "ResourceId.1", subnetA, "Tag.1.Key", "Name", "Tag.1.Value", "n")
	w.refused("UnauthorizedOperation", "DescribeSubnets")
	w.must("ec2", "TerminateInstances", "InstanceId.1", ids[0])
	w.must("ec2", "DeleteLaunchTemplate", "LaunchTemplateName", "mine")
	w.refused("UnauthorizedOperation", "DeleteLaunchTemplate", "LaunchTemplateName", "tpl")

	if status, body := w.send("iam", "CreateInstanceProfile", "InstanceProfileName", "p"); status != 403 || pickFirst(body, "Code") != "AccessDenied" {
		t.Errorf("untagged profile: %d %s", status, body)
	}
	w.must("iam", "CreateInstanceProfile", "InstanceProfileName", "p", "Tags.member.1.Key", "kubernetes.io/cluster/c1", "Tags.member.1.Value", "owned")
}

// TestDenyWins is how an operator takes a permission away for a test.
func TestDenyWins(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	w.asController(`{"Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}`, `{"Statement":{"Effect":"Deny","Action":"ec2:RunInstances","Resource":"*"}}`)
	body := w.fleet("spot", 1, "m5.large@"+subnetA)
	if pickFirst(body, "errorCode") != "UnauthorizedOperation" || !strings.Contains(body, "explicit deny") {
		t.Errorf("fleet: %s", body)
	}
	w.refused("UnauthorizedOperation", "RunInstances", "MinCount", "1", "MaxCount", "1", "LaunchTemplate.LaunchTemplateName", "tpl", "InstanceType", "m5.large", "DryRun", "true")
	if err := w.RegisterKey("x", "nobody"); err == nil {
		t.Error("a key for a role that does not exist was accepted")
	}
}

func TestTemporaryKeysExpire(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	w.must("iam", "AttachRolePolicy", "RoleName", "node", "PolicyArn", "arn:aws:iam::aws:policy/AdministratorAccess")
	w.key = pickFirst(w.must("sts", "AssumeRole", "RoleArn", "arn:aws:iam::111122223333:role/node", "RoleSessionName", "s1"), "AccessKeyId")
	w.must("ec2", "DescribeSubnets")
	w.advance(time.Hour)
	w.refused("RequestExpired", "DescribeSubnets")
}

// TestWorldDoesNotGrow: what is over is forgotten.
func TestWorldDoesNotGrow(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	for range 3 {
		for i, id := range launched(w.fleet("spot", 2, "m5.large@"+subnetA)) {
			if i == 0 {
				w.must("ec2", "TerminateInstances", "InstanceId.1", id)
			}
		}
	}
	w.advance(2 * time.Hour)
	r := w.st.Accounts[DefaultAccount].Regions["us-west-2"]
	if r.Instances.len() != 3 || r.SpotRequests.len() != 3 || r.Volumes.len() != 3 || r.Fleets.len() != 3 || len(w.st.Agenda) != 0 {
		t.Errorf("%d instances, %d spot requests, %d volumes, %d fleets, %d appointments", r.Instances.len(), r.SpotRequests.len(), r.Volumes.len(), r.Fleets.len(), len(w.st.Agenda))
	}
}
