package local

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/local/plane"
)

//go:embed manifests/kwok.yaml
var kwokManifest string

// silenceLog is the log of every pod that has no other, in the form that kubelets read.
const silenceLog = "2000-01-01T00:00:00Z stdout F kwok only simulates this container, so it has no output\n"

// startKwok runs kwok, which plays the kubelets of the nodes that nodeKeeper registers, and returns the port where the
// API server reaches them. While it runs it is told where pods that are run for real have their log and ports.
func startKwok(p *plane.Plane, dir string) (port int, err error) {
	ports, err := plane.Ports(dir, "kwok")
	if err != nil {
		return 0, err
	}
	config := filepath.Join(dir, "kwok.yaml")
	silence := filepath.Join(dir, "logs", "simulated.log")
	text := strings.ReplaceAll(kwokManifest, "SILENCE", strconv.Quote(silence))
	if err := os.WriteFile(silence, []byte(silenceLog), 0o600); err != nil {
		return 0, fmt.Errorf("writing the log of pods that have none: %w", err)
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return 0, fmt.Errorf("writing kwok's configuration: %w", err)
	}
	cert, key := p.ServingPair()
	err = p.Run("kwok",
		"--kubeconfig="+p.Kubeconfig, "--config="+config,
		fmt.Sprintf("--server-address=127.0.0.1:%d", ports[0]), fmt.Sprintf("--node-port=%d", ports[0]),
		"--tls-cert-file="+cert, "--tls-private-key-file="+key, "--enable-crds=Logs,PortForward",
	)
	return ports[0], err
}

// movePort writes a new port into the nodes of an earlier run, where that run's was another.
func movePort(ctx context.Context, kube client.Client, port int32) error {
	var nodes corev1.NodeList
	if err := kube.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if node.Annotations[kwokAnnotation] == "" || node.Status.DaemonEndpoints.KubeletEndpoint.Port == port {
			continue
		}
		before := node.DeepCopy()
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = port
		if err := kube.Status().Patch(ctx, node, client.StrategicMergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("writing the kubelet's port of node %s: %w", node.Name, err)
		}
	}
	return nil
}
