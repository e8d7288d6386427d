package plane

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clusterAPIName is the name of the manager's process and of its log.
const clusterAPIName = "capi-manager"

// ClusterAPI names the files of Cluster API's core controllers, as kube/capi makes them.
type ClusterAPI struct {
	// Manager is the program.
	Manager string
	// Manifest has its CRDs and webhook configurations.
	Manifest string
}

// ClusterAPIIn are the files that make builds beside the control plane binary.
func ClusterAPIIn(dir string) ClusterAPI {
	return ClusterAPI{Manager: filepath.Join(dir, "capi-manager"), Manifest: filepath.Join(dir, "capi.yaml")}
}

// StartClusterAPI installs the kinds of Cluster API and runs its core controllers until the plane stops. Their webhooks convert, default and
// validate, with a certificate of this plane. It returns when they do.
func (p *Plane) StartClusterAPI(ctx context.Context, files ClusterAPI) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for _, file := range []string{files.Manager, files.Manifest} {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("the controllers of Cluster API are missing (make capi builds them): %w", err)
		}
	}
	ports, err := Ports(p.opts.Dir, clusterAPIName+"-webhook", clusterAPIName+"-health")
	if err != nil {
		return err
	}
	kinds, hooks, err := p.clusterAPIObjects(files.Manifest, fmt.Sprintf("https://127.0.0.1:%d", ports[0]))
	if err != nil {
		return err
	}
	p.opts.Progress("installing Cluster API")
	if err := p.Install(ctx, kinds); err != nil {
		return err
	}
	cert, key := p.ServingPair()
	child, err := spawnOther(files.Manager, filepath.Join(p.opts.Dir, "logs"), clusterAPIName, []string{
		"--kubeconfig=" + p.Kubeconfig, "--leader-elect=false", "--diagnostics-address=0", fmt.Sprintf("--health-addr=127.0.0.1:%d", ports[1]),
		fmt.Sprintf("--webhook-port=%d", ports[0]), "--webhook-cert-dir=" + filepath.Dir(cert), "--webhook-cert-name=" + filepath.Base(cert), "--webhook-key-name=" + filepath.Base(key),
	})
	if err != nil {
		return err
	}
	p.processes = append(p.processes, child)
	if err := p.await(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[1]), child); err != nil {
		return err
	}
	kube, err := client.New(p.Config, client.Options{})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for _, hook := range hooks {
		if err := Apply(ctx, kube, hook); err != nil {
			return err
		}
	}
	return nil
}

// clusterAPIObjects reads the CRDs and webhook configurations of a manifest, and has the API server find the webhooks at url.
func (p *Plane) clusterAPIObjects(manifest, url string) (kinds []*apiextensionsv1.CustomResourceDefinition, hooks []*unstructured.Unstructured, err error) {
	file, err := os.Open(manifest)
	if err != nil {
		return nil, nil, fmt.Errorf("opening Cluster API's manifest: %w", err)
	}
	defer file.Close()
	objects, err := Objects(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", manifest, err)
	}
	authority, err := os.ReadFile(p.CA)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the cluster's authority: %w", err)
	}
	for _, object := range objects {
		switch object.GetKind() {
		case "CustomResourceDefinition":
			kind := &apiextensionsv1.CustomResourceDefinition{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, kind); err != nil {
				return nil, nil, fmt.Errorf("%s: %s: %w", manifest, object.GetName(), err)
			}
			at := url + "/convert"
			kind.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &at, CABundle: authority},
				},
			}
			kinds = append(kinds, kind)
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			object.SetName("capi-" + object.GetName())
			webhooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
			for _, webhook := range webhooks {
				fields, _ := webhook.(map[string]any)
				path, _, _ := unstructured.NestedString(fields, "clientConfig", "service", "path")
				fields["clientConfig"] = map[string]any{"url": url + path, "caBundle": base64.StdEncoding.EncodeToString(authority)}
			}
			object.Object["webhooks"] = webhooks
			hooks = append(hooks, object)
		}
	}
	return kinds, hooks, nil
}
