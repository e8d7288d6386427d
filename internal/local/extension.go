package local

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
)

// extensionName is under which the kubeconfig says where the controller is, for the commands that ask it.
const extensionName = "karpenter"

// noteController writes the controller's address into the kubeconfig, on each of its clusters.
func noteController(kubeconfig, url string) error {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return fmt.Errorf("reading back the kubeconfig: %w", err)
	}
	raw, err := json.Marshal(map[string]string{"controller": url})
	if err != nil {
		return fmt.Errorf("writing the controller's address: %w", err)
	}
	for _, cluster := range config.Clusters {
		if cluster.Extensions == nil {
			cluster.Extensions = map[string]runtime.Object{}
		}
		cluster.Extensions[extensionName] = &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
	}
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return fmt.Errorf("writing the controller's address into the kubeconfig: %w", err)
	}
	return nil
}
