package plane

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is who the API server remembers as the writer of our manifests.
const fieldOwner = client.FieldOwner("karpenter-local")

// Objects reads the documents of a manifest.
func Objects(manifest io.Reader) ([]*unstructured.Unstructured, error) {
	var list []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(manifest, 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading a manifest: %w", err)
		}
		if len(object.Object) > 0 {
			list = append(list, object)
		}
	}
}

// Apply applies an object, which then is as the API server has it.
func Apply(ctx context.Context, kube client.Client, object *unstructured.Unstructured, opts ...client.ApplyOption) error {
	opts = append(opts, fieldOwner, client.ForceOwnership)
	if err := kube.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), opts...); err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
