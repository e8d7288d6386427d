package charts

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/clouds"
	"karpenter/internal/operator"
	"karpenter/test/harness/program"
	"karpenter/test/harness/simcloud"
)

func TestMain(m *testing.M) {
	program.Act(operator.NewCommand("test", clouds.Plugins()...))
	os.Exit(m.Run())
}

// kubeconfig is a file by which the controller comes in as its account.
func (s *site) kubeconfig(t *testing.T, namespace, account string) string {
	t.Helper()
	token := &authenticationv1.TokenRequest{}
	who := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	if err := s.Client.SubResource("token").Create(t.Context(), who, token); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: s.Config.Host, CertificateAuthority: s.Config.CAFile, CertificateAuthorityData: s.Config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "c",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// controller runs with the arguments and the environment that the chart gives it.
func (s *site) controller(t *testing.T, deployment *appsv1.Deployment, world *simcloud.World) *program.Controller {
	t.Helper()
	env := environment(t, deployment)
	env["KUBECONFIG"] = s.kubeconfig(t, deployment.Namespace, deployment.Spec.Template.Spec.ServiceAccountName)
	return program.Start(t, program.Options{Args: deployment.Spec.Template.Spec.Containers[0].Args, Env: env, World: world})
}

// account runs the controller as the chart would, through the life of a node, and fails if the API server refuses it anything.
func account(t *testing.T, s *site) {
	deployment := &appsv1.Deployment{}
	if err := s.get(deployment, "kube-system", "karpenter"); err != nil {
		t.Fatal(err)
	}
	world := s.world(t)
	controller := s.controller(t, deployment, world)
	program.Until(t, "the webhook is in the definitions", func() bool {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		return s.get(crd, "", "nodepools.karpenter.sh") == nil && len(crd.Spec.Conversion.Webhook.ClientConfig.CABundle) > 0
	})
	s.buffers(t)
	claim := s.provision(t)
	s.unplan(t, "pending") // it would be planned for again when its node goes
	s.join(t, claim)
	// AWS calls the instance back: its node is drained and goes.
	id := claim.Status.ProviderID[strings.LastIndexByte(claim.Status.ProviderID, '/')+1:]
	if err := world.Sim.SendHealthEvent(world.Config.Region, "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", id); err != nil {
		t.Fatal(err)
	}
	s.kill(t, "slow")
	s.left(t, claim)
	s.disrupt(t)
	text := controller.Scrape()
	controller.Stop() // the dashboard's history is written when it ends
	s.audited(t)
	if refused := regexp.MustCompile(`(?m)^client_go_request_total\{code="403".*$`).FindString(text); refused != "" || !strings.Contains(text, `client_go_request_total{code="20`) {
		t.Errorf("the API server has refused something: %q", refused)
	}
	if strings.Contains(strings.ToLower(controller.Log.String()), "forbidden") {
		t.Error("the log tells of something forbidden")
	}
}

// world is an AWS with this cluster in it.
func (s *site) world(t *testing.T) *simcloud.World {
	t.Helper()
	version := s.Version(t)
	return simcloud.Start(t, simcloud.Options{Cluster: "my-cluster", NoBoot: true, Sim: func(o *simaws.Options) {
		o.Queue = "my-cluster"
		o.Clusters[0].Version, o.Clusters[0].Endpoint, o.Clusters[0].ServiceCIDR = fmt.Sprintf("%d.%d", version.Major(), version.Minor()), s.Config.Host, "10.100.0.0/16"
		o.KubernetesVersions = []string{"1.34", o.Clusters[0].Version} // the first is that of the provider which prepares the account
	}})
}

// kill is what a kubelet does when the time of a pod that was deleted is up.
func (s *site) kill(t *testing.T, name string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	program.Until(t, "the pod that takes too long is deleted", func() bool { return s.get(pod, "default", name) == nil && pod.DeletionTimestamp != nil })
	if err := s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

// left waits until a claim and its node are gone.
func (s *site) left(t *testing.T, claim *karpv1.NodeClaim) {
	t.Helper()
	program.Until(t, "claim and node are gone", func() bool {
		return apierrors.IsNotFound(s.get(&karpv1.NodeClaim{}, "", claim.Name)) && apierrors.IsNotFound(s.get(&corev1.Node{}, "", "joined"))
	})
}

// provision has a pod without a place, and waits for the claim that is launched for it.
func (s *site) provision(t *testing.T) *karpv1.NodeClaim {
	t.Helper()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "simulated"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "simulated"}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "kubernetes.io/arch", Operator: "In", Values: []string{"amd64"}}}
	pool.Spec.Template.Spec.TerminationGracePeriod = &karpv1.Duration{Duration: 5 * time.Second} // so that a slow pod is deleted
	for _, object := range []client.Object{simcloud.NewClass("simulated", "my-cluster"), pool} {
		if err := s.Client.Create(t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	s.pending(t, "pending", "simulated")
	claims := &karpv1.NodeClaimList{}
	program.Until(t, "a claim is launched", func() bool {
		return s.Client.List(t.Context(), claims) == nil && len(claims.Items) == 1 && claims.Items[0].Status.ProviderID != ""
	})
	return &claims.Items[0]
}

// pending makes a pod for nodes of a pool that the scheduler has found no place for.
func (s *site) pending(t *testing.T, name, pool string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{NodeSelector: map[string]string{karpv1.NodePoolLabelKey: pool}, Containers: []corev1.Container{{
			Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}}},
	}
	if err := s.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	before := pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	if err := s.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// unplan deletes a pod that has no place.
func (s *site) unplan(t *testing.T, name string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

// join is the kubelet's part: the node of a claim appears and gets a pod that can be evicted later, and one that takes longer to
// go than nodes of the pool may.
func (s *site) join(t *testing.T, claim *karpv1.NodeClaim) {
	t.Helper()
	s.node(t, claim)
	program.Until(t, "the claim is registered", func() bool {
		err := s.get(claim, "", claim.Name)
		return err == nil && claim.StatusConditions().IsTrue(karpv1.ConditionRegistered)
	})
	for name, grace := range map[string]int64{"evicted": 0, "slow": 60} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.PodSpec{NodeName: "joined", TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		if err := s.Client.Create(t.Context(), pod); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

// node makes the node of a claim, as it registers.
func (s *site) node(t *testing.T, claim *karpv1.NodeClaim) *corev1.Node {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "joined", Labels: claim.Labels},
		Spec:       corev1.NodeSpec{ProviderID: claim.Status.ProviderID, Taints: []corev1.Taint{{Key: karpv1.UnregisteredTaintKey, Effect: corev1.TaintEffectNoExecute}}},
	}
	if err := s.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	return node
}
