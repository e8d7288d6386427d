package capiplug

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"karpenter/internal/cloud/capi/kinds"
)

// kubeconfig reads how to reach a management cluster of its own.
func kubeconfig(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("--cluster-api-kubeconfig %s: %w; give a kubeconfig file of the management cluster", path, err)
	}
	return config, nil
}

// schemeOf knows Cluster API's kinds in the version that the management cluster serves. An error says what is wrong with that cluster.
func schemeOf(config *rest.Config) (*runtime.Scheme, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("management cluster %s: %w", config.Host, err)
	}
	var missing []string
	for _, version := range kinds.Versions {
		list, err := d.ServerResourcesForGroupVersion(kinds.Group + "/" + version)
		if apierrors.IsNotFound(err) {
			missing = append(missing, version)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("management cluster %s does not answer: %w; check --cluster-api-kubeconfig and the rights that it gives", config.Host, err)
		}
		served := map[string]bool{}
		for _, r := range list.APIResources {
			served[r.Kind] = true
		}
		for _, kind := range []string{"Cluster", "MachineDeployment", "MachineSet", "Machine"} {
			if !served[kind] {
				return nil, fmt.Errorf("management cluster %s serves %s/%s without %s; install Cluster API's core provider completely", config.Host, kinds.Group, version, kind)
			}
		}
		scheme := runtime.NewScheme()
		return scheme, kinds.AddToScheme(version)(scheme)
	}
	return nil, fmt.Errorf("management cluster %s serves none of the versions %v of %s; install Cluster API there, or name another cluster with --cluster-api-kubeconfig", config.Host, missing, kinds.Group)
}

// onlyOne says why it is not clear which Cluster's nodes are to be launched. A controller that takes all for its own would end the Machines of
// another one.
func onlyOne(ctx context.Context, management client.Client, namespace string) error {
	list := &kinds.ClusterList{}
	if err := management.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("does not list its Clusters: %w; check the rights that --cluster-api-kubeconfig gives", err)
	}
	if len(list.Items) > 1 {
		return fmt.Errorf("has %d Clusters, among them %s and %s; give the namespace and the name of the one that has this controller's pods with --cluster-api-namespace and --cluster-api-cluster-name",
			len(list.Items), client.ObjectKeyFromObject(&list.Items[0]), client.ObjectKeyFromObject(&list.Items[1]))
	}
	return nil
}

// maxPriceFile bounds a price file; one with every instance type of a large cloud is smaller.
const maxPriceFile = 1 << 20

// readPrices reads a price file: YAML or JSON with dollars an hour by instance type.
func readPrices(path string) (map[string]float64, error) {
	data, err := os.ReadFile(path)
	if err == nil && len(data) > maxPriceFile {
		err = errors.New("it has more than 1 MiB")
	}
	if err != nil {
		return nil, fmt.Errorf("--cluster-api-price-file %s: %w; give a file with lines such as \"large: 0.42\"", path, err)
	}
	prices := map[string]float64{}
	if err := yaml.UnmarshalStrict(data, &prices); err != nil {
		return nil, fmt.Errorf("--cluster-api-price-file %s: %w; give a map of instance types to dollars an hour, such as \"large: 0.42\"", path, err)
	}
	for name, price := range prices {
		if price < 0 || math.IsNaN(price) || math.IsInf(price, 0) {
			return nil, fmt.Errorf("--cluster-api-price-file %s: the price of %s is %v; give dollars an hour of 0 or more", path, name, price)
		}
	}
	return prices, nil
}
