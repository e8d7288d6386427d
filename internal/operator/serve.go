package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

const (
	headerTimeout = 5 * time.Second
	// serveGrace is how long answers under way may take when the process ends.
	serveGrace = 2 * time.Second
)

// metricsHandler serves metrics, decisions unless that is nil and, if asked to, profiles (O56).
func metricsHandler(profiling bool, metrics, decisions http.Handler) http.Handler {
	mux := http.NewServeMux()
	if decisions != nil {
		mux.Handle("/api/", decisions)
	}
	mux.Handle("/metrics", metrics)
	if profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// healthHandler serves /healthz and /readyz. An answer that is not ok says why.
func healthHandler(healthy, ready func() error) http.Handler {
	mux := http.NewServeMux()
	for path, check := range map[string]func() error{"/healthz": healthy, "/readyz": ready} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			if err := check(); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprintln(w, err)
				return
			}
			fmt.Fprintln(w, "ok")
		})
	}
	return mux
}

// servePort is serve on a port of every address.
func servePort(port int, variable string, handler http.Handler, log *slog.Logger) (stop func(), err error) {
	stop, err = serve(fmt.Sprintf(":%d", port), variable, handler, log)
	if err != nil {
		return nil, fmt.Errorf("%s=%d: %w; give it a port that is free", variable, port, errors.Unwrap(err))
	}
	return stop, nil
}

// serve answers on an address until the returned function is called.
func serve(address, variable string, handler http.Handler, log *slog.Logger) (stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s=%q: %w", variable, address, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("stopped serving", "address", address, "error", err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), serveGrace)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		<-ended
	}, nil
}
