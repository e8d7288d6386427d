package capiplug

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud/plug"
	"karpenter/cloud/setting"
	"karpenter/internal/cloud/capi"
	"karpenter/internal/cloud/capi/class"
	"karpenter/internal/cloud/capi/kinds"
	"karpenter/internal/wait"
)

const (
	// templatesEvery is how often infrastructure templates are read, for scalable resources that do not say what a node has.
	templatesEvery = time.Minute
	// launchSlack is how much longer than a Machine may take for its provider ID a claim is kept.
	launchSlack = 5 * time.Minute
	// requestTimeout bounds one request to the management cluster; requestsPerSecond paces them.
	requestTimeout    = 30 * time.Second
	requestsPerSecond = 200
)

// Plugin is the Cluster API provider.
func Plugin() plug.Plugin {
	return plug.Plugin{
		Name: "cluster-api", Kind: capi.Kind(), New: func() plug.Cloud { return &Cloud{} },
		Help: "With provider cluster-api it reaches the management cluster by the file that CLUSTER_API_KUBECONFIG names, or takes this cluster for it.", Example: "PROVIDER=cluster-api",
	}
}

// Options are what the provider's settings say.
type Options struct {
	Kubeconfig, Namespace, Cluster string
	Prices                         map[string]float64
	ProvisionTimeout               time.Duration
}

// Settings implements plug.Cloud.
func (o *Options) Settings(func(string)) []setting.Setting {
	return []setting.Setting{
		{
			Env: "CLUSTER_API_KUBECONFIG", ID: "capi", Help: "kubeconfig file of the management cluster of Cluster API; without it that is the cluster which nodes join",
			Set: setting.Text(&o.Kubeconfig),
		},
		{
			Env: "CLUSTER_API_NAMESPACE", ID: "capi", Help: "namespace of the scalable resources in the management cluster; empty for all",
			Set: setting.Text(&o.Namespace),
		},
		{
			Env: "CLUSTER_API_CLUSTER_NAME", ID: "capi", Help: "name of the Cluster whose scalable resources are used; empty for all",
			Set: setting.Text(&o.Cluster),
		},
		{
			Env: "CLUSTER_API_PRICE_FILE", ID: "capi", Help: "file with dollars an hour by instance type, for scalable resources that carry no price",
			Set: o.setPrices,
		},
		{
			Env: "CLUSTER_API_PROVISION_TIMEOUT", ID: "capi", Default: capi.DefaultProvisionTimeout.String(), Help: "how long a Machine may take to get its provider ID before another scalable resource is tried",
			Set: setting.Duration(&o.ProvisionTimeout, time.Minute),
		},
	}
}

func (o *Options) setPrices(path string) (err error) {
	o.Prices = nil
	if path != "" {
		o.Prices, err = readPrices(path)
	}
	return err
}

// Cloud is the Cluster API provider of a process.
type Cloud struct {
	Options
	process plug.Process
	config  *rest.Config
	scheme  *runtime.Scheme
}

// Connect implements plug.Cloud.
func (c *Cloud) Connect(_ context.Context, process plug.Process) error {
	c.process = process
	c.config = rest.CopyConfig(process.Config)
	if c.Kubeconfig != "" {
		config, err := kubeconfig(c.Kubeconfig)
		if err != nil {
			return err
		}
		c.config = config
	}
	c.config.Timeout, c.config.QPS, c.config.Burst = 0, requestsPerSecond, 2*requestsPerSecond
	c.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return fenced{process.Fence, next} })
	return nil
}

// fenced keeps a process that does not lead any more from writing.
type fenced struct {
	may  func() error
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && f.may != nil {
		if err := f.may(); err != nil {
			return nil, err
		}
	}
	return f.next.RoundTrip(request)
}

// Find implements plug.Cloud: which versions the management cluster serves, and whether it is clear which Cluster is meant.
func (c *Cloud) Find(ctx context.Context) (err error) {
	config := rest.CopyConfig(c.config)
	config.Timeout = requestTimeout
	if c.scheme, err = schemeOf(config); err != nil {
		return err
	}
	if c.Kubeconfig != "" && c.Cluster == "" {
		management, err := client.New(config, client.Options{Scheme: c.scheme})
		if err != nil {
			return fmt.Errorf("management cluster %s: %w", config.Host, err)
		}
		if err := onlyOne(ctx, management, c.Namespace); err != nil {
			return fmt.Errorf("management cluster %s %w", config.Host, err)
		}
	}
	c.process.Log.Info("found the management cluster", "endpoint", c.config.Host, "namespace", c.Namespace, "cluster", c.Cluster)
	return nil
}

// Wire implements plug.Cloud.
func (c *Cloud) Wire(ctx context.Context, parts plug.Parts) (*plug.Wired, error) {
	management, caches, err := c.clients(parts.Clock)
	if err != nil {
		return nil, err
	}
	k := parts.Manager.GetClient()
	classes := &plug.Classes[*v1alpha1.ClusterAPINodeClass]{}
	if err := classes.Follow(ctx, parts.Manager.GetCache(), &v1alpha1.ClusterAPINodeClass{}); err != nil {
		return nil, err
	}
	status := &class.Status{Client: k, Recorder: parts.Recorder, Clock: parts.Clock}
	machines := &class.Machines{Client: k, Clock: parts.Clock, Recorder: parts.Recorder, Meter: parts.Meter, Log: parts.Log.With("controller", "nodeclaim.machine"), Ledger: parts.Ledger}
	provider := capi.New(capi.Options{
		Management: management, Clock: parts.Clock, Namespace: c.Namespace, Cluster: c.Cluster, Prices: c.Prices, ProvisionTimeout: c.ProvisionTimeout,
		Class: classes.Get, Classes: func() []*v1alpha1.ClusterAPINodeClass { return all(classes) },
		Pools: func(class string) []*karpv1.NodePool { return poolsOf(ctx, k, class) },
		Changed: func() {
			for _, name := range classes.Names() {
				status.Wake(name)
			}
		},
		Seen: machines.Seen,
	})
	status.Resolver, machines.Ended = provider, provider.Ended
	if err := provider.Follow(ctx, caches); err != nil {
		return nil, err
	}
	// Not by the manager, which starts when everything has been tried once.
	wait.Go(parts.Clock, func() {
		if err := caches.Start(ctx); err != nil {
			parts.Log.Error("caches of the management cluster have ended", "error", err)
		}
	})
	return &plug.Wired{
		Provider: provider, Resources: capi.Resources(), Version: func(name string) string { return version(classes.Get(name)) },
		About:         func() plug.About { return plug.About{Cluster: c.Cluster, Outages: provider.Outages()} },
		LaunchTimeout: c.ProvisionTimeout + launchSlack,
		Refreshes:     []plug.Refresh{{Name: "providers.instancetype", Every: templatesEvery, Do: refresh(provider, caches), First: true}},
		Reconcilers:   []plug.Reconciler{status, machines},
	}, nil
}

// clients are one that asks the management cluster itself, and caches of it that wait by the clock.
func (c *Cloud) clients(at wait.Clock) (client.Client, cache.Cache, error) {
	config := rest.CopyConfig(c.config)
	config.Timeout = requestTimeout
	management, err := client.New(config, client.Options{Scheme: c.scheme})
	if err != nil {
		return nil, nil, fmt.Errorf("management cluster %s: %w", c.config.Host, err)
	}
	options := cache.Options{Scheme: c.scheme, Mapper: management.RESTMapper(), DefaultTransform: trim, NewInformer: wait.Informers(at)}
	if c.Namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{c.Namespace: {}}
	}
	caches, err := cache.New(c.config, options)
	if err != nil {
		return nil, nil, fmt.Errorf("caches of management cluster %s: %w", c.config.Host, err)
	}
	return management, caches, nil
}

// trim drops what nobody reads.
func trim(obj any) (any, error) {
	if o, ok := obj.(client.Object); ok {
		o.SetManagedFields(nil)
		if _, machine := obj.(*kinds.Machine); machine {
			o.SetFinalizers(nil)
		}
	}
	return obj, nil
}

// refresh waits until everything in the management cluster has been read, and reads infrastructure templates.
func refresh(provider *capi.Provider, caches cache.Cache) func(context.Context) error {
	return func(ctx context.Context) error {
		if !provider.Synced() {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			if !caches.WaitForCacheSync(ctx) {
				return fmt.Errorf("the management cluster has not been read yet")
			}
		}
		return provider.RefreshTemplates(ctx)
	}
}

func all(classes *plug.Classes[*v1alpha1.ClusterAPINodeClass]) (out []*v1alpha1.ClusterAPINodeClass) {
	for _, name := range slices.Sorted(slices.Values(classes.Names())) {
		if c := classes.Get(name); c != nil {
			out = append(out, c)
		}
	}
	return out
}

// poolsOf are the pools that name a class, as the cache shows them; none while it does not.
func poolsOf(ctx context.Context, c client.Client, class string) (out []*karpv1.NodePool) {
	list := &karpv1.NodePoolList{}
	if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // what their taints rule out is found when a claim is launched
	}
	for i := range list.Items {
		if ref := list.Items[i].Spec.Template.Spec.NodeClassRef; ref.Is(v1alpha1.GroupKind) && ref.Name == class {
			out = append(out, &list.Items[i])
		}
	}
	return out
}

// version changes with everything that nodes of the class come from.
func version(class *v1alpha1.ClusterAPINodeClass) string {
	if class == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%d", class.UID, class.Generation)
	for _, r := range class.Status.ScalableResources {
		fmt.Fprintf(&b, "/%s.%s", r.Namespace, r.Name)
	}
	return b.String()
}
