package migrate

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/simaws"
	"karpenter/test/harness"
	"karpenter/test/harness/simcloud"
)

const region = "us-west-2"

// instance is an instance with its claim and its node, which has joined the cluster at a time or is about to, and may have been rebooted.
type instance struct {
	Name, ID, Node, UID string
	Joined              bool
	Since, Reboot       string
}

// leftBehind is what the templates of testdata are filled with.
type leftBehind struct {
	Version, Release, Now, PoolUID        string
	Image, Subnet, Zone, ZoneID, Group    string
	ClassHash, ClassHashVersion, PoolHash string
	Instances                             []*instance
}

// site is a cluster and an AWS in which upstream Karpenter has run.
type site struct {
	*harness.Cluster
	*simcloud.World
	t    *testing.T
	left *leftBehind
}

// newSite starts a cluster and an AWS, and launches instances in it as upstream Karpenter does; two if none are given.
func newSite(t *testing.T, opts harness.Options, version string, instances ...*instance) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane; not with -short")
	}
	c := harness.Start(t, opts)
	w := simcloud.Start(t, simcloud.Options{Cluster: "my-cluster", NoBoot: true, Sim: func(o *simaws.Options) {
		o.Queue, o.KubernetesVersions = "my-cluster", []string{"1.34", "1.37"}
		o.Clusters[0].Version, o.Clusters[0].Endpoint, o.Clusters[0].ServiceCIDR = "1.37", c.Config.Host, "10.100.0.0/16"
	}})
	s := &site{Cluster: c, World: w, t: t, left: &leftBehind{Version: version, Group: "sg-0abc123", Subnet: "subnet-0abc123", Zone: "us-west-2a", ZoneID: "usw2-az1"}}
	images, err := w.Clients.EC2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Filters: []ec2types.Filter{{Name: aws.String("name"), Values: []string{"amazon-eks-node-al2023-x86_64-standard-1.37-*"}}}})
	if err != nil || len(images.Images) == 0 {
		t.Fatalf("images: %v", err)
	}
	newest := images.Images[0]
	for _, i := range images.Images {
		if aws.ToString(i.CreationDate) > aws.ToString(newest.CreationDate) {
			newest = i
		}
	}
	s.left.Image = aws.ToString(newest.ImageId)
	if len(instances) == 0 {
		instances = []*instance{{Name: "default-7rk9q", Joined: true}, {Name: "default-xw2tj", Joined: true}}
	}
	s.launch(instances)
	return s
}

// launch makes instances from a launch template, with the tags that upstream Karpenter gives them: at launch, and once their node has
// joined.
func (s *site) launch(instances []*instance) {
	s.t.Helper()
	ctx := s.t.Context()
	tags := []ec2types.Tag{tag("kubernetes.io/cluster/my-cluster", "owned"), tag("karpenter.sh/nodepool", "default"), tag("karpenter.k8s.aws/ec2nodeclass", "default"), tag("eks:eks-cluster-name", "my-cluster")}
	name := aws.String("karpenter.k8s.aws/14829374651029384756")
	_, err := s.Clients.EC2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: name,
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: aws.String(s.left.Image), SecurityGroupIds: []string{s.left.Group}},
		TagSpecifications:  []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate, Tags: tags}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, i := range instances {
		its := slices.Clone(tags)
		if i.Joined {
			its = append(its, tag("karpenter.sh/nodeclaim", i.Name), tag("Name", "ip-"+i.Name))
		}
		out, err := s.Clients.EC2.RunInstances(ctx, &ec2.RunInstancesInput{
			MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: "m5.large", SubnetId: aws.String(s.left.Subnet),
			LaunchTemplate:    &ec2types.LaunchTemplateSpecification{LaunchTemplateName: name},
			TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: its}},
		})
		if err != nil {
			s.t.Fatal(err)
		}
		i.ID, i.Node = aws.ToString(out.Instances[0].InstanceId), "ip-"+i.Name+".internal"
		s.left.Instances = append(s.left.Instances, i)
	}
}

// caBundle is the cluster's certificate authority. It goes into user data, and so into the drift hash of classes.
func caBundle(c *harness.Cluster) string { return base64.StdEncoding.EncodeToString(c.Config.CAData) }

func tag(key, value string) ec2types.Tag {
	return ec2types.Tag{Key: aws.String(key), Value: aws.String(value)}
}

// objects are the documents of a file of testdata.
func (s *site) objects(file string) []*unstructured.Unstructured {
	s.t.Helper()
	tmpl, err := template.ParseFiles(filepath.Join("testdata", file))
	if err != nil {
		s.t.Fatal(err)
	}
	var text bytes.Buffer
	if err := tmpl.Execute(&text, s.left); err != nil {
		s.t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, document := range strings.Split(text.String(), "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			s.t.Fatalf("%s: %v\n%s", file, err, document)
		}
		if len(object.Object) > 0 {
			out = append(out, object)
		}
	}
	return out
}

// write creates objects with their status, and remembers the UIDs of claims.
func (s *site) write(file string) {
	s.t.Helper()
	for _, object := range s.objects(file) {
		status := object.Object["status"]
		if err := s.Client.Create(s.t.Context(), object); err != nil {
			s.t.Fatal(err)
		}
		if status != nil {
			object.Object["status"] = status
			if err := s.Client.Status().Update(s.t.Context(), object); err != nil {
				s.t.Fatal(err)
			}
		}
		if object.GetKind() == "Node" {
			s.open(object.GetName())
		}
		if object.GetKind() == "NodePool" {
			s.left.PoolUID = string(object.GetUID())
		}
		for _, m := range s.left.Instances {
			if m.Name == object.GetName() && object.GetKind() == "NodeClaim" {
				m.UID = string(object.GetUID())
			}
		}
	}
}

// open removes the taint that the API server gives new nodes, as the node lifecycle controller does once they are ready.
func (s *site) open(name string) {
	s.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node := &corev1.Node{}
		if err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
		return s.Client.Update(s.t.Context(), node)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// hashes fills in what upstream Karpenter would have written; that ours are equal to its own is tested in api/.
func (s *site) hashes(file string) {
	s.t.Helper()
	for _, object := range s.objects(file) {
		raw, err := object.MarshalJSON()
		if err != nil {
			s.t.Fatal(err)
		}
		switch object.GetKind() {
		case "NodePool":
			pool := &karpv1.NodePool{}
			if err := yaml.Unmarshal(raw, pool); err != nil {
				s.t.Fatal(err)
			}
			s.left.PoolHash = pool.Hash()
		case awsv1.EC2NodeClassKind:
			class := &awsv1.EC2NodeClass{}
			if err := yaml.Unmarshal(raw, class); err != nil {
				s.t.Fatal(err)
			}
			s.left.ClassHash, s.left.ClassHashVersion = class.Hash(caBundle(s.Cluster)), "v5"
		}
	}
}

// cluster is everything there is, by kind and name, in v1.
func (s *site) cluster() map[string]*unstructured.Unstructured {
	s.t.Helper()
	found := map[string]*unstructured.Unstructured{}
	for _, kind := range []schema.GroupVersionKind{
		{Group: karpv1.Group, Version: "v1", Kind: "NodePool"},
		{Group: karpv1.Group, Version: "v1", Kind: "NodeClaim"},
		{Group: awsv1.Group, Version: "v1", Kind: awsv1.EC2NodeClassKind},
		{Version: "v1", Kind: "Node"},
		{Version: "v1", Kind: "Pod"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := s.Client.List(s.t.Context(), list); err != nil {
			s.t.Fatal(err)
		}
		for i := range list.Items {
			found[kind.Kind+" "+list.Items[i].GetName()] = &list.Items[i]
		}
	}
	return found
}

// instances are the states and launch times of all instances that there ever were.
func (s *site) instances() string {
	s.t.Helper()
	list, err := s.Sim.Instances(region)
	if err != nil {
		s.t.Fatal(err)
	}
	var b strings.Builder
	for _, i := range list {
		fmt.Fprintf(&b, "%s %s %s %s\n", i.ID, i.Type, i.State, i.Launched.Format(time.RFC3339))
	}
	return b.String()
}
