package local

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"karpenter/internal/local/kubelet"
	"karpenter/internal/local/plane"
)

// kindNoKarpenter marks the folder of a cluster without Karpenter in it.
const kindNoKarpenter = "no-karpenter"

// kind is what the folder of such a cluster is marked with.
func (o *Options) kind() string {
	if o.NoKarpenter {
		return kindNoKarpenter
	}
	return ""
}

// startPods begins to run the pods of Karpenter's charts. Where there is a controller already they are refused.
func (c *Cluster) startPods(ctx context.Context) error {
	opts := kubelet.Options{
		Kube: c.Client, Config: c.Config, Dir: filepath.Join(c.opts.Dir, "pods"), Env: awsSettings(c), Tell: c.tell,
	}
	opts.Env[LifelineEnv] = "1"
	switch {
	case !c.opts.NoKarpenter:
		opts.Refuse = "this cluster has Karpenter already, as a process beside it, and two would get in each other's way; start a cluster with --no-karpenter, in another --dir or with --fresh, to have the chart's pods run"
	case len(c.opts.Controller) == 0:
		return errors.New("running the charts' pods: the program is not given")
	default:
		opts.Program = c.opts.Controller[0]
	}
	c.pods = kubelet.Start(ctx, opts)
	if c.gate == nil {
		return nil
	}
	return c.gate.open(c.plane, c.pods.Gateway())
}

// gate is where the API server comes to reach pods and Services. Its port must be known before the API server starts, and what is
// behind it is there after.
type gate struct {
	listener net.Listener
	server   *http.Server
}

func newGate(dir string) (*gate, error) {
	listener, err := plane.Listen(dir, "gateway")
	if err != nil {
		return nil, err
	}
	return &gate{listener: listener, server: &http.Server{ReadHeaderTimeout: 10 * time.Second}}, nil
}

// open lets in who shows a certificate of the cluster.
func (g *gate) open(p *plane.Plane, handler http.Handler) error {
	pair, err := tls.LoadX509KeyPair(p.ServingPair())
	if err != nil {
		return fmt.Errorf("reading the gateway's certificate: %w", err)
	}
	authority, err := os.ReadFile(p.CA)
	if err != nil {
		return fmt.Errorf("reading the cluster's authority: %w", err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	g.server.Handler = handler
	listener := tls.NewListener(g.listener, &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert})
	go func() { _ = g.server.Serve(listener) }() // ends with ErrServerClosed
	return nil
}

func (g *gate) close() {
	_ = g.server.Close()
	_ = g.listener.Close()
}

// greetWithout is what to do with a cluster that has no Karpenter yet.
const greetWithout = `
Karpenter is not in this cluster yet. In another terminal:

  export KUBECONFIG=%s PATH=%s:$PATH
  helm upgrade --install karpenter charts/karpenter --namespace kube-system --set settings.clusterName=%s --set settings.interruptionQueue=%[3]s --wait
  kubectl get pods -n kube-system -l app.kubernetes.io/name=karpenter

docs/start/helm.md goes on from there. The AWS simulator is at
%s.
Ctrl-C stops the cluster and keeps it in %s.

`
