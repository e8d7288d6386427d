package plane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Dial connects to an address of the cluster's network.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// openGateway serves a proxy (HTTP CONNECT) into the cluster's network to who shows a certificate of the cluster.
func (p *Plane) openGateway(serving pair) error {
	own, err := tls.LoadX509KeyPair(serving.cert, serving.key)
	if err != nil {
		return fmt.Errorf("reading the gateway's certificate: %w", err)
	}
	authority, err := os.ReadFile(p.CA)
	if err != nil {
		return fmt.Errorf("reading the cluster's authority: %w", err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	if p.gateway, err = Listen(p.opts.Dir, "gateway"); err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(p.connect), ReadHeaderTimeout: 10 * time.Second}
	listener := tls.NewListener(p.gateway, &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert})
	go func() { _ = server.Serve(listener) }() // until the listener is closed
	return nil
}

func (p *Plane) connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "this is a proxy that only connects", http.StatusMethodNotAllowed)
		return
	}
	inner, err := p.opts.Dial(r.Context(), r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer inner.Close()
	outer, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer outer.Close()
	if _, err := io.WriteString(outer, "HTTP/1.1 200 Connection established\r\n\r\n"); err == nil {
		join(outer, buffered.Reader, inner)
	}
}

// Forward opens a port that is chosen as by Ports and leads each of its connections to a new one of dial, until the listener is closed.
func Forward(dir, name string, dial func(context.Context) (net.Conn, error)) (net.Listener, error) {
	listener, err := Listen(dir, name)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			outer, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			go func() {
				defer outer.Close()
				inner, err := dial(context.Background())
				if err != nil {
					return // whoever connects sees that nobody is there
				}
				defer inner.Close()
				join(outer, outer, inner)
			}()
		}
	}()
	return listener, nil
}

// join copies in both directions until either side ends. What comes from outer is read from buffered.
func join(outer net.Conn, buffered io.Reader, inner net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(inner, buffered); _ = inner.Close() })
	both.Go(func() { _, _ = io.Copy(outer, inner); _ = outer.Close() })
	both.Wait()
}
