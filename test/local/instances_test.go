package local

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/cloud/aws/userdata"
)

func ec2Client(url string) *ec2.Client {
	return ec2.NewFromConfig(aws.Config{
		Region: "us-west-2", BaseEndpoint: aws.String(url), Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// launch starts instances the way the controller does: user data by our own renderer, a launch template, an instant
// fleet. It returns their ids.
func launch(ctx context.Context, t *testing.T, api *ec2.Client, endpoint, name, instanceType string) string {
	t.Helper()
	maxPods := int32(20)
	document, err := userdata.Render(userdata.AL2023, userdata.Options{
		ClusterName: "my-cluster", Endpoint: endpoint, CABundle: "Y2E=", ServiceCIDR: "10.96.0.0/16",
		Labels:  map[string]string{"karpenter.sh/nodepool": name, "karpenter.sh/capacity-type": "spot", "team": "blue"},
		Taints:  []userdata.Taint{{Key: "karpenter.sh/unregistered", Effect: "NoExecute"}},
		Kubelet: userdata.Kubelet{MaxPods: &maxPods, KubeReserved: map[string]string{"cpu": "200m"}, SystemReserved: map[string]string{"memory": "1Gi"}, EvictionHard: map[string]string{"memory.available": "5%"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	images, err := api.DescribeImages(ctx, &ec2.DescribeImagesInput{Filters: []types.Filter{{Name: aws.String("name"), Values: []string{"amazon-eks-node-al2023-x86_64-standard-1.37-*"}}}})
	if err != nil || len(images.Images) == 0 {
		t.Fatalf("images: %v", err)
	}
	if _, err := api.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(name),
		LaunchTemplateData: &types.RequestLaunchTemplateData{
			ImageId: images.Images[0].ImageId, UserData: aws.String(document.Base64()), SecurityGroupIds: []string{"sg-0abc123"},
			IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("KarpenterNodeInstanceProfile-my-cluster")},
			BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{
				{DeviceName: aws.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(100), VolumeType: types.VolumeTypeGp3}},
			},
		},
	}); err != nil {
		t.Fatal(err)
	}
	fleet, err := api.CreateFleet(ctx, &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeSpot,
		},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String(name), Version: aws.String("$Latest")},
			Overrides:                   []types.FleetLaunchTemplateOverridesRequest{{InstanceType: types.InstanceType(instanceType), SubnetId: aws.String("subnet-0def456")}},
		}},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: aws.String("karpenter.sh/nodepool"), Value: aws.String(name)}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(fleet.Instances) != 1 || len(fleet.Instances[0].InstanceIds) != 1 {
		t.Fatalf("fleet: %+v, want one instance", fleet)
	}
	return fleet.Instances[0].InstanceIds[0]
}

// nodeOf waits for the node of an instance to be ready.
func nodeOf(t *testing.T, kube client.Client, id string) *corev1.Node {
	t.Helper()
	var found *corev1.Node
	until(t, "the node of "+id+" to be ready", func() bool {
		var nodes corev1.NodeList
		if kube.List(t.Context(), &nodes) != nil {
			return false
		}
		for i := range nodes.Items {
			if found = &nodes.Items[i]; strings.HasSuffix(found.Spec.ProviderID, "/"+id) {
				return ready(found)
			}
		}
		return false
	})
	return found
}

// podOn is a pod that only the node of a pool can take, also while nobody has registered it.
func podOn(name, pool string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"karpenter.sh/nodepool": pool},
			Tolerations:  []corev1.Toleration{{Key: "karpenter.sh/unregistered", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "pause", Image: "pause", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			}}},
		},
	}
}

func TestInstancesBecomeNodes(t *testing.T) {
	api, kube := ec2Client(cluster.AWSURL), cluster.Client
	id := launch(t.Context(), t, api, cluster.Config.Host, "first", "m5.large")
	node := nodeOf(t, kube, id)

	t.Run("the node is what its user data says", func(t *testing.T) {
		for name, want := range map[string]string{
			"karpenter.sh/nodepool": "first", "karpenter.sh/capacity-type": "spot", "team": "blue",
			"kubernetes.io/hostname": node.Name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
			"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-west-2b", "topology.kubernetes.io/region": "us-west-2",
		} {
			if got := node.Labels[name]; got != want {
				t.Errorf("label %s: %q, want %q", name, got, want)
			}
		}
		if want := "aws:///us-west-2b/" + id; node.Spec.ProviderID != want {
			t.Errorf("provider id %s, want %s", node.Spec.ProviderID, want)
		}
		tainted := false
		for _, taint := range node.Spec.Taints {
			tainted = tainted || taint.Key == "karpenter.sh/unregistered" && taint.Effect == corev1.TaintEffectNoExecute
		}
		if !tainted {
			t.Errorf("taints %v, want karpenter.sh/unregistered among them", node.Spec.Taints)
		}
		for name, want := range map[corev1.ResourceName]string{"cpu": "1800m", "pods": "20", "ephemeral-storage": "89Gi"} {
			if got := node.Status.Allocatable[name]; got.Cmp(resource.MustParse(want)) != 0 {
				t.Errorf("allocatable %s: %s, want %s", name, got.String(), want)
			}
		}
	})

	pod := podOn("on-first", "first")
	if err := kube.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	eventually(t, kube, pod, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })

	t.Run("it runs the daemons", func(t *testing.T) {
		until(t, "two daemon pods", func() bool {
			var pods corev1.PodList
			err := kube.List(t.Context(), &pods, client.InNamespace("kube-system"), client.MatchingFields{"spec.nodeName": node.Name})
			running := 0
			for i := range pods.Items {
				if pods.Items[i].Status.Phase == corev1.PodRunning {
					running++
				}
			}
			return err == nil && running == 2
		})
	})
	t.Run("a pod takes the grace period that it asks for", func(t *testing.T) {
		slow := podOn("slow-to-end", "first")
		slow.Spec.TerminationGracePeriodSeconds, slow.Spec.Containers[0].Resources = new(int64(4)), corev1.ResourceRequirements{}
		if err := kube.Create(t.Context(), slow); err != nil {
			t.Fatal(err)
		}
		eventually(t, kube, slow, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
		begin := time.Now()
		if err := kube.Delete(t.Context(), slow); err != nil {
			t.Fatal(err)
		}
		until(t, "it to be gone", func() bool {
			return apierrors.IsNotFound(kube.Get(t.Context(), client.ObjectKeyFromObject(slow), slow))
		})
		if took := time.Since(begin); took < 3*time.Second { // times of the API server are in whole seconds
			t.Errorf("it was gone after %s, though it has 4 s", took)
		}
	})
	t.Run("it goes with its instance, and its pods go too", func(t *testing.T) {
		if _, err := api.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
			t.Fatal(err)
		}
		for _, object := range []client.Object{node, pod} {
			until(t, object.GetName()+" to be gone", func() bool {
				return apierrors.IsNotFound(kube.Get(t.Context(), client.ObjectKeyFromObject(object), object))
			})
		}
	})
}

func TestStoppedInstance(t *testing.T) {
	api, kube := ec2Client(cluster.AWSURL), cluster.Client
	id := launch(t.Context(), t, api, cluster.Config.Host, "stopped", "m5.large")
	node := nodeOf(t, kube, id)
	if _, err := api.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, kube, node, func(n *corev1.Node) bool {
		for _, taint := range n.Spec.Taints {
			if taint.Key == "node.cloudprovider.kubernetes.io/shutdown" {
				return !ready(n)
			}
		}
		return false
	})
	until(t, "the instance to be stopped", func() bool {
		out, err := api.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		return err == nil && out.Reservations[0].Instances[0].State.Name == types.InstanceStateNameStopped
	})
	if _, err := api.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, kube, node, ready)
	if _, err := api.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
}

func TestVolumesAreMadeWhereTheirPodIs(t *testing.T) {
	api, kube := ec2Client(cluster.AWSURL), cluster.Client
	id := launch(t.Context(), t, api, cluster.Config.Host, "volumes", "m5.large")
	node := nodeOf(t, kube, id)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	pod := podOn("with-volume", "volumes")
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	for _, object := range []client.Object{claim, pod} {
		if err := kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, kube, pod, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	eventually(t, kube, claim, func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound })
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
	eventually(t, kube, volume, func(v *corev1.PersistentVolume) bool {
		return v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] == node.Labels[corev1.LabelTopologyZone]
	})
	until(t, "the volume to be attached", func() bool {
		var attachments storagev1.VolumeAttachmentList
		return kube.List(t.Context(), &attachments) == nil && len(attachments.Items) == 1 && attachments.Items[0].Spec.NodeName == node.Name
	})
	for _, object := range []client.Object{pod, claim} {
		if err := kube.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the volume to be gone", func() bool {
		return apierrors.IsNotFound(kube.Get(t.Context(), client.ObjectKeyFromObject(volume), volume))
	})
	if _, err := api.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
}
