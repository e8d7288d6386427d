package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/clouds"
	"karpenter/internal/local/kubelet"
	"karpenter/internal/local/plane"
	"karpenter/internal/operator"
	"karpenter/internal/operator/webhook"
)

const (
	// lifelineEnv asks a process to end when its standard input does: whoever started it holds the other end, and has
	// died if it closes. Lifeline obeys it.
	lifelineEnv = "KARPENTER_LIFELINE"
	// startAttempts is how often the controller may end before it was ready once.
	startAttempts = 3
	// metricsPort and dashboardPort are those of the chart's container.
	metricsPort, dashboardPort = 8080, 8082
)

// service is the chart's, by which the API server reaches the conversion webhook.
var service = webhook.Target{ServiceNamespace: metav1.NamespaceSystem, ServiceName: "karpenter", ServicePort: 8443}

// fixed are settings that the environment does not change: they lead to this cluster, or are how its parts find each other.
var fixed = []string{
	"CLUSTER_NAME", "CLUSTER_ENDPOINT", "CLUSTER_CA_BUNDLE", "INTERRUPTION_QUEUE", "SYSTEM_NAMESPACE", "KARPENTER_SERVICE", "DISABLE_WEBHOOK", "WEBHOOK_PORT",
	"WEBHOOK_SERVICE_PORT", "METRICS_PORT", "HEALTH_PROBE_PORT", "DASHBOARD_ADDRESS", "DISABLE_LEADER_ELECTION", "LEADER_ELECTION_NAME", "LEADER_ELECTION_NAMESPACE",
	"PROVIDER", "CLUSTER_API_KUBECONFIG", "CLUSTER_API_NAMESPACE", "CLUSTER_API_CLUSTER_NAME",
}

// Lifeline makes this process end with the one that started it, if that asked for it.
func Lifeline() {
	if os.Getenv(lifelineEnv) == "" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}

// startPods begins to run the pods of Karpenter's charts.
func (c *Cluster) startPods(ctx context.Context) error {
	if c.opts.Program == "" {
		return errors.New("running the chart's pods: the program is not given")
	}
	config, aws := c.Config, c.AWSURL
	if c.opts.Proxy != nil {
		var err error
		config = rest.CopyConfig(c.Config)
		if config.Host, aws, err = c.opts.Proxy(c.plane, c.AWSURL); err != nil {
			return fmt.Errorf("asking for a way to the API server and AWS: %w", err)
		}
	}
	env := c.settings()
	if c.opts.Provider == ProviderClusterAPI {
		maps.Copy(env, c.machineSettings())
	} else {
		maps.Copy(env, map[string]string{
			// These lead to the AWS simulator, and nowhere else.
			"AWS_ENDPOINT_URL": aws, "AWS_REGION": c.opts.Region, "AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": "simulated",
			"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
		})
	}
	env[lifelineEnv] = "1"
	pods := kubelet.Start(ctx, kubelet.Options{
		Kube: c.Client, Config: config, Dir: filepath.Join(c.opts.Dir, "pods"), Program: c.opts.Program, Env: env, Tell: c.tell,
	})
	c.pods.Store(pods)
	if c.opts.NoKarpenter {
		return nil
	}
	metrics, err := c.forward("metrics", metricsPort)
	if err != nil {
		return err
	}
	c.MetricsURL = metrics + "metrics"
	c.DashboardURL, err = c.forward("dashboard", dashboardPort)
	return err
}

// settings are the controller's.
func (c *Cluster) settings() map[string]string {
	if c.opts.NoKarpenter {
		return map[string]string{}
	}
	found := settingsIn(os.Environ())
	maps.Copy(found, c.opts.Settings)
	return found
}

// defaultSpread are the constraints that the controller expects kube-scheduler to give pods without any.
func (c *Cluster) defaultSpread() ([]corev1.TopologySpreadConstraint, error) {
	const name = "SCHEDULER_CONFIG"
	spread, err := operator.ParseSchedulerConfig(c.settings()[name])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return spread, nil
}

// forward opens a port of this computer that leads to one of the controller's container, and stays while processes come and go.
func (c *Cluster) forward(name string, port int32) (url string, err error) {
	listener, err := plane.Forward(c.opts.Dir, name, func(ctx context.Context) (net.Conn, error) { return c.pods.Load().DialPort(ctx, port) })
	if err != nil {
		return "", err
	}
	c.forwards = append(c.forwards, listener)
	return "http://" + listener.Addr().String() + "/", nil
}

// settingsIn are the controller's settings in the environment of this process, and those of the Go runtime.
func settingsIn(environment []string) map[string]string {
	found := map[string]string{}
	for _, pair := range environment {
		name, value, _ := strings.Cut(pair, "=")
		known := slices.ContainsFunc(operator.Settings(clouds.Plugins()...), func(s operator.Setting) bool { return s.Env == name }) && !slices.Contains(fixed, name)
		if known || slices.Contains([]string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG"}, name) {
			found[name] = value
		}
	}
	return found
}

// dial is how the API server reaches nodes, pods and Services.
func (c *Cluster) dial(ctx context.Context, address string) (net.Conn, error) {
	if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().IsLoopback() { // the webhooks of Cluster API, which are there before any pod
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	pods := c.pods.Load()
	if pods == nil {
		return nil, fmt.Errorf("connecting to %s: no pod runs yet", address)
	}
	return pods.Dial(ctx, address)
}

// awaitController returns when the controller is ready. One that keeps ending instead will not become so.
func awaitController(ctx context.Context, kube client.Client) error {
	before := map[types.UID]int32{}
	var hopeless error
	err := await(ctx, "the controller to be ready", func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		if err := kube.List(ctx, pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"app.kubernetes.io/name": "karpenter"}); err != nil {
			return false, err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			for j := range pod.Status.ContainerStatuses {
				status := &pod.Status.ContainerStatuses[j]
				if status.Ready {
					return true, nil
				}
				if _, seen := before[pod.UID]; !seen {
					before[pod.UID] = status.RestartCount
				}
				if last := status.LastTerminationState.Terminated; last != nil && status.RestartCount-before[pod.UID] >= startAttempts {
					hopeless = fmt.Errorf("the controller ended %d times instead of becoming ready; the end of its log:\n%s", startAttempts, last.Message)
					return true, nil
				}
			}
		}
		return false, nil
	})
	return errors.Join(err, hopeless)
}

// awaitConversion returns when the API server can have objects of v1beta1 converted, for which the controller writes its certificate into
// their definitions. Until then what is applied in that version is refused.
func awaitConversion(ctx context.Context, kube client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return await(ctx, "objects of v1beta1 to be converted", func(ctx context.Context) (bool, error) {
		for definition, kind := range map[string]string{"nodepools." + karpv1.Group: "NodePool", "nodeclaims." + karpv1.Group: "NodeClaim", "ec2nodeclasses." + awsv1.Group: "EC2NodeClass"} {
			crd := &unstructured.Unstructured{}
			crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
			err := kube.Get(ctx, client.ObjectKey{Name: definition}, crd)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return false, err
			}
			if bundle, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle"); bundle == "" {
				return false, nil
			}
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: definition[strings.Index(definition, ".")+1:], Version: "v1beta1", Kind: kind + "List"})
			if err := kube.List(ctx, list, client.Limit(1)); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// KillController ends the controller as a crash would. It is started again at once.
func (c *Cluster) KillController() error {
	if pods := c.pods.Load(); pods == nil || pods.Kill() == 0 {
		return errors.New("the controller is not running")
	}
	return nil
}

// Controllers are the process ids of the controller's pods, by name.
func (c *Cluster) Controllers() map[string]int { return c.pods.Load().Pids() }

// LogTail is the last lines of the controller's log.
func (c *Cluster) LogTail(lines int) string { return c.pods.Load().Tail(lines) }

// Pids are the process ids by program name, for those who measure or kill.
func (c *Cluster) Pids() map[string]int {
	pids := c.plane.Pids()
	pids["controller"] = c.pods.Load().Pid()
	return pids
}
