package kubelet

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// dialTimeout is how long a connection may take: all of them lead to this computer.
const dialTimeout = 10 * time.Second

// Dial connects to an address as the cluster's network would: that of a pod or of a Service leads to the process behind it, and any
// other is one of this computer.
func (k *Kubelet) Dial(ctx context.Context, address string) (net.Conn, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("connecting to %q: %w", address, err)
	}
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("connecting to %q: the port is no number", address)
	}
	port := intstr.FromInt32(int32(number))
	candidates, found := k.workersAt(host), true
	if len(candidates) == 0 {
		if candidates, port, found, err = k.behind(ctx, host, port); err != nil {
			return nil, err
		}
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	if at, err := netip.ParseAddr(host); !found && (err != nil || !podNetwork.Contains(at)) {
		return dialer.DialContext(ctx, "tcp", address)
	}
	for _, w := range candidates {
		if outside, ok := w.outside(port); ok {
			return dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(outside)))
		}
	}
	return nil, fmt.Errorf("connecting to %s: no pod of this computer is behind it", address)
}

// workersAt is the pod that has an address, if one that is run does.
func (k *Kubelet) workersAt(host string) []*worker {
	for _, w := range k.workers() {
		if w.pod.Status.PodIP == host {
			return []*worker{w}
		}
	}
	return nil
}

// behind finds the pods behind the address and port of a Service, those that are ready first, and which port they have for it.
// Not found is an address that no Service has.
func (k *Kubelet) behind(ctx context.Context, host string, port intstr.IntOrString) (pods []*worker, target intstr.IntOrString, found bool, err error) {
	services := &corev1.ServiceList{}
	if err := k.opts.Kube.List(ctx, services); err != nil {
		return nil, port, false, fmt.Errorf("looking for the Service at %s: %w", host, err)
	}
	for i := range services.Items {
		service := &services.Items[i]
		if service.Spec.ClusterIP != host {
			continue
		}
		for j := range service.Spec.Ports {
			if service.Spec.Ports[j].Port == port.IntVal {
				return k.selected(service), service.Spec.Ports[j].TargetPort, true, nil
			}
		}
		return nil, port, true, nil
	}
	return nil, port, false, nil
}

// selected are the pods that a Service selects, those that are ready first.
func (k *Kubelet) selected(service *corev1.Service) []*worker {
	var ready, others []*worker
	for _, w := range k.workers() {
		if w.pod.Namespace != service.Namespace || len(service.Spec.Selector) == 0 || !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(w.pod.Labels)) {
			continue
		}
		w.mu.Lock()
		isReady := w.state.ready
		w.mu.Unlock()
		if isReady {
			ready = append(ready, w)
		} else {
			others = append(others, w)
		}
	}
	return append(ready, others...)
}

// Gateway is a proxy (HTTP CONNECT) into the cluster's network.
func (k *Kubelet) Gateway() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "this is a proxy that only connects", http.StatusMethodNotAllowed)
			return
		}
		inner, err := k.Dial(r.Context(), r.Host)
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
		if _, err := io.WriteString(outer, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
			return
		}
		var both sync.WaitGroup
		both.Go(func() { pipe(inner, buffered.Reader) })
		both.Go(func() { pipe(outer, inner) })
		both.Wait()
	})
}

// pipe copies until the source ends, and then closes the destination, which ends the other direction.
func pipe(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
}
