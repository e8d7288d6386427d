package local

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"

	"karpenter/internal/cloud/simaws"
	"karpenter/internal/local/plane"
)

// systemGroup is the name of the node group that runs what belongs to the cluster itself, outside of any NodePool.
const systemGroup = "system"

// groupTag is the tag that EKS gives the instances of a node group.
const groupTag = "eks:nodegroup-name"

// systemType has room for the cluster's own pods and little else.
const systemType = "m5.xlarge"

const trustEC2 = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

// prepare makes what an administrator makes before Karpenter is installed: the role and the instance profile of nodes. What is there
// already stays.
func (a *awsSim) prepare(cluster string) error {
	role, profile := "KarpenterNodeRole-"+cluster, "KarpenterNodeInstanceProfile-"+cluster
	steps := []url.Values{
		{"Action": {"CreateRole"}, "RoleName": {role}, "AssumeRolePolicyDocument": {trustEC2}},
		{"Action": {"CreateInstanceProfile"}, "InstanceProfileName": {profile}},
		{"Action": {"AddRoleToInstanceProfile"}, "InstanceProfileName": {profile}, "RoleName": {role}},
	}
	for _, policy := range []string{"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly", "AmazonSSMManagedInstanceCore"} {
		steps = append(steps, url.Values{"Action": {"AttachRolePolicy"}, "RoleName": {role}, "PolicyArn": {"arn:aws:iam::aws:policy/" + policy}})
	}
	for _, step := range steps {
		err := a.Do(a.region, "iam", step)
		if code := simaws.Code(err); err != nil && code != "EntityAlreadyExists" && code != "LimitExceeded" { // of an earlier run; a profile holds one role
			return fmt.Errorf("preparing the AWS simulator: %w", err)
		}
	}
	return nil
}

// systemSubnets are where system nodes are, each in a zone of its own, in the order in which they are made.
var systemSubnets = []string{"subnet-0abc123", "subnet-0def456"}

// launchSystem starts the instances that the system nodes are, as far as they do not run.
func (a *awsSim) launchSystem(cluster simaws.Cluster, nodes int) error {
	if err := a.findSystem(); err != nil || len(a.system) >= nodes {
		return err
	}
	for _, subnet := range systemSubnets[len(a.system):nodes] {
		err := a.Do(a.region, "ec2", url.Values{
			"Action": {"RunInstances"}, "InstanceType": {systemType}, "MinCount": {"1"}, "MaxCount": {"1"},
			"ImageId":  {"resolve:ssm:/aws/service/eks/optimized-ami/" + cluster.Version + "/amazon-linux-2023/x86_64/standard/recommended/image_id"},
			"SubnetId": {subnet}, "SecurityGroupId.1": {"sg-0abc123"}, "IamInstanceProfile.Name": {"KarpenterNodeInstanceProfile-" + cluster.Name},
			"UserData":                        {base64.StdEncoding.EncodeToString([]byte(systemUserData(cluster)))},
			"TagSpecification.1.ResourceType": {"instance"},
			"TagSpecification.1.Tag.1.Key":    {"Name"}, "TagSpecification.1.Tag.1.Value": {cluster.Name + "-" + systemGroup},
			"TagSpecification.1.Tag.2.Key": {groupTag}, "TagSpecification.1.Tag.2.Value": {systemGroup},
			"TagSpecification.1.Tag.3.Key": {"eks:cluster-name"}, "TagSpecification.1.Tag.3.Value": {cluster.Name},
		})
		if err != nil {
			return fmt.Errorf("launching the system node: %w", err)
		}
	}
	return a.findSystem()
}

// findSystem notes which instances the system nodes are.
func (a *awsSim) findSystem() error {
	running, err := a.alive(func(i *simaws.InstanceView) bool { return i.Tags[groupTag] == systemGroup })
	a.system = running
	return err
}

// systemUserData makes a node of the system group: for pods that tolerate being among the cluster's own.
func systemUserData(cluster simaws.Cluster) string {
	return `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: ` + cluster.Name + `
    apiServerEndpoint: ` + cluster.Endpoint + `
    certificateAuthority: ` + cluster.CertificateAuthority + `
    cidr: ` + cluster.ServiceCIDR + `
  kubelet:
    config:
      clusterDNS:
        - ` + plane.DNSAddress + `
      registerWithTaints:
        - key: CriticalAddonsOnly
          value: "true"
          effect: NoSchedule
    flags:
      - --node-labels=eks.amazonaws.com/nodegroup=` + systemGroup + `,eks.amazonaws.com/capacityType=ON_DEMAND
`
}

// launched lists the instances beside the system nodes' that have not ended, in the order of their launch.
func (a *awsSim) launched(spotOnly bool) ([]string, error) {
	return a.alive(func(i *simaws.InstanceView) bool {
		return !slices.Contains(a.system, i.ID) && (!spotOnly || i.Lifecycle == "spot")
	})
}

// alive lists the instances of a kind that have not ended, in the order of their launch.
func (a *awsSim) alive(of func(*simaws.InstanceView) bool) (ids []string, err error) {
	instances, err := a.Instances(a.region)
	if err != nil {
		return nil, fmt.Errorf("listing instances: %w", err)
	}
	for i := range instances {
		if state := instances[i].State; (state == "pending" || state == "running") && of(&instances[i]) {
			ids = append(ids, instances[i].ID)
		}
	}
	return ids, nil
}

// end ends instances behind the controller's back, or announces that AWS will interrupt them.
func (a *awsSim) end(interrupt bool, ids []string) error {
	if interrupt {
		return a.Interrupt(a.region, ids...)
	}
	form := url.Values{"Action": {"TerminateInstances"}}
	for i, id := range ids {
		form.Set(fmt.Sprintf("InstanceId.%d", i+1), id)
	}
	return a.Do(a.region, "ec2", form)
}
