package local

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"karpenter/internal/cloud/simaws"
	"karpenter/internal/local/plane"
)

// systemGroup is the name of the node group that runs what belongs to the cluster itself, outside of any NodePool.
const systemGroup = "system"

// systemType has room for the cluster's own pods and little else.
const systemType = "m5.xlarge"

const trustEC2 = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

// query asks the AWS simulator by the protocol that EC2 and IAM share, as an administrator, and decodes the answer.
func (a *awsSim) query(ctx context.Context, service string, form url.Values, into any) error {
	form.Set("Version", map[string]string{"ec2": "2016-11-15", "iam": "2010-05-08"}[service])
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("%s:%s: %w", service, form.Get("Action"), err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+accessKey+"/20260101/"+a.region+"/"+service+"/aws4_request")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%s:%s: %w", service, form.Get("Action"), err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s:%s: %w", service, form.Get("Action"), err)
	}
	if response.StatusCode != http.StatusOK {
		return &queryError{action: service + ":" + form.Get("Action"), status: response.StatusCode, body: string(body)}
	}
	if into == nil {
		return nil
	}
	if err := xml.Unmarshal(body, into); err != nil {
		return fmt.Errorf("reading the answer to %s:%s: %w", service, form.Get("Action"), err)
	}
	return nil
}

// queryError is an answer of the AWS simulator that is no success.
type queryError struct {
	action, body string
	status       int
}

func (e *queryError) Error() string {
	return fmt.Sprintf("%s: status %d: %s", e.action, e.status, e.body)
}

// prepare makes what an administrator makes before Karpenter is installed: the role and the instance profile of nodes,
// and the node group for the cluster's own pods. What is there already stays.
func (a *awsSim) prepare(ctx context.Context, cluster string) error {
	role, profile := "KarpenterNodeRole-"+cluster, "KarpenterNodeInstanceProfile-"+cluster
	for _, form := range []url.Values{
		{"Action": {"CreateRole"}, "RoleName": {role}, "AssumeRolePolicyDocument": {trustEC2}},
		{"Action": {"CreateInstanceProfile"}, "InstanceProfileName": {profile}},
		{"Action": {"AddRoleToInstanceProfile"}, "InstanceProfileName": {profile}, "RoleName": {role}},
	} {
		err := a.query(ctx, "iam", form, nil)
		if refused, ok := err.(*queryError); ok && (strings.Contains(refused.body, "EntityAlreadyExists") || strings.Contains(refused.body, "LimitExceeded")) {
			continue // of an earlier run; a profile holds one role
		}
		if err != nil {
			return fmt.Errorf("preparing the AWS simulator: %w", err)
		}
	}
	for _, policy := range []string{"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly", "AmazonSSMManagedInstanceCore"} {
		form := url.Values{"Action": {"AttachRolePolicy"}, "RoleName": {role}, "PolicyArn": {"arn:aws:iam::aws:policy/" + policy}}
		if err := a.query(ctx, "iam", form, nil); err != nil {
			return fmt.Errorf("preparing the AWS simulator: %w", err)
		}
	}
	return nil
}

// systemSubnets are where system nodes are, each in a zone of its own, in the order in which they are made.
var systemSubnets = []string{"subnet-0abc123", "subnet-0def456"}

// launchSystem starts the instances that the system nodes are, as far as they do not run.
func (a *awsSim) launchSystem(ctx context.Context, cluster simaws.Cluster, nodes int) error {
	var running struct {
		IDs []string `xml:"reservationSet>item>instancesSet>item>instanceId"`
	}
	if err := a.query(ctx, "ec2", url.Values{
		"Action": {"DescribeInstances"}, "Filter.1.Name": {"tag:eks:nodegroup-name"}, "Filter.1.Value.1": {systemGroup},
		"Filter.2.Name": {"instance-state-name"}, "Filter.2.Value.1": {"pending"}, "Filter.2.Value.2": {"running"},
	}, &running); err != nil {
		return fmt.Errorf("looking for the system node: %w", err)
	}
	a.system = running.IDs
	if len(a.system) >= nodes {
		return nil
	}
	image, err := a.image(ctx, cluster.Version)
	if err != nil {
		return err
	}
	for _, subnet := range systemSubnets[len(a.system):nodes] {
		if err := a.launchInto(ctx, cluster, image, subnet); err != nil {
			return err
		}
	}
	return nil
}

// launchInto starts one instance of the system group.
func (a *awsSim) launchInto(ctx context.Context, cluster simaws.Cluster, image, subnet string) error {
	var made struct {
		ID string `xml:"instancesSet>item>instanceId"`
	}
	err := a.query(ctx, "ec2", url.Values{
		"Action": {"RunInstances"}, "ImageId": {image}, "InstanceType": {systemType}, "MinCount": {"1"}, "MaxCount": {"1"},
		"SubnetId": {subnet}, "SecurityGroupId.1": {"sg-0abc123"}, "IamInstanceProfile.Name": {"KarpenterNodeInstanceProfile-" + cluster.Name},
		"UserData":                        {base64.StdEncoding.EncodeToString([]byte(systemUserData(cluster)))},
		"TagSpecification.1.ResourceType": {"instance"},
		"TagSpecification.1.Tag.1.Key":    {"Name"}, "TagSpecification.1.Tag.1.Value": {cluster.Name + "-" + systemGroup},
		"TagSpecification.1.Tag.2.Key": {"eks:nodegroup-name"}, "TagSpecification.1.Tag.2.Value": {systemGroup},
		"TagSpecification.1.Tag.3.Key": {"eks:cluster-name"}, "TagSpecification.1.Tag.3.Value": {cluster.Name},
	}, &made)
	if err != nil {
		return fmt.Errorf("launching the system node: %w", err)
	}
	a.system = append(a.system, made.ID)
	return nil
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

// image finds the newest AL2023 image for a version of Kubernetes such as 1.37.
func (a *awsSim) image(ctx context.Context, version string) (string, error) {
	var found struct {
		Images []struct {
			ID   string `xml:"imageId"`
			Name string `xml:"name"`
		} `xml:"imagesSet>item"`
	}
	name := "amazon-eks-node-al2023-x86_64-standard-" + version + "-*"
	if err := a.query(ctx, "ec2", url.Values{"Action": {"DescribeImages"}, "Filter.1.Name": {"name"}, "Filter.1.Value.1": {name}}, &found); err != nil {
		return "", fmt.Errorf("looking for an image: %w", err)
	}
	if len(found.Images) == 0 {
		return "", fmt.Errorf("the AWS simulator has no image %s", name)
	}
	names := map[string]string{}
	for _, image := range found.Images {
		names[image.Name] = image.ID
	}
	all := make([]string, 0, len(names))
	for name := range names {
		all = append(all, name)
	}
	return names[slices.Max(all)], nil // their names end with a date
}

// volumeGiB is the size of the volume that a machine keeps its pods' files on.
func (a *awsSim) volumeGiB(ctx context.Context, m *simaws.Machine) (int64, error) {
	var found struct {
		Volumes []struct {
			Size   string `xml:"size"`
			Device string `xml:"attachmentSet>item>device"`
		} `xml:"volumeSet>item"`
	}
	if err := a.query(ctx, "ec2", url.Values{
		"Action": {"DescribeVolumes"}, "Filter.1.Name": {"attachment.instance-id"}, "Filter.1.Value.1": {m.InstanceID},
	}, &found); err != nil {
		return 0, fmt.Errorf("looking up the volumes of %s: %w", m.InstanceID, err)
	}
	root := "/dev/xvda"
	switch m.Family {
	case "Bottlerocket": // the first holds the system only
		root = "/dev/xvdb"
	case "Windows":
		root = "/dev/sda1"
	}
	size := ""
	for i, volume := range found.Volumes {
		if i == 0 || volume.Device == root {
			size = volume.Size
		}
	}
	gib, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the volumes of %s: size %q is not a number", m.InstanceID, size)
	}
	return gib, nil
}

// launched lists the instances beside the system nodes' that have not ended, in the order of their launch.
func (a *awsSim) launched(spotOnly bool) ([]string, error) {
	instances, err := a.Instances(a.region)
	if err != nil {
		return nil, fmt.Errorf("listing instances: %w", err)
	}
	var ids []string
	for i := range instances {
		alive := instances[i].State == "pending" || instances[i].State == "running"
		if alive && !slices.Contains(a.system, instances[i].ID) && (!spotOnly || instances[i].Lifecycle == "spot") {
			ids = append(ids, instances[i].ID)
		}
	}
	return ids, nil
}
