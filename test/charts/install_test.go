package charts

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/test/harness"
	"karpenter/test/harness/program"
)

// installTime is more than an installation needs on a busy computer.
const installTime = "3m"

// site is a cluster that charts are installed in.
type site struct {
	*harness.Cluster
	t *testing.T
	h *helm
}

func newSite(t *testing.T) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane; not with -short")
	}
	newHelm(t, "") // skips without it, before anything is started
	cluster := harness.Start(t, harness.Options{Controllers: true, NoCRDs: true, Audit: auditPolicy})
	return &site{Cluster: cluster, t: t, h: newHelm(t, cluster.Kubeconfig)}
}

// restrict makes the API server refuse pods in a namespace that are not secure.
func (s *site) restrict(namespace string) {
	s.t.Helper()
	labels := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	err := s.Client.Create(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}})
	if apierrors.IsAlreadyExists(err) {
		err = s.Client.Patch(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// kubelets does what they would: pods of the controller become ready as soon as they exist. It ends with the test.
func (s *site) kubelets() {
	s.t.Helper()
	ctx := s.t.Context()
	pods, err := s.Client.Watch(ctx, &corev1.PodList{}, client.MatchingLabels{"app.kubernetes.io/name": "karpenter"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(pods.Stop)
	go func() {
		for event := range pods.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || pod.Status.Phase == corev1.PodRunning {
				continue
			}
			before := pod.DeepCopy()
			now := metav1.Now()
			pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
			for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
			}
			// What cannot be written is seen by the deployment that never becomes ready.
			_ = s.Client.Status().Patch(ctx, pod, client.MergeFrom(before))
		}
	}()
}

func (s *site) get(object client.Object, namespace, name string) error {
	return s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object)
}

// gone waits until an object is not there any more.
func (s *site) gone(object client.Object, namespace, name string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	for !apierrors.IsNotFound(s.get(object, namespace, name)) {
		select {
		case <-ctx.Done():
			s.t.Fatalf("%T %s/%s is still there", object, namespace, name)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// as is a client for a service account.
func (s *site) as(namespace, account string) client.Client {
	s.t.Helper()
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + account}
	c, err := client.New(config, client.Options{Scheme: harness.Scheme()})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// The life of an installation by the commands of a published text: definitions, controller, an upgrade of both, the end.
func TestInstallUpgradeUninstall(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.restrict("kube-system")
	s.kubelets()
	port := "webhook.port=" + program.FreePort(t) // the controller will listen there, on this computer
	s.h.must(t, "upgrade", "--install", "karpenter-crd", "karpenter-crd", "--namespace", "kube-system", "--set", port, "--wait", "--timeout", installTime)
	install := append([]string{"upgrade", "--install", "karpenter", "karpenter", "--set", port, "--wait", "--timeout", installTime}, sets["eks-node-provisioning"]...)
	s.h.must(t, install...)
	deployment := &appsv1.Deployment{}
	if err := s.get(deployment, "kube-system", "karpenter"); err != nil || deployment.Status.ReadyReplicas != 2 {
		t.Fatalf("deployment: %v, %d replicas are ready", err, deployment.Status.ReadyReplicas)
	}
	if out, err := s.Kubectl(t.Context(), "", "get", "pods", "-n", "kube-system", "-l", "app.kubernetes.io/name=karpenter", "-o", "name"); err != nil || strings.Count(out, "pod/") != 2 {
		t.Errorf("pods: %q, %v", out, err)
	}
	t.Run("O76 N14 rights", func(t *testing.T) { rights(t, s) })
	t.Run("policies", func(t *testing.T) { policies(t, s) })
	t.Run("O76 the controller under its account", func(t *testing.T) { account(t, s) })
	t.Run("N9 deletion costs", func(t *testing.T) { deletionCosts(t, s, install) })

	// The webhook has said whom to trust; an upgrade leaves that alone.
	name := "nodepools.karpenter.sh"
	s.h.must(t, "upgrade", "karpenter-crd", "karpenter-crd", "--namespace", "kube-system", "--set", port, "--set", "additionalAnnotations.a=b")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := s.get(crd, "", name); err != nil || crd.Annotations["a"] != "b" || len(crd.Spec.Conversion.Webhook.ClientConfig.CABundle) == 0 {
		t.Errorf("after the upgrade: %v %v %+v", err, crd.Annotations, crd.Spec.Conversion)
	}
	s.h.must(t, append(install, "--set", "logLevel=debug")...)
	if err := s.get(deployment, "kube-system", "karpenter"); err != nil || environment(t, deployment)["LOG_LEVEL"] != "debug" {
		t.Errorf("after the upgrade: %v %v", err, environment(t, deployment))
	}

	t.Run("a dashboard for everybody with a token", func(t *testing.T) { openDashboard(t, s, install) })

	again := []string{"install", "second", "karpenter", "--namespace", "elsewhere", "--create-namespace", "--set", "settings.clusterName=my-cluster"}
	if _, err := s.h.run(t, again...); err == nil || !strings.Contains(err.Error(), "Karpenter is in this cluster already: release karpenter in namespace kube-system") {
		t.Errorf("a second installation: %v", err)
	}
	s.h.must(t, "uninstall", "karpenter", "--namespace", "kube-system")
	s.h.must(t, "uninstall", "karpenter-crd", "--namespace", "kube-system")
	s.gone(deployment, "kube-system", "karpenter")
	if err := s.get(&karpv1.NodePool{}, "", "general"); err != nil {
		t.Errorf("the pool went with the charts: %v", err)
	}
	s.deepDive(t)
}

// deepDive is the other published installation, in a namespace of its own, on definitions that are there.
func (s *site) deepDive(t *testing.T) {
	t.Helper()
	s.restrict("karpenter")
	s.h.must(t, append([]string{"upgrade", "--install", "karpenter", "karpenter", "--create-namespace", "--wait", "--timeout", installTime}, sets["deep-dive"]...)...)
	account := &corev1.ServiceAccount{}
	if err := s.get(account, "karpenter", "karpenter"); err != nil || account.Annotations["eks.amazonaws.com/role-arn"] == "" {
		t.Errorf("account: %v %v", err, account.Annotations)
	}
	s.h.must(t, "uninstall", "karpenter", "--namespace", "karpenter")
}

// The controller's chart alone brings definitions too, and v1beta1 is refused, not stored unconverted, until the controller runs.
func TestInstallAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.h.must(t, append([]string{"install", "karpenter", "karpenter", "--create-namespace"}, sets["deep-dive"]...)...)
	s.established()
	old := `{"apiVersion":"karpenter.k8s.aws/v1beta1","kind":"EC2NodeClass","metadata":{"name":"old"},"spec":{"amiFamily":"AL2","role":"r",
		"subnetSelectorTerms":[{"id":"subnet-1"}],"securityGroupSelectorTerms":[{"id":"sg-1"}]}}`
	if out, err := s.Kubectl(t.Context(), old, "create", "-f", "-"); err == nil || !strings.Contains(err.Error(), "conversion webhook") {
		t.Errorf("v1beta1 without a webhook: %s %v", out, err)
	}
	if err := s.Client.Create(t.Context(), class("new")); err != nil {
		t.Errorf("v1: %v", err)
	}
	// The definitions are handed over to the chart of their own, and the controller's chart leaves them alone from then on.
	s.h.must(t, "upgrade", "--install", "karpenter-crd", "karpenter-crd", "--namespace", "karpenter", "--take-ownership")
	s.h.must(t, append([]string{"upgrade", "karpenter", "karpenter"}, sets["deep-dive"]...)...)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := s.get(crd, "", "nodepools.karpenter.sh"); err != nil || !crd.DeletionTimestamp.IsZero() || crd.Annotations["meta.helm.sh/release-name"] != "karpenter-crd" {
		t.Errorf("after the handover: %v %v %v", err, crd.DeletionTimestamp, crd.Annotations)
	}
	if err := s.get(&awsv1.EC2NodeClass{}, "", "new"); err != nil {
		t.Errorf("after the handover: %v", err)
	}
	// A4: others share CapacityBuffer with us. Once it has a version that we do not know, it is theirs to keep.
	buffers := &apiextensionsv1.CustomResourceDefinition{}
	if err := s.get(buffers, "", "capacitybuffers.autoscaling.x-k8s.io"); err != nil {
		t.Fatal(err)
	}
	newer := *buffers.Spec.Versions[0].DeepCopy()
	newer.Name, newer.Storage = "v1", false
	buffers.Spec.Versions = append(buffers.Spec.Versions, newer)
	if err := s.Client.Update(t.Context(), buffers); err != nil {
		t.Fatal(err)
	}
	s.h.must(t, "upgrade", "karpenter-crd", "karpenter-crd", "--namespace", "karpenter", "--set", "keep=false")
	s.h.must(t, append([]string{"upgrade", "karpenter", "karpenter"}, sets["deep-dive"]...)...)
	if err := s.get(buffers, "", buffers.Name); err != nil || !buffers.DeletionTimestamp.IsZero() || len(buffers.Spec.Versions) != 2 {
		t.Errorf("a newer CRD of buffers after an upgrade: %v %v %d versions", err, buffers.DeletionTimestamp, len(buffers.Spec.Versions))
	}
}

// established waits until the API server serves our kinds.
func (s *site) established() {
	s.t.Helper()
	args := []string{"wait", "--for=condition=Established", "--timeout=60s"}
	for _, name := range []string{"nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"} {
		args = append(args, "crd/"+name)
	}
	if _, err := s.Kubectl(s.t.Context(), "", args...); err != nil {
		s.t.Fatal(err)
	}
}

func class(name string) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: awsv1.EC2NodeClassSpec{
		Role: "r", AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
		SubnetSelectorTerms: []awsv1.SubnetSelectorTerm{{ID: "subnet-12345678"}}, SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{ID: "sg-12345678"}},
	}}
}

// await waits until the API server has taken up all policies: each of these attempts is refused.
func (s *site) await(t *testing.T, attempts ...func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, try := range attempts {
		for err := try(); !apierrors.IsForbidden(err); err = try() {
			select {
			case <-ctx.Done():
				t.Fatalf("a policy has no effect: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}
