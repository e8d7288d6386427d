package awscontract

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

func TestSDKQueues(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	_, err := w.sqs.GetQueueUrl(w.ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("nope")})
	refuses(t, err, "AWS.SimpleQueueService.NonExistentQueue")
	created := must[*sqs.CreateQueueOutput](t)(w.sqs.CreateQueue(w.ctx, &sqs.CreateQueueInput{QueueName: aws.String("q"), Attributes: map[string]string{"MessageRetentionPeriod": "300"}, Tags: map[string]string{"a": "b"}}))
	url := must[*sqs.GetQueueUrlOutput](t)(w.sqs.GetQueueUrl(w.ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("q")})).QueueUrl
	if *url != *created.QueueUrl {
		t.Errorf("URLs differ: %s and %s", *url, *created.QueueUrl)
	}
	must[*sqs.SendMessageOutput](t)(w.sqs.SendMessage(w.ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("one")}))
	batch := must[*sqs.SendMessageBatchOutput](t)(w.sqs.SendMessageBatch(w.ctx, &sqs.SendMessageBatchInput{QueueUrl: url, Entries: []sqstypes.SendMessageBatchRequestEntry{{Id: aws.String("a"), MessageBody: aws.String("two")}, {Id: aws.String("b"), MessageBody: aws.String("three")}}}))
	if len(batch.Successful) != 2 {
		t.Errorf("batch: %+v", batch)
	}
	receive := func() []sqstypes.Message {
		t.Helper()
		return must[*sqs.ReceiveMessageOutput](t)(w.sqs.ReceiveMessage(w.ctx, &sqs.ReceiveMessageInput{
			QueueUrl: url, MaxNumberOfMessages: 10, VisibilityTimeout: 20, MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{"SentTimestamp"}, MessageAttributeNames: []string{"All"},
		})).Messages
	}
	got := receive()
	if len(got) != 3 || *got[0].Body != "one" || got[0].Attributes["SentTimestamp"] == "" {
		t.Fatalf("messages: %+v", got)
	}
	if again := receive(); len(again) != 0 {
		t.Errorf("hidden messages came again: %+v", again)
	}
	must[*sqs.DeleteMessageOutput](t)(w.sqs.DeleteMessage(w.ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: got[0].ReceiptHandle}))
	must[*sqs.ChangeMessageVisibilityOutput](t)(w.sqs.ChangeMessageVisibility(w.ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: got[1].ReceiptHandle, VisibilityTimeout: 0}))
	if again := receive(); len(again) != 1 || *again[0].Body != "two" {
		t.Errorf("after visibility 0: %+v", again)
	}
	w.clock.Advance(21 * time.Second)
	got = receive()
	if len(got) != 2 {
		t.Fatalf("after the timeout: %+v", got)
	}
	must[*sqs.DeleteMessageBatchOutput](t)(w.sqs.DeleteMessageBatch(w.ctx, &sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: []sqstypes.DeleteMessageBatchRequestEntry{{Id: aws.String("a"), ReceiptHandle: got[0].ReceiptHandle}}}))
	must[*sqs.SetQueueAttributesOutput](t)(w.sqs.SetQueueAttributes(w.ctx, &sqs.SetQueueAttributesInput{QueueUrl: url, Attributes: map[string]string{"VisibilityTimeout": "5"}}))
	must[*sqs.TagQueueOutput](t)(w.sqs.TagQueue(w.ctx, &sqs.TagQueueInput{QueueUrl: url, Tags: map[string]string{"c": "d"}}))
	if tags := must[*sqs.ListQueueTagsOutput](t)(w.sqs.ListQueueTags(w.ctx, &sqs.ListQueueTagsInput{QueueUrl: url})); len(tags.Tags) != 2 {
		t.Errorf("tags: %v", tags.Tags)
	}
	attrs := must[*sqs.GetQueueAttributesOutput](t)(w.sqs.GetQueueAttributes(w.ctx, &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: []sqstypes.QueueAttributeName{"All"}}))
	if attrs.Attributes["QueueArn"] != "arn:aws:sqs:us-west-2:111122223333:q" || attrs.Attributes["VisibilityTimeout"] != "5" || attrs.Attributes["ApproximateNumberOfMessagesNotVisible"] != "1" {
		t.Errorf("attributes: %v", attrs.Attributes)
	}
	if l := must[*sqs.ListQueuesOutput](t)(w.sqs.ListQueues(w.ctx, &sqs.ListQueuesInput{QueueNamePrefix: aws.String("q")})); len(l.QueueUrls) != 1 {
		t.Errorf("queues: %v", l.QueueUrls)
	}
	qp, queues := sqs.NewListQueuesPaginator(w.sqs, &sqs.ListQueuesInput{MaxResults: aws.Int32(1)}), 0
	for qp.HasMorePages() {
		queues += len(must[*sqs.ListQueuesOutput](t)(qp.NextPage(w.ctx)).QueueUrls)
	}
	if queues != 2 {
		t.Errorf("pages of one gave %d queues", queues)
	}
	must[*sqs.PurgeQueueOutput](t)(w.sqs.PurgeQueue(w.ctx, &sqs.PurgeQueueInput{QueueUrl: url}))
	w.clock.Advance(time.Minute)
	if left := receive(); len(left) != 0 {
		t.Errorf("after purge: %+v", left)
	}
	must[*sqs.DeleteQueueOutput](t)(w.sqs.DeleteQueue(w.ctx, &sqs.DeleteQueueInput{QueueUrl: url}))
}

// TestSDKLongPoll shows that a waiting poll is answered when a message comes,
// not when its time is over.
func TestSDKLongPoll(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	url := must[*sqs.GetQueueUrlOutput](t)(w.sqs.GetQueueUrl(w.ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("my-cluster")})).QueueUrl
	got := make(chan int)
	go func() {
		out, err := w.sqs.ReceiveMessage(w.ctx, &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20, MaxNumberOfMessages: 10})
		if err != nil {
			t.Error(err)
			got <- 0
			return
		}
		got <- len(out.Messages)
	}()
	// The clock stands still, so only the message can end the poll.
	must[*sqs.SendMessageOutput](t)(w.sqs.SendMessage(w.ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x")}))
	if n := <-got; n != 1 {
		t.Errorf("the poll got %d messages", n)
	}
}

func TestSDKParametersAndPrices(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	for _, path := range []string{
		"/aws/service/eks/optimized-ami/1.37/amazon-linux-2/recommended/image_id",
		"/aws/service/eks/optimized-ami/1.31/amazon-linux-2-arm64/amazon-eks-arm64-node-1.31-v20250704/image_id",
		"/aws/service/eks/optimized-ami/1.37/amazon-linux-2023/arm64/nvidia/recommended/image_id",
		"/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/neuron/amazon-eks-node-al2023-x86_64-neuron-1.34-v20250920/image_id",
		"/aws/service/bottlerocket/aws-k8s-1.34-nvidia/arm64/latest/image_id", "/aws/service/bottlerocket/aws-k8s-1.34/x86_64/1.42.0/image_id",
		"/aws/service/ami-windows-latest/Windows_Server-2025-English-Core-EKS_Optimized-1.35/image_id",
	} {
		p := must[*ssm.GetParameterOutput](t)(w.ssm.GetParameter(w.ctx, &ssm.GetParameterInput{Name: &path}))
		if d := must[*ec2.DescribeImagesOutput](t)(w.ec2.DescribeImages(w.ctx, &ec2.DescribeImagesInput{ImageIds: []string{*p.Parameter.Value}})); len(d.Images) != 1 {
			t.Errorf("%s leads to %s, which does not exist", path, *p.Parameter.Value)
		}
	}
	_, err := w.ssm.GetParameter(w.ctx, &ssm.GetParameterInput{Name: aws.String("/aws/service/none")})
	refuses(t, err, "ParameterNotFound")
	must[*ssm.PutParameterOutput](t)(w.ssm.PutParameter(w.ctx, &ssm.PutParameterInput{Name: aws.String("/my/ami"), Value: aws.String("ami-1"), Type: ssmtypes.ParameterTypeString}))
	must[*ssm.GetParameterOutput](t)(w.ssm.GetParameter(w.ctx, &ssm.GetParameterInput{Name: aws.String("arn:aws:ssm:us-west-2:111122223333:parameter/my/ami")}))
	if ps := must[*ssm.GetParametersOutput](t)(w.ssm.GetParameters(w.ctx, &ssm.GetParametersInput{Names: []string{"/my/ami", "/my/none"}})); len(ps.Parameters) != 1 || len(ps.InvalidParameters) != 1 {
		t.Errorf("parameters: %+v", ps)
	}
	n := 0
	pp := ssm.NewGetParametersByPathPaginator(w.ssm, &ssm.GetParametersByPathInput{Path: aws.String("/aws/service/bottlerocket"), Recursive: aws.Bool(true)})
	for pp.HasMorePages() {
		n += len(must[*ssm.GetParametersByPathOutput](t)(pp.NextPage(w.ctx)).Parameters)
	}
	if n < 100 {
		t.Errorf("%d Bottlerocket parameters", n)
	}

	prices := map[string]string{}
	for _, kind := range [][2]string{{"Shared", "Compute Instance"}, {"Dedicated", "Compute Instance (bare metal)"}} {
		in := &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(100)}
		for _, f := range [][2]string{{"regionCode", "us-west-2"}, {"serviceCode", "AmazonEC2"}, {"preInstalledSw", "NA"}, {"operatingSystem", "Linux"}, {"capacitystatus", "Used"}, {"marketoption", "OnDemand"}, {"tenancy", kind[0]}, {"productFamily", kind[1]}} {
			in.Filters = append(in.Filters, pricingtypes.Filter{Type: "TERM_MATCH", Field: aws.String(f[0]), Value: aws.String(f[1])})
		}
		p := pricing.NewGetProductsPaginator(w.pricing, in)
		for p.HasMorePages() {
			for _, text := range must[*pricing.GetProductsOutput](t)(p.NextPage(w.ctx)).PriceList {
				typ, usd := readPrice(t, text)
				prices[typ] = usd
			}
		}
	}
	if len(prices) < 700 || !strings.HasPrefix(prices["m5.large"], "0.096") || prices["m5.metal"] == "" {
		t.Errorf("%d prices, m5.large %s, m5.metal %s", len(prices), prices["m5.large"], prices["m5.metal"])
	}
}

func readPrice(t *testing.T, text string) (typ, usd string) {
	t.Helper()
	var p struct {
		Product struct {
			Attributes map[string]string `json:"attributes"`
		} `json:"product"`
		Terms struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct {
					PricePerUnit map[string]string `json:"pricePerUnit"`
				} `json:"priceDimensions"`
			}
		} `json:"terms"`
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	for _, term := range p.Terms.OnDemand {
		for _, d := range term.PriceDimensions {
			usd = d.PricePerUnit["USD"]
		}
	}
	return p.Product.Attributes["instanceType"], usd
}

func TestSDKClusters(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	c := must[*eks.DescribeClusterOutput](t)(w.eks.DescribeCluster(w.ctx, &eks.DescribeClusterInput{Name: aws.String("my-cluster")})).Cluster
	if *c.Endpoint != "https://cluster.local" || *c.Version != "1.34" || *c.Arn != "arn:aws:eks:us-west-2:111122223333:cluster/my-cluster" || *c.KubernetesNetworkConfig.ServiceIpv4Cidr != "10.100.0.0/16" {
		t.Errorf("cluster: %+v", c)
	}
	_, err := w.eks.DescribeCluster(w.ctx, &eks.DescribeClusterInput{Name: aws.String("none")})
	refuses(t, err, "ResourceNotFoundException")
	must[*eks.CreateClusterOutput](t)(w.eks.CreateCluster(w.ctx, &eks.CreateClusterInput{Name: aws.String("new"), RoleArn: aws.String("arn:aws:iam::111122223333:role/x"), ResourcesVpcConfig: &ekstypes.VpcConfigRequest{}, KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigRequest{IpFamily: "ipv6"}}))
	if l := must[*eks.ListClustersOutput](t)(w.eks.ListClusters(w.ctx, &eks.ListClustersInput{})); len(l.Clusters) != 3 {
		t.Errorf("clusters: %v", l.Clusters)
	}
	const who = "arn:aws:iam::111122223333:role/node"
	must[*eks.CreateAccessEntryOutput](t)(w.eks.CreateAccessEntry(w.ctx, &eks.CreateAccessEntryInput{ClusterName: aws.String("new"), PrincipalArn: aws.String(who), Type: aws.String("EC2_LINUX")}))
	must[*eks.DescribeAccessEntryOutput](t)(w.eks.DescribeAccessEntry(w.ctx, &eks.DescribeAccessEntryInput{ClusterName: aws.String("new"), PrincipalArn: aws.String(who)}))
	if l := must[*eks.ListAccessEntriesOutput](t)(w.eks.ListAccessEntries(w.ctx, &eks.ListAccessEntriesInput{ClusterName: aws.String("new")})); len(l.AccessEntries) != 1 {
		t.Errorf("entries: %v", l.AccessEntries)
	}
	must[*eks.DeleteAccessEntryOutput](t)(w.eks.DeleteAccessEntry(w.ctx, &eks.DeleteAccessEntryInput{ClusterName: aws.String("new"), PrincipalArn: aws.String(who)}))
	must[*eks.DeleteClusterOutput](t)(w.eks.DeleteCluster(w.ctx, &eks.DeleteClusterInput{Name: aws.String("new")}))
}

func TestSDKRolesAndProfiles(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	w.nodeProfile()
	role, policyText := aws.String("node"), `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ec2:Describe*","Resource":"*"}]}`
	if r := must[*iam.GetRoleOutput](t)(w.iam.GetRole(w.ctx, &iam.GetRoleInput{RoleName: role})); *r.Role.Arn != "arn:aws:iam::111122223333:role/node" || r.Role.AssumeRolePolicyDocument == nil {
		t.Errorf("role: %+v", r.Role)
	}
	_, err := w.iam.CreateRole(w.ctx, &iam.CreateRoleInput{RoleName: role, AssumeRolePolicyDocument: aws.String(trust)})
	refuses(t, err, "EntityAlreadyExists")
	_, err = w.iam.GetInstanceProfile(w.ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String("none")})
	refuses(t, err, "NoSuchEntity")
	_, err = w.iam.DeleteInstanceProfile(w.ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: aws.String("node")})
	refuses(t, err, "DeleteConflict")
	if p := must[*iam.GetInstanceProfileOutput](t)(w.iam.GetInstanceProfile(w.ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String("node")})); *p.InstanceProfile.Roles[0].RoleName != "node" {
		t.Errorf("profile: %+v", p.InstanceProfile)
	}
	must[*iam.TagInstanceProfileOutput](t)(w.iam.TagInstanceProfile(w.ctx, &iam.TagInstanceProfileInput{InstanceProfileName: aws.String("node"), Tags: []iamtypes.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}))
	if l := must[*iam.ListInstanceProfileTagsOutput](t)(w.iam.ListInstanceProfileTags(w.ctx, &iam.ListInstanceProfileTagsInput{InstanceProfileName: aws.String("node")})); len(l.Tags) != 1 {
		t.Errorf("tags: %v", l.Tags)
	}
	for _, n := range []string{"a", "b", "c"} {
		must[*iam.CreateInstanceProfileOutput](t)(w.iam.CreateInstanceProfile(w.ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("p-" + n), Path: aws.String("/karpenter/us-west-2/my-cluster/uid/")}))
	}
	n := 0
	lp := iam.NewListInstanceProfilesPaginator(w.iam, &iam.ListInstanceProfilesInput{PathPrefix: aws.String("/karpenter/us-west-2/my-cluster/"), MaxItems: aws.Int32(2)})
	for lp.HasMorePages() {
		n += len(must[*iam.ListInstanceProfilesOutput](t)(lp.NextPage(w.ctx)).InstanceProfiles)
	}
	if n != 3 {
		t.Errorf("%d profiles under the path", n)
	}
	if l := must[*iam.ListInstanceProfilesForRoleOutput](t)(w.iam.ListInstanceProfilesForRole(w.ctx, &iam.ListInstanceProfilesForRoleInput{RoleName: role})); len(l.InstanceProfiles) != 1 {
		t.Errorf("profiles of the role: %v", l.InstanceProfiles)
	}
	must[*iam.RemoveRoleFromInstanceProfileOutput](t)(w.iam.RemoveRoleFromInstanceProfile(w.ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: aws.String("node"), RoleName: role}))
	must[*iam.DeleteInstanceProfileOutput](t)(w.iam.DeleteInstanceProfile(w.ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: aws.String("node")}))

	pol := must[*iam.CreatePolicyOutput](t)(w.iam.CreatePolicy(w.ctx, &iam.CreatePolicyInput{PolicyName: aws.String("p"), PolicyDocument: aws.String(policyText)})).Policy
	must[*iam.AttachRolePolicyOutput](t)(w.iam.AttachRolePolicy(w.ctx, &iam.AttachRolePolicyInput{RoleName: role, PolicyArn: pol.Arn}))
	_, err = w.iam.AttachRolePolicy(w.ctx, &iam.AttachRolePolicyInput{RoleName: role, PolicyArn: aws.String("arn:aws:iam::aws:policy/None")})
	refuses(t, err, "NoSuchEntity")
	must[*iam.PutRolePolicyOutput](t)(w.iam.PutRolePolicy(w.ctx, &iam.PutRolePolicyInput{RoleName: role, PolicyName: aws.String("inline"), PolicyDocument: aws.String(policyText)}))
	must[*iam.GetRolePolicyOutput](t)(w.iam.GetRolePolicy(w.ctx, &iam.GetRolePolicyInput{RoleName: role, PolicyName: aws.String("inline")}))
	must[*iam.ListRolePoliciesOutput](t)(w.iam.ListRolePolicies(w.ctx, &iam.ListRolePoliciesInput{RoleName: role}))
	must[*iam.ListRolesOutput](t)(w.iam.ListRoles(w.ctx, &iam.ListRolesInput{}))
	must[*iam.ListPoliciesOutput](t)(w.iam.ListPolicies(w.ctx, &iam.ListPoliciesInput{}))
	must[*iam.CreatePolicyVersionOutput](t)(w.iam.CreatePolicyVersion(w.ctx, &iam.CreatePolicyVersionInput{PolicyArn: pol.Arn, PolicyDocument: aws.String(policyText), SetAsDefault: true}))
	must[*iam.GetPolicyVersionOutput](t)(w.iam.GetPolicyVersion(w.ctx, &iam.GetPolicyVersionInput{PolicyArn: pol.Arn, VersionId: aws.String("v2")}))
	if p := must[*iam.GetPolicyOutput](t)(w.iam.GetPolicy(w.ctx, &iam.GetPolicyInput{PolicyArn: pol.Arn})); *p.Policy.DefaultVersionId != "v2" || *p.Policy.AttachmentCount != 1 {
		t.Errorf("policy: %+v", p.Policy)
	}
	if l := must[*iam.ListAttachedRolePoliciesOutput](t)(w.iam.ListAttachedRolePolicies(w.ctx, &iam.ListAttachedRolePoliciesInput{RoleName: role})); len(l.AttachedPolicies) != 1 {
		t.Errorf("attached: %v", l.AttachedPolicies)
	}
	_, err = w.iam.DeletePolicy(w.ctx, &iam.DeletePolicyInput{PolicyArn: pol.Arn})
	refuses(t, err, "DeleteConflict")
	must[*iam.DetachRolePolicyOutput](t)(w.iam.DetachRolePolicy(w.ctx, &iam.DetachRolePolicyInput{RoleName: role, PolicyArn: pol.Arn}))
	must[*iam.DeletePolicyOutput](t)(w.iam.DeletePolicy(w.ctx, &iam.DeletePolicyInput{PolicyArn: pol.Arn}))
	must[*iam.DeleteRolePolicyOutput](t)(w.iam.DeleteRolePolicy(w.ctx, &iam.DeleteRolePolicyInput{RoleName: role, PolicyName: aws.String("inline")}))
	must[*iam.CreateServiceLinkedRoleOutput](t)(w.iam.CreateServiceLinkedRole(w.ctx, &iam.CreateServiceLinkedRoleInput{AWSServiceName: aws.String("spot.amazonaws.com")}))
	must[*iam.DeleteRoleOutput](t)(w.iam.DeleteRole(w.ctx, &iam.DeleteRoleInput{RoleName: role}))
}

func TestSDKIdentity(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	w.nodeProfile()
	arn := aws.String("arn:aws:iam::111122223333:role/node")
	if id := must[*sts.GetCallerIdentityOutput](t)(w.sts.GetCallerIdentity(w.ctx, &sts.GetCallerIdentityInput{})); *id.Account != "111122223333" {
		t.Errorf("identity: %+v", id)
	}
	web := must[*sts.AssumeRoleWithWebIdentityOutput](t)(w.sts.AssumeRoleWithWebIdentity(w.ctx, &sts.AssumeRoleWithWebIdentityInput{RoleArn: arn, RoleSessionName: aws.String("s"), WebIdentityToken: aws.String("token-of-some-length")}))
	must[*sts.AssumeRoleOutput](t)(w.sts.AssumeRole(w.ctx, &sts.AssumeRoleInput{RoleArn: arn, RoleSessionName: aws.String("s")}))
	_, err := w.sts.AssumeRole(w.ctx, &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::111122223333:role/none"), RoleSessionName: aws.String("s")})
	refuses(t, err, "AccessDenied")
	w.use(*web.Credentials.AccessKeyId)
	if id := must[*sts.GetCallerIdentityOutput](t)(w.sts.GetCallerIdentity(w.ctx, &sts.GetCallerIdentityInput{})); *id.Arn != "arn:aws:sts::111122223333:assumed-role/node/s" {
		t.Errorf("identity: %+v", id)
	}
	_, err = w.ec2.DescribeSubnets(w.ctx, &ec2.DescribeSubnetsInput{})
	refuses(t, err, "UnauthorizedOperation")
	w.use("999988887777")
	if id := must[*sts.GetCallerIdentityOutput](t)(w.sts.GetCallerIdentity(w.ctx, &sts.GetCallerIdentityInput{})); *id.Account != "999988887777" {
		t.Errorf("another account: %+v", id)
	}
}
