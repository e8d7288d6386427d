package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/crds"
	"karpenter/internal/local/plane"
	"karpenter/internal/operator/webhook"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
)

// Kinds are our definitions in a running control plane, with the webhook that converts between their versions.
type Kinds struct {
	stop  context.CancelFunc
	ended chan struct{}
}

// ServeKinds installs our definitions and starts the webhook that converts between their versions, outside of the
// cluster, on a free loopback port. It returns when both versions are served.
func ServeKinds(ctx context.Context, p *plane.Plane, log *slog.Logger) (*Kinds, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a port for the conversion webhook: %w", err)
	}
	target := webhook.Target{URL: "https://" + listener.Addr().String()}
	definitions := crds.Objects()
	for _, definition := range definitions {
		if len(definition.Spec.Versions) > 1 {
			definition.Spec.Conversion = target.Conversion(definition.Spec.Names.Plural, nil)
		}
	}
	if err := p.Install(ctx, definitions); err != nil {
		return nil, err
	}
	kube, err := conversionClient(p)
	if err != nil {
		return nil, err
	}
	server, err := webhook.NewServer(webhook.Options{
		Client: kube, Clock: realClock{}, Log: log,
		Secret: types.NamespacedName{Namespace: "kube-system", Name: "karpenter-conversion"}, Target: target, Listener: listener,
	})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	k := &Kinds{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(k.ended)
		if err := server.Start(running); err != nil {
			log.Error("conversion webhook ended", "error", err)
		}
	}()
	select {
	case <-server.Ready():
	case <-k.ended:
		return nil, errors.New("the conversion webhook ended at once")
	case <-ctx.Done():
		k.Stop()
		return nil, context.Cause(ctx)
	}
	if err := awaitConversion(ctx, kube); err != nil {
		k.Stop()
		return nil, err
	}
	return k, nil
}

// Stop ends the webhook; the definitions stay.
func (k *Kinds) Stop() {
	k.stop()
	<-k.ended
}

// awaitConversion returns when the API server has seen what was written into the definitions, which it does soon but
// not at once, and one by one.
func awaitConversion(ctx context.Context, kube client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for _, probe := range probes() {
		for err := kube.Create(ctx, probe.DeepCopy(), client.DryRunAll); err != nil; err = kube.Create(ctx, probe.DeepCopy(), client.DryRunAll) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting for %s of %s to be served: %w (last answer: %w)", probe.GetKind(), probe.GetAPIVersion(), context.Cause(ctx), err)
			case <-ticker.C:
			}
		}
	}
	return nil
}

func conversionClient(p *plane.Plane) (client.Client, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	kube, err := client.New(p.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return kube, nil
}

// newScheme knows Kubernetes' own kinds, definitions of kinds, and ours.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, karpv1.AddToScheme, awsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
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

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
