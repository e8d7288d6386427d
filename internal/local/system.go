package local

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"

	"karpenter/internal/local/plane"
)

//go:embed manifests/system.yaml
var systemManifest string

//go:embed manifests/system-aws.yaml
var systemAWSManifest string

// karpenterManifest is what the chart makes of the values of a local cluster, without the CRDs: test/charts writes it. THIS-CLUSTER and
// THIS-ENDPOINT are filled in at the start.
//
//go:embed manifests/karpenter.yaml
var karpenterManifest string

// karpenterCAPIManifest is the same with provider cluster-api.
//
//go:embed manifests/karpenter-cluster-api.yaml
var karpenterCAPIManifest string

//go:embed manifests/defaults.yaml
var defaultsManifest string

//go:embed manifests/defaults-cluster-api.yaml
var defaultsCAPIManifest string

// applySystem puts manifests of what every cluster has into the cluster.
func applySystem(ctx context.Context, kube client.Client, manifests ...string) error {
	list, err := plane.Objects(strings.NewReader(strings.Join(manifests, "\n---\n")))
	if err != nil {
		return err
	}
	for _, object := range list {
		err := plane.Apply(ctx, kube, object)
		if meta.IsNoMatchError(err) && strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") {
			continue // there are none before Kubernetes 1.30, and the chart makes none there
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// createDefaults makes the default pool and class of a manifest. What exists is the user's, and stays as it is.
func createDefaults(ctx context.Context, kube client.Client, manifest string) error {
	list, err := plane.Objects(strings.NewReader(manifest))
	if err != nil {
		return err
	}
	for _, object := range list {
		if err := kube.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// awaitSystem returns when the system node runs the cluster's own pods.
func awaitSystem(ctx context.Context, kube client.Client) error {
	return await(ctx, "the system node's pods to run", func(ctx context.Context) (bool, error) {
		var deployments appsv1.DeploymentList
		err := kube.List(ctx, &deployments, client.InNamespace(metav1.NamespaceSystem))
		for i := range deployments.Items {
			if deployments.Items[i].Labels["app.kubernetes.io/managed-by"] == "Helm" { // the user's, who may have got it wrong
				continue
			}
			if status := &deployments.Items[i].Status; status.ReadyReplicas == 0 || status.ReadyReplicas != status.Replicas {
				return false, err
			}
		}
		return len(deployments.Items) > 0, err
	})
}

// awaitDefaults returns when the controller has found the default pool usable. A pool of an earlier run may have been
// changed so that it never is, so the wait is short.
func awaitDefaults(ctx context.Context, kube client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return await(ctx, "NodePool default to be ready", func(ctx context.Context) (bool, error) {
		pool := &karpv1.NodePool{}
		err := kube.Get(ctx, client.ObjectKey{Name: "default"}, pool)
		return err == nil && pool.StatusConditions().IsTrue(karpv1.ConditionReady), err
	})
}

// await asks until the answer is yes. It takes long only on a computer that has other things to do.
func await(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		ok, err := done(ctx)
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
