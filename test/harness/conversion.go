package harness

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/operator/webhook"
)

// servicePort is that of the Service in front of the webhook.
const servicePort = 8443

// conversion is the webhook that converts between v1beta1 and v1, as the controller runs it.
type conversion struct {
	// at is where it listens, once it does.
	at    atomic.Pointer[string]
	stop  context.CancelFunc
	ended chan struct{}
}

// dial is the network of a cluster whose only pod is the webhook.
func (c *conversion) dial(ctx context.Context, address string) (net.Conn, error) {
	if at := c.at.Load(); at != nil && strings.HasSuffix(address, ":"+strconv.Itoa(servicePort)) {
		address = *at
	}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	return dialer.DialContext(ctx, "tcp", address)
}

// StartConversion installs our CRDs, as the chart does, and starts the webhook that converts between their versions. AwaitConversion waits
// for it.
func (c *Cluster) StartConversion(ctx context.Context, clock webhook.Clock) error {
	target := webhook.Target{ServiceNamespace: metav1.NamespaceSystem, ServiceName: "karpenter", ServicePort: servicePort}
	if err := c.install(ctx, target.Definitions()); err != nil {
		return err
	}
	if err := c.Client.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: target.ServiceNamespace, Name: target.ServiceName},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: servicePort}}},
	}); err != nil {
		return err
	}
	server, err := webhook.Listen(c.Config, target, webhook.Options{Clock: clock, Log: slog.New(slog.DiscardHandler)}, 0)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &c.webhook
	w.stop, w.ended = stop, make(chan struct{})
	w.at.Store(new(fmt.Sprintf("127.0.0.1:%d", server.Listener.Addr().(*net.TCPAddr).Port)))
	go func() {
		defer close(w.ended)
		_ = server.Start(running) // what goes wrong is seen by whoever waits
	}()
	return nil
}

// install puts CRDs into the cluster. One that is there already gets its versions and its conversion in a single write: with the new
// versions and without the conversion, objects would be shown unconverted for a moment.
func (c *Cluster) install(ctx context.Context, definitions []*apiextensionsv1.CustomResourceDefinition) error {
	for _, definition := range definitions {
		current := definition.DeepCopy()
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(current), current)
		if err == nil {
			current.Spec = definition.Spec
			err = c.Client.Update(ctx, current)
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return c.Plane.Install(ctx, definitions)
}

// StopConversion ends the webhook, if it runs. The CRDs stay.
func (c *Cluster) StopConversion() {
	if c.webhook.stop != nil {
		c.webhook.stop()
		<-c.webhook.ended
	}
}

// AwaitConversion returns when the API server converts: it sees what the webhook writes into the CRDs soon but not at once, and one by one.
func (c *Cluster) AwaitConversion(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for _, probe := range probes() {
		for err := c.Client.Create(ctx, probe.DeepCopy(), client.DryRunAll); err != nil; err = c.Client.Create(ctx, probe.DeepCopy(), client.DryRunAll) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting for %s of %s to be served: %w (last answer: %w)", probe.GetKind(), probe.GetAPIVersion(), context.Cause(ctx), err)
			case <-ticker.C:
			}
		}
	}
	return nil
}

// probes are objects of the older version, which only a cluster that converts accepts.
func probes() []*unstructured.Unstructured {
	claim := map[string]any{"requirements": []any{}, "nodeClassRef": map[string]any{"name": "probe"}}
	tags := []any{map[string]any{"tags": map[string]any{"probe": "probe"}}}
	return []*unstructured.Unstructured{
		probe("karpenter.sh/v1beta1", "NodePool", map[string]any{"template": map[string]any{"spec": claim}}),
		probe("karpenter.sh/v1beta1", "NodeClaim", claim),
		probe("karpenter.k8s.aws/v1beta1", "EC2NodeClass", map[string]any{"amiFamily": "AL2023", "role": "probe", "subnetSelectorTerms": tags, "securityGroupSelectorTerms": tags}),
	}
}

func probe(apiVersion, kind string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "conversion-probe"}, "spec": spec,
	}}
}
