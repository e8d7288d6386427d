package operator

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/cloud"
	"karpenter/internal/meter"
)

// requestTimeout is how long an answer of the API server may take; watches are exempt.
const requestTimeout = 30 * time.Second

// kubeConfig is how the API server is reached: what KUBECONFIG names, or from inside a cluster.
func kubeConfig() (*rest.Config, error) {
	if path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); path != "" {
		config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("KUBECONFIG=%q: %w", path, err)
		}
		return config, nil
	}
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("KUBECONFIG is not set, and this process does not run in a cluster: set it to the path of a kubeconfig file")
	}
	if err != nil {
		return nil, fmt.Errorf("connecting from inside the cluster: %w", err)
	}
	return config, nil
}

// tuned is a configuration for everything but the lease, with its rate and its metrics.
func tuned(config *rest.Config, o *Options, agent string, set *meter.Set) *rest.Config {
	c := rest.CopyConfig(config)
	c.QPS, c.Burst, c.UserAgent = float32(o.KubeClientQPS), o.KubeClientBurst, agent
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return &countedTransport{next: next, set: set} })
	return c
}

// leaseConfig is for the lease alone, so that no burst of other requests can cost the lease (O57).
func leaseConfig(config *rest.Config, agent string) *rest.Config {
	c := rest.CopyConfig(config)
	c.UserAgent, c.Timeout = agent, requestTimeout
	return c
}

// NewScheme knows Kubernetes' own kinds, definitions of kinds, ours, and a provider's kind of node class.
func NewScheme(class cloud.Kind) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, karpv1.AddToScheme, class.AddToScheme, v1alpha1.AddToScheme, bufferv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// missingKinds returns an error that names the kinds without which nothing can be done and that the API server does not serve.
func missingKinds(client discovery.DiscoveryInterface, class cloud.Kind) error {
	var missing []string
	for _, kind := range []schema.GroupVersionKind{
		karpv1.SchemeGroupVersion.WithKind(karpv1.NodePoolKind), karpv1.SchemeGroupVersion.WithKind(karpv1.NodeClaimKind), class.GroupVersionKind,
	} {
		list, err := client.ServerResourcesForGroupVersion(kind.GroupVersion().String())
		found := false
		switch {
		case err == nil:
			for _, resource := range list.APIResources {
				found = found || resource.Kind == kind.Kind
			}
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("asking the API server for its kinds of %s: %w", kind.GroupVersion(), err)
		}
		if !found {
			missing = append(missing, kind.Kind+" of "+kind.GroupVersion().String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the API server does not serve %s: install the CustomResourceDefinitions", strings.Join(missing, ", "))
	}
	return nil
}

// eventsKnown is how many events are remembered in order to count those that are alike. What we tell is not told again for minutes
// anyway, and each takes about a kilobyte.
const eventsKnown = 512

// Events that tell of nothing wrong are written at a pace of their own. When a thousand pods come at once there are as many, and
// they would take the API server's time from the nodes that they tell of.
const (
	calmEventsQPS   = 10
	calmEventsBurst = 25
)

// events writes warnings at once, and everything else when there is time.
type events struct {
	record.EventRecorder // what writes at once
	calm                 record.EventRecorder
}

// newEvents returns a recorder of events, and what ends it.
func newEvents(config *rest.Config, scheme *runtime.Scheme) (record.EventRecorder, func(), error) {
	calm := rest.CopyConfig(config)
	calm.QPS, calm.Burst = calmEventsQPS, calmEventsBurst
	var recorders []record.EventRecorder
	var stops []func()
	for _, c := range []*rest.Config{config, calm} {
		client, err := typedcorev1.NewForConfig(c)
		if err != nil {
			return nil, nil, fmt.Errorf("making a client for events: %w", err)
		}
		broadcaster := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: eventsKnown})
		broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.Events("")})
		recorders = append(recorders, broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "karpenter"}))
		stops = append(stops, broadcaster.Shutdown)
	}
	stop := func() {
		for _, end := range stops {
			end()
		}
	}
	return events{recorders[0], recorders[1]}, stop, nil
}

// Event implements record.EventRecorder.
func (e events) Event(object runtime.Object, kind, reason, message string) {
	if kind == corev1.EventTypeWarning {
		e.EventRecorder.Event(object, kind, reason, message)
		return
	}
	e.calm.Event(object, kind, reason, message)
}

// countedTransport counts and times requests to the API server (O46).
type countedTransport struct {
	next http.RoundTripper
	set  *meter.Set
}

// RoundTrip implements http.RoundTripper.
func (t *countedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	begin := time.Now()
	response, err := t.next.RoundTrip(request)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(response.StatusCode)
	}
	t.set.Add(meter.ClientGoRequests, 1, "code", code, "method", request.Method)
	t.set.Observe(meter.ClientGoDuration, time.Since(begin).Seconds(), describeRequest(request)...)
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below, for example to cancel requests.
func (t *countedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// describeRequest reads what a request is about from its path: /api/v1/namespaces/x/pods/y/eviction, /apis/group/version/….
func describeRequest(request *http.Request) []string {
	verb := request.Method
	if request.URL.Query().Get("watch") == "true" {
		verb = "WATCH"
	}
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	var group, version, kind, subresource string
	switch {
	case len(parts) > 1 && parts[0] == "api":
		version, parts = parts[1], parts[2:]
	case len(parts) > 2 && parts[0] == "apis":
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return []string{"verb", verb}
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	if len(parts) > 0 {
		kind = parts[0]
	}
	if len(parts) > 2 {
		subresource = parts[2]
	}
	return []string{"verb", verb, "group", group, "version", version, "kind", kind, "subresource", subresource}
}
