package kubelet_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/local/kubelet"
	"karpenter/test/harness"
)

// patience is far above what anything here takes on an idle computer.
const patience = 5 * time.Minute

var cluster *harness.Cluster

// TestMain makes this binary the program of the pods too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "controller" {
		if err := program(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(harness.Main(m, harness.Options{Controllers: true, NoCRDs: true}, func(c *harness.Cluster) { cluster = c }))
}

// program is a controller that answers probes and says who it is.
func program() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	kube, err := client.New(config, client.Options{Scheme: harness.Scheme()})
	if err != nil {
		return err
	}
	who := &authenticationv1.SelfSubjectReview{}
	if err := kube.Create(ctx, who); err != nil {
		return err
	}
	if file := os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"); file != "" {
		token, err := os.ReadFile(file)
		fmt.Println("on AWS", os.Getenv("AWS_ROLE_ARN"), strings.Count(string(token), "."), err, "not", os.Getenv("AWS_ACCESS_KEY_ID"))
	}
	fmt.Printf("%s in %s is %s, of %s\n", os.Getenv("HOSTNAME"), os.Getenv("SYSTEM_NAMESPACE"), who.Status.UserInfo.Username, os.Getenv("PLATFORM"))
	var sick atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getenv("HOSTNAME")) })
	mux.HandleFunc("/crash", func(http.ResponseWriter, *http.Request) { os.Exit(3) })
	mux.HandleFunc("/sicken", func(http.ResponseWriter, *http.Request) { sick.Store(true) })
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if sick.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	for _, port := range []string{"METRICS_PORT", "HEALTH_PROBE_PORT"} {
		server := &http.Server{Addr: ":" + os.Getenv(port), Handler: mux, ReadHeaderTimeout: time.Second}
		go func() { fmt.Println(server.ListenAndServe()) }()
	}
	<-ctx.Done()
	return os.WriteFile(os.Getenv("FAREWELL"), []byte(os.Getenv("HOSTNAME")), 0o600)
}

// node is a Kubelet on a cluster with a namespace of its own.
type node struct {
	t         *testing.T
	kubelet   *kubelet.Kubelet
	dir       string
	namespace string
}

func newNode(t *testing.T) *node {
	t.Helper()
	definitions, err := kubelet.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Plane.Install(t.Context(), definitions); err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, dir: t.TempDir(), namespace: strings.ToLower(t.Name())}
	instance := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.namespace}}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.namespace}}, instance,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: "karpenter"}},
	} {
		if err := cluster.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	before := instance.DeepCopy()
	instance.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.1.1"}}
	if err := cluster.Client.Status().Patch(t.Context(), instance, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	n.start()
	t.Cleanup(func() {
		// The next test's would run them.
		err := cluster.Client.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(n.namespace), client.GracePeriodSeconds(0))
		if err != nil {
			t.Error(err)
		}
		n.kubelet.Stop()
	})
	return n
}

func (n *node) start() {
	n.t.Helper()
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	n.kubelet = kubelet.Start(n.t.Context(), kubelet.Options{
		Kube: cluster.Client, Config: cluster.Config, Dir: n.dir, Program: self, Tell: n.t.Logf,
		Env: map[string]string{"PLATFORM": "the platform", "AWS_ACCESS_KEY_ID": "key", "FAREWELL": filepath.Join(n.dir, "farewell")},
	})
}

// pod is one of a chart, as the scheduler leaves it.
func (n *node) pod(name string) *corev1.Pod {
	probe := func(failures int32) *corev1.Probe {
		return &corev1.Probe{
			PeriodSeconds: 1, FailureThreshold: failures,
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http")}},
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/name": "karpenter"}},
		Spec: corev1.PodSpec{NodeName: n.namespace, ServiceAccountName: "karpenter", Containers: []corev1.Container{{
			Name: "controller", Image: "karpenter/controller:1", Args: []string{"controller"},
			Env: []corev1.EnvVar{
				{Name: "KARPENTER_SERVICE", Value: "karpenter"},
				{Name: "PLATFORM", Value: "the pod"},
				{Name: "SYSTEM_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}},
			},
			Ports:          []corev1.ContainerPort{{Name: "http-metrics", ContainerPort: 8080}, {Name: "http", ContainerPort: 8081}},
			ReadinessProbe: probe(1), LivenessProbe: probe(2),
		}}},
	}
	if err := cluster.Client.Create(n.t.Context(), pod); err != nil {
		n.t.Fatal(err)
	}
	return pod
}

// until looks at a pod until it is as wanted.
func (n *node) until(pod *corev1.Pod, what string, wanted func(error) bool) {
	n.t.Helper()
	deadline := time.After(patience)
	for !wanted(cluster.Client.Get(n.t.Context(), client.ObjectKeyFromObject(pod), pod)) {
		select {
		case <-deadline:
			n.t.Fatalf("pod %s is not as wanted (%s): %+v", pod.Name, what, pod.Status)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ready waits until a pod is ready after so many restarts.
func (n *node) ready(pod *corev1.Pod, restarts int32) {
	n.t.Helper()
	n.until(pod, fmt.Sprintf("ready after %d restarts", restarts), func(err error) bool {
		all := pod.Status.ContainerStatuses
		return err == nil && pod.Status.Phase == corev1.PodRunning && len(all) == 1 && all[0].Ready && all[0].RestartCount == restarts && all[0].State.Running != nil
	})
}

// get asks by an address of the cluster's network.
func (n *node) get(url string) (string, error) {
	n.t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return n.kubelet.Dial(ctx, address) }}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		n.t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// log is what kwok would show of a pod.
func (n *node) log(pod *corev1.Pod, which string) string {
	n.t.Helper()
	logs := &unstructured.Unstructured{}
	logs.SetAPIVersion("kwok.x-k8s.io/v1alpha1")
	logs.SetKind("Logs")
	if err := cluster.Client.Get(n.t.Context(), client.ObjectKeyFromObject(pod), logs); err != nil {
		n.t.Fatal(err)
	}
	list, _, err := unstructured.NestedSlice(logs.Object, "spec", "logs")
	if err != nil || len(list) != 1 {
		n.t.Fatalf("logs: %v %v", logs, err)
	}
	text, err := os.ReadFile(list[0].(map[string]any)[which].(string))
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}

func TestReplicas(t *testing.T) {
	n := newNode(t)
	one, two := n.pod("one"), n.pod("two")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: "karpenter"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app.kubernetes.io/name": "karpenter"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http-metrics")}},
		},
	}
	if err := cluster.Client.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	n.ready(one, 0)
	n.ready(two, 0)
	if one.Status.PodIP == two.Status.PodIP || one.Status.HostIP != "192.168.1.1" {
		t.Errorf("addresses %s and %s on %s", one.Status.PodIP, two.Status.PodIP, one.Status.HostIP)
	}
	for address, want := range map[string]string{one.Status.PodIP + ":8080": "one", two.Status.PodIP + ":8080": "two", service.Spec.ClusterIP: "one"} {
		if said, err := n.get("http://" + address + "/"); err != nil || said != want {
			t.Errorf("%s says %q, %v, want %s", address, said, err, want)
		}
	}
	for _, address := range []string{one.Status.PodIP + ":9999", service.Spec.ClusterIP + ":81"} {
		if said, err := n.get("http://" + address + "/"); err == nil {
			t.Errorf("%s answers %q", address, said)
		}
	}
	if said, want := n.log(two, "logsFile"), "two in "+n.namespace+" is system:serviceaccount:"+n.namespace+":karpenter, of the platform\n"; !strings.HasSuffix(said, want) {
		t.Errorf("the log has %q, want %q", said, want)
	}
}

func TestRestarts(t *testing.T) {
	n := newNode(t)
	pod := n.pod("fragile")
	n.ready(pod, 0)
	address := pod.Status.PodIP
	_, _ = n.get("http://" + address + ":8080/crash")
	n.ready(pod, 1)
	if last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 3 || !strings.Contains(last.Message, "fragile in") {
		t.Errorf("the last end: %+v", last)
	}
	if said := n.log(pod, "previousLogsFile"); !strings.Contains(said, "fragile in") {
		t.Errorf("the log before has %q", said)
	}
	if _, err := n.get("http://" + address + ":8080/sicken"); err != nil {
		t.Fatal(err)
	}
	n.until(pod, "not ready while it is sick", func(err error) bool { return err == nil && !pod.Status.ContainerStatuses[0].Ready })
	n.ready(pod, 2) // the liveness probe has it killed
	// It goes on where the next one begins.
	n.kubelet.Stop()
	n.start()
	n.ready(pod, 3)
	if pod.Status.PodIP != address {
		t.Errorf("the address was %s and is %s", address, pod.Status.PodIP)
	}
}

func TestARoleOnAWS(t *testing.T) {
	n := newNode(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: "karpenter"}}
	before := account.DeepCopy()
	account.Annotations = map[string]string{"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/r"}
	if err := cluster.Client.Patch(t.Context(), account, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	pod := n.pod("trusted")
	n.ready(pod, 0)
	if said, want := n.log(pod, "logsFile"), "on AWS arn:aws:iam::1:role/r 2 <nil> not \n"; !strings.Contains(said, want) {
		t.Errorf("the log has %q, want %q", said, want)
	}
}

func TestDeletion(t *testing.T) {
	n := newNode(t)
	pod, other := n.pod("leaving"), n.pod("staying")
	n.ready(pod, 0)
	n.ready(other, 0)
	uid, address := string(pod.UID), pod.Status.PodIP
	if err := cluster.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	n.until(pod, "gone", apierrors.IsNotFound)
	if who, err := os.ReadFile(filepath.Join(n.dir, "farewell")); err != nil || string(who) != "leaving" {
		t.Errorf("asked to end: %q, %v", who, err)
	}
	// Soon after the object is gone, so is all that it had.
	for deadline := time.After(patience); ; {
		_, folder := os.Stat(filepath.Join(n.dir, uid))
		_, answer := n.get("http://" + address + ":8080/")
		if folder != nil && answer != nil && strings.Contains(answer.Error(), "no pod") {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("its folder: %v; its address: %v", folder, answer)
		case <-time.After(20 * time.Millisecond):
		}
	}
	n.ready(other, 0)
}

func TestOthersAreLeftAlone(t *testing.T) {
	ours := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/name": "karpenter"}}}
	ours.Spec.Containers = []corev1.Container{{Name: "sidecar"}, {Name: "controller", Env: []corev1.EnvVar{{Name: "KARPENTER_SERVICE"}}}}
	sibling, stranger := ours.DeepCopy(), ours.DeepCopy()
	sibling.Spec.Containers[1].Env = nil
	stranger.Labels = nil
	if a, b, c := kubelet.Ours(&ours), kubelet.Ours(sibling), kubelet.Ours(stranger); a != 1 || b != -1 || c != -1 {
		t.Errorf("got %d, %d, %d", a, b, c)
	}
}
