package charts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
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
	"karpenter/internal/operator"
	"karpenter/test/harness/pocket"
)

// asController makes the test binary the controller: a process with the environment of the chart and nothing else.
const asController = "CHARTS_TEST_AS_CONTROLLER"

// patience is how long something may take on a busy machine.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(asController) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	cmd := operator.NewCommand("test")
	// The container's arguments name the subcommand, which the program's main takes off.
	cmd.SetArgs(os.Args[2:])
	err := cmd.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		os.Exit(1)
	}
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
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

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

// controller runs with the arguments and the environment that the chart gives it. It returns the port of its metrics and its log.
func (s *site) controller(t *testing.T, deployment *appsv1.Deployment, world *pocket.World) (metrics string, log *lines) {
	t.Helper()
	env := environment(deployment)
	env["METRICS_PORT"], env["HEALTH_PROBE_PORT"] = freePort(t), freePort(t)
	env["KUBECONFIG"] = s.kubeconfig(t, deployment.Namespace, deployment.Spec.Template.Spec.ServiceAccountName)
	for name, value := range map[string]string{
		asController: "1", "HOME": t.TempDir(), "AWS_REGION": world.Config.Region, "AWS_ENDPOINT_URL": aws.ToString(world.Config.BaseEndpoint),
		"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		env[name] = value
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], deployment.Spec.Template.Spec.Containers[0].Args...)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	log = &lines{}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of the controller:\n%s", log)
		}
	})
	return env["METRICS_PORT"], log
}

// until waits for something to come true.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("it did not come to this: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// account runs the controller as the chart would, through the life of a node, and fails if the API server refuses it anything.
func account(t *testing.T, s *site) {
	deployment := &appsv1.Deployment{}
	if err := s.get(deployment, "kube-system", "karpenter"); err != nil {
		t.Fatal(err)
	}
	world := pocket.Start(t, pocket.Options{Cluster: "my-cluster", NoBoot: true, Sim: func(o *simaws.Options) {
		o.Queue, o.KubernetesVersions = "my-cluster", []string{"1.34", "1.37"}
		o.Clusters[0].Version, o.Clusters[0].Endpoint, o.Clusters[0].ServiceCIDR = "1.37", s.Config.Host, "10.100.0.0/16"
	}})
	metrics, log := s.controller(t, deployment, world)
	until(t, "the webhook is in the definitions", func() bool {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		return s.get(crd, "", "nodepools.karpenter.sh") == nil && len(crd.Spec.Conversion.Webhook.ClientConfig.CABundle) > 0
	})
	claim := s.provision(t)
	s.join(t, claim)
	// AWS calls the machine back: its node is drained and goes.
	id := claim.Status.ProviderID[strings.LastIndexByte(claim.Status.ProviderID, '/')+1:]
	if err := world.Sim.SendHealthEvent(world.Config.Region, "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", id); err != nil {
		t.Fatal(err)
	}
	s.kill(t, "slow")
	s.left(t, claim)
	s.disrupt(t)
	s.audited(t)
	text := scrape(t, metrics)
	if refused := regexp.MustCompile(`(?m)^client_go_request_total\{code="403".*$`).FindString(text); refused != "" || !strings.Contains(text, `client_go_request_total{code="20`) {
		t.Errorf("the API server has refused something: %q", refused)
	}
	if strings.Contains(strings.ToLower(log.String()), "forbidden") {
		t.Error("the log tells of something forbidden")
	}
}

// kill is what a kubelet does when the time of a pod that was deleted is up.
func (s *site) kill(t *testing.T, name string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	until(t, "the pod that takes too long is deleted", func() bool { return s.get(pod, "default", name) == nil && pod.DeletionTimestamp != nil })
	if err := s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

// left waits until a claim and its node are gone.
func (s *site) left(t *testing.T, claim *karpv1.NodeClaim) {
	t.Helper()
	until(t, "claim and node are gone", func() bool {
		return apierrors.IsNotFound(s.get(&karpv1.NodeClaim{}, "", claim.Name)) && apierrors.IsNotFound(s.get(&corev1.Node{}, "", "joined"))
	})
}

// provision has a pod without a place, and waits for the claim that is launched for it.
func (s *site) provision(t *testing.T) *karpv1.NodeClaim {
	t.Helper()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pocket"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "pocket"}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "kubernetes.io/arch", Operator: "In", Values: []string{"amd64"}}}
	pool.Spec.Template.Spec.TerminationGracePeriod = &karpv1.Duration{Duration: 5 * time.Second} // so that a slow pod is deleted
	for _, object := range []client.Object{pocket.NewClass("pocket", "my-cluster"), pool} {
		if err := s.Client.Create(t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pending"},
		Spec: corev1.PodSpec{NodeSelector: map[string]string{karpv1.NodePoolLabelKey: "pocket"}, Containers: []corev1.Container{{
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
	claims := &karpv1.NodeClaimList{}
	until(t, "a claim is launched", func() bool {
		return s.Client.List(t.Context(), claims) == nil && len(claims.Items) == 1 && claims.Items[0].Status.ProviderID != ""
	})
	// It would be planned for again when its node goes.
	if err := s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	return &claims.Items[0]
}

// join is the kubelet's part: the node of a claim appears and gets a pod that can be evicted later, and one that takes longer to
// go than nodes of the pool may.
func (s *site) join(t *testing.T, claim *karpv1.NodeClaim) {
	t.Helper()
	s.node(t, claim)
	until(t, "the claim is registered", func() bool {
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

func scrape(t *testing.T, port string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
