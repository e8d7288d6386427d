package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
)

const (
	// syncEvery is how often the Secret and the definitions are looked at: what somebody else changed is repaired, and
	// what another replica renewed is used, within this time.
	syncEvery = 15 * time.Second
	// retryAfter is the wait after a first failure; it doubles up to syncEvery.
	retryAfter = time.Second
	// drainTimeout is how long requests under way may take when the process ends.
	drainTimeout = 10 * time.Second
)

// Clock is the time, real or not.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

// Options are what a Server needs.
type Options struct {
	// Client reads and writes the Secret, the definitions and their objects. It must not be cached: the Secret is shared
	// by optimistic locking. Its scheme knows core, apiextensions.k8s.io and karpenter.sh/v1.
	Client client.Client
	// Class is the kind of node class of the provider that this process runs with; empty for all.
	Class schema.GroupKind
	Clock Clock
	Log   *slog.Logger
	// Secret is where the keys are kept.
	Secret types.NamespacedName
	// Target is how the API server reaches this server.
	Target Target
	// Listener is where it listens, without TLS.
	Listener net.Listener
}

// Server is the conversion webhook.
type Server struct {
	Options
	serving atomic.Pointer[tls.Certificate]
	// ready is closed once the server answers and the definitions point to it.
	ready chan struct{}
}

// newServer returns a server that does nothing before Start.
func newServer(options Options) (*Server, error) {
	if err := options.Target.validate(); err != nil {
		return nil, err
	}
	return &Server{Options: options, ready: make(chan struct{})}, nil
}

// Listen returns the server of a Service, on a port of this process; any free one if that is 0. Its keys are in a Secret beside the
// Service. The options have the clock and the log.
func Listen(config *rest.Config, target Target, options Options, port int) (*Server, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, apiextensionsv1.AddToScheme, karpv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme of the conversion webhook: %w", err)
		}
	}
	uncached, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client for the conversion webhook: %w", err)
	}
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, fmt.Errorf("%w; give it a port that is free", err)
	}
	options.Client, options.Target, options.Listener = uncached, target, listener
	options.Secret = types.NamespacedName{Namespace: target.ServiceNamespace, Name: target.ServiceName + "-conversion"}
	server, err := newServer(options)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return server, nil
}

// NeedLeaderElection tells controller-runtime that every replica serves.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (s *Server) Start(ctx context.Context) error {
	mux, owners := http.NewServeMux(), newOwners(s.Options)
	for _, kind := range s.served() {
		reviewer := newReviewer(poolsFrom(s.Client))
		reviewer.converted = owners.note
		mux.Handle(kind.path(), reviewer)
	}
	server := &http.Server{
		Handler:           mux,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate},
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       reviewTimeout,
		WriteTimeout:      reviewTimeout + 5*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.ServeTLS(s.Listener, "", "") }()
	stop := s.lookAfter(ctx, owners)
	err := s.keepUp(ctx, failed)
	stop()
	// The context is over; what is under way may finish, and what was written in v1beta1 just now become usable without us.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err = errors.Join(err, server.Shutdown(ending))
	owners.finish(ending)
	return err
}

// lookAfter moves the owners of fields as long as the server serves, and returns what ends that.
func (s *Server) lookAfter(ctx context.Context, owners *owners) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-s.ready: // before that there may be no definitions
			owners.run(ctx)
		case <-ctx.Done():
		}
	}()
	return func() { cancel(); <-ended }
}

// keepUp repeats sync until the context ends or the listener fails.
func (s *Server) keepUp(ctx context.Context, failed <-chan error) error {
	retry := retryAfter
	for first := true; ; {
		wait := syncEvery
		if err := s.sync(ctx); err == nil {
			retry = retryAfter
			if first {
				first = false
				close(s.ready)
			}
		} else if ctx.Err() == nil {
			s.Log.Error("conversion webhook cannot keep its certificate and CRDs up to date", "error", err)
			wait, retry = retry, min(2*retry, syncEvery)
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("serving conversions: %w", err)
		case <-s.Clock.After(wait):
		}
	}
}

// certificate is what TLS asks for with each connection.
func (s *Server) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if certificate := s.serving.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, errors.New("the certificate is not there yet")
}
