package kubelet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
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
	if at, err := netip.ParseAddr(host); !found && (err != nil || !podNetwork.Contains(at)) {
		dialer := net.Dialer{Timeout: dialTimeout}
		return dialer.DialContext(ctx, "tcp", address)
	}
	return dialFirst(ctx, candidates, port)
}

// DialPort connects to a port of the controller's container, in a pod that is ready if there is one.
func (k *Kubelet) DialPort(ctx context.Context, port int32) (net.Conn, error) {
	return dialFirst(ctx, readyFirst(k.workers()), intstr.FromInt32(port))
}

// dialFirst connects to the first of the pods that listens on a port.
func dialFirst(ctx context.Context, pods []*worker, port intstr.IntOrString) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	for _, w := range pods {
		if outside, ok := w.outside(port); ok {
			return dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(outside)))
		}
	}
	return nil, fmt.Errorf("connecting to port %s: no pod of this computer is behind it", port.String())
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
	return readyFirst(slices.DeleteFunc(k.workers(), func(w *worker) bool {
		return w.pod.Namespace != service.Namespace || len(service.Spec.Selector) == 0 || !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(w.pod.Labels))
	}))
}

// readyFirst puts pods that are ready before the others.
func readyFirst(pods []*worker) []*worker {
	ready := map[*worker]bool{}
	for _, w := range pods {
		ready[w] = w.isReady()
	}
	slices.SortStableFunc(pods, func(a, b *worker) int {
		switch {
		case ready[a] == ready[b]:
			return 0
		case ready[a]:
			return -1
		}
		return 1
	})
	return pods
}
