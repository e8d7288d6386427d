// Package operator wires the program: it makes the real clock and the clients, and starts the reconcilers.
package operator

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control/pool"
)

// Options are what the reconcilers run with.
type Options struct {
	// Config reaches the cluster.
	Config *rest.Config
	Log    *slog.Logger
}

// Run runs the reconcilers until the context ends.
func Run(ctx context.Context, opts Options) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpv1.AddToScheme, awsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("building the scheme: %w", err)
		}
	}
	m, err := manager.New(opts.Config, manager.Options{
		Scheme:  scheme,
		Logger:  logr.FromSlogHandler(opts.Log.Handler()),
		Metrics: server.Options{BindAddress: "0"},
		// A process may run more than one cluster's reconcilers, one after the other or side by side.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return fmt.Errorf("setting up the reconcilers: %w", err)
	}
	ready := &pool.Ready{Client: m.GetClient(), Rules: awsv1.LabelRules(), Now: time.Now}
	if err := ready.Register(m); err != nil {
		return fmt.Errorf("setting up nodepool.readiness: %w", err)
	}
	if err := m.Start(ctx); err != nil {
		return fmt.Errorf("running the reconcilers: %w", err)
	}
	return nil
}
