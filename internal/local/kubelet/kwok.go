package kubelet

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

//go:embed manifests/kwok.yaml
var kindsManifest []byte

// owner is who the API server remembers as the writer of the objects that tell kwok of logs and ports.
const owner = client.FieldOwner("karpenter-local")

// Kinds are the definitions of the kinds by which kwok is told of logs and ports. They must be in the cluster.
func Kinds() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var list []*apiextensionsv1.CustomResourceDefinition
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(kindsManifest), 4096); ; {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		err := decoder.Decode(definition)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the CRDs of kwok: %w", err)
		}
		list = append(list, definition)
	}
}

// describe tells kwok, which answers for the node's kubelet, where the process has its log and its ports.
func (w *worker) describe(ctx context.Context, log string) error {
	w.mu.Lock()
	forwards := []any{}
	for _, inside := range slices.Sorted(maps.Keys(w.ports)) {
		target := map[string]any{"address": "127.0.0.1", "port": int64(w.ports[inside])}
		forwards = append(forwards, map[string]any{"ports": []any{int64(inside)}, "target": target})
	}
	w.mu.Unlock()
	logs := []any{
		map[string]any{"containers": []any{w.container.Name}, "logsFile": log, "previousLogsFile": log + previousSuffix, "follow": true},
	}
	return errors.Join(w.tellKwok(ctx, "Logs", map[string]any{"logs": logs}), w.tellKwok(ctx, "PortForward", map[string]any{"forwards": forwards}))
}

// tellKwok writes one of kwok's objects about the pod, which goes with it.
func (w *worker) tellKwok(ctx context.Context, kind string, spec map[string]any) error {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": kind, "spec": spec}}
	object.SetNamespace(w.pod.Namespace)
	object.SetName(w.pod.Name)
	object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: w.pod.Name, UID: w.pod.UID}})
	if err := w.k.opts.Kube.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("telling kwok of the pod's %s: %w", kind, err)
	}
	return nil
}
