package infra

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"karpenter/internal/local/plane"
)

// Group and Version are those of the simulated kinds.
const (
	Group   = "infrastructure.cluster.x-k8s.io"
	Version = "v1alpha1"
)

const (
	coreGroup = "cluster.x-k8s.io"
	// workers reconcile side by side: a few hundred Machines may be asked for at once.
	workers = 16
	// lookAgain is how soon something is looked at again that waits for another object.
	lookAgain = 500 * time.Millisecond
	// provisionAtMost and endAtMost bound the parts of the boot time that pass until an instance is provisioned, and until one is gone.
	provisionAtMost, endAtMost = 5 * time.Second, 10 * time.Second
)

//go:embed kinds.yaml
var kindsManifest []byte

// Nodes are the kubelets of instances.
type Nodes interface {
	// Join registers a node, or finds it registered.
	Join(ctx context.Context, node *corev1.Node) error
	// Leave ends the kubelet of a node, if there is one with this provider ID.
	Leave(ctx context.Context, name, providerID string) error
}

// Options say where to work and how fast.
type Options struct {
	// Management is the management cluster, with an administrator's rights.
	Management *rest.Config
	Nodes      Nodes
	// BootTime is from an instance's launch until its node registers.
	BootTime time.Duration
}

// Infra is running controllers.
type Infra struct {
	stop    context.CancelFunc
	running sync.WaitGroup
}

// Kinds are the CRDs.
func Kinds() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	objects, err := plane.Objects(bytes.NewReader(kindsManifest))
	if err != nil {
		return nil, err
	}
	kinds := make([]*apiextensionsv1.CustomResourceDefinition, len(objects))
	for i, object := range objects {
		kinds[i] = &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, kinds[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", object.GetName(), err)
		}
	}
	return kinds, nil
}

// Start runs the controllers until Stop. The kinds must be installed.
func Start(ctx context.Context, opts Options) (*Infra, error) {
	skipName := true              // several may run in one process
	log.SetLogger(logr.Discard()) // what goes wrong is tried again, and shows on the objects
	m, err := manager.New(opts.Management, manager.Options{
		Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Scheme: clientgoscheme.Scheme,
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}, Unstructured: true}},
		Controller: config.Controller{SkipNameValidation: &skipName},
	})
	if err != nil {
		return nil, fmt.Errorf("starting the simulated infrastructure: %w", err)
	}
	machines := &machineReconciler{kube: m.GetClient(), live: m.GetAPIReader(), opts: opts}
	for kind, r := range map[string]reconcile.Reconciler{
		"SimCluster": reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			return reconcileCluster(ctx, m.GetClient(), r)
		}),
		"SimControlPlane": reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			return reconcileControlPlane(ctx, m.GetClient(), r)
		}),
		"SimMachineTemplate": reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			return reconcileTemplate(ctx, m.GetClient(), r)
		}),
		"SimMachine": machines,
	} {
		if err := builder.ControllerManagedBy(m).For(object(kind)).WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(r); err != nil {
			return nil, fmt.Errorf("starting the simulated infrastructure: %s: %w", kind, err)
		}
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	infra := &Infra{stop: stop}
	infra.running.Go(func() { _ = m.Start(running) }) // ends with running; what it cannot do, it tries again
	if !m.GetCache().WaitForCacheSync(ctx) {
		infra.Stop()
		return nil, fmt.Errorf("starting the simulated infrastructure: %w", context.Cause(ctx))
	}
	return infra, nil
}

// Stop ends the controllers and waits for them.
func (i *Infra) Stop() {
	i.stop()
	i.running.Wait()
}

// object is an empty one of a simulated kind.
func object(kind string) *unstructured.Unstructured {
	return ofKind(schema.GroupVersionKind{Group: Group, Version: Version, Kind: kind})
}

func ofKind(kind schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}

// core is an empty one of Cluster API's own kinds.
func core(kind string) *unstructured.Unstructured {
	return ofKind(schema.GroupVersionKind{Group: coreGroup, Version: "v1beta2", Kind: kind})
}

func text(o *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(o.Object, path...)
	return value
}

func flag(o *unstructured.Unstructured, path ...string) bool {
	value, _, _ := unstructured.NestedBool(o.Object, path...)
	return value
}

// setStatus writes fields of an object's status, if they are not so already.
func setStatus(ctx context.Context, kube client.Client, o *unstructured.Unstructured, fields map[string]any) error {
	before := o.DeepCopy()
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	if status == nil {
		status = map[string]any{}
	}
	for name, value := range fields {
		status[name] = value
	}
	o.Object["status"] = status
	return patchStatus(ctx, kube, o, before)
}

func patchStatus(ctx context.Context, kube client.Client, o, before *unstructured.Unstructured) error {
	change := client.MergeFrom(before)
	if data, err := change.Data(o); err != nil || string(data) == "{}" {
		return err
	}
	if err := kube.Status().Patch(ctx, o, change); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// ready is the condition that Cluster API shows as InfrastructureReady, since when it is so.
func ready(o *unstructured.Unstructured, status metav1.ConditionStatus, reason, message string) []any {
	since := metav1.Now().UTC().Format(time.RFC3339)
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if had, ok := c.(map[string]any); ok && had["type"] == "Ready" && had["status"] == string(status) {
			since, _ = had["lastTransitionTime"].(string)
		}
	}
	return []any{map[string]any{"type": "Ready", "status": string(status), "reason": reason, "message": message, "lastTransitionTime": since}}
}
