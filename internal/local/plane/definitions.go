package plane

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

const (
	// serveTimeout is how long the API server may take to serve a new definition; it takes well under a second.
	serveTimeout = 5 * time.Minute
	// listedEvery is how often it is asked whether it lists it.
	listedEvery = 20 * time.Millisecond
)

// Install creates or updates definitions of kinds and returns when the API server serves them. A webhook that converts
// a kind already is left in place, unless the definition says by which authority the webhook is known: who converts writes that itself.
func (p *Plane) Install(ctx context.Context, definitions []*apiextensionsv1.CustomResourceDefinition) error {
	clients, err := clientset.NewForConfig(p.Config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	api := clients.ApiextensionsV1().CustomResourceDefinitions()
	ctx, cancel := context.WithTimeout(ctx, serveTimeout)
	defer cancel()
	for _, definition := range definitions {
		_, err := api.Create(ctx, definition.DeepCopy(), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			var current *apiextensionsv1.CustomResourceDefinition
			if current, err = api.Get(ctx, definition.Name, metav1.GetOptions{}); err == nil {
				conversion := current.Spec.Conversion
				current.Spec = *definition.Spec.DeepCopy()
				if conversion != nil && conversion.Strategy == apiextensionsv1.WebhookConverter && !converts(definition) {
					current.Spec.Conversion = conversion
				}
				_, err = api.Update(ctx, current, metav1.UpdateOptions{})
			}
		}
		if err != nil {
			return fmt.Errorf("installing %s: %w", definition.Name, err)
		}
	}
	for _, definition := range definitions {
		if err := awaitEstablished(ctx, clients, definition.Name); err != nil {
			return err
		}
		for _, version := range definition.Spec.Versions {
			if !version.Served {
				continue
			}
			if err := awaitListed(ctx, clients, definition, version.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// converts says whether a definition has all that the API server needs to know of its webhook.
func converts(definition *apiextensionsv1.CustomResourceDefinition) bool {
	c := definition.Spec.Conversion
	return c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil && len(c.Webhook.ClientConfig.CABundle) > 0
}

// awaitListed waits until clients that ask what there is are told of a kind: the API server says that a little later than it
// calls the definition established.
func awaitListed(ctx context.Context, clients clientset.Interface, definition *apiextensionsv1.CustomResourceDefinition, version string) error {
	ticker := time.NewTicker(listedEvery)
	defer ticker.Stop()
	for {
		list, err := clients.Discovery().ServerResourcesForGroupVersion(definition.Spec.Group + "/" + version)
		if err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == definition.Spec.Names.Plural }) {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("the API server did not list %s in %s in time: %w", definition.Name, version, context.Cause(ctx))
		}
	}
}

func awaitEstablished(ctx context.Context, clients clientset.Interface, name string) error {
	watcher, err := clients.ApiextensionsV1().CustomResourceDefinitions().Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(),
	})
	if err != nil {
		return fmt.Errorf("watching %s: %w", name, err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		definition, ok := event.Object.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			continue
		}
		for _, condition := range definition.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
	}
	return fmt.Errorf("the API server did not serve %s in time: %w", name, context.Cause(ctx))
}
