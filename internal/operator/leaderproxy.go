package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// leaderFor is how long it is believed who leads.
	leaderFor = 5 * time.Second
	// relayTimeout is how long the process that leads may take to be reached.
	relayTimeout = 3 * time.Second
	// relayedHeader marks a request that has been handed on once, so that two processes that take each other for the leader do
	// not hand it to and fro.
	relayedHeader = "Karpenter-Relayed"
)

// leaderProxy is the handler in front of the JSON API. Until there is something behind it, and in processes that do not lead, it says so:
// what they would show is not what is decided. Where others can reach the process that leads, requests are handed on to it, so
// that a Service may pick any.
type leaderProxy struct {
	// relay hands a request on to the host that leads; nil if that cannot be reached.
	relay func(w http.ResponseWriter, r *http.Request, to standing)

	mu      sync.Mutex
	handler http.Handler
	// leads says who leads if this process does not.
	leads func(context.Context) standing
}

// standing is what is known of the process that leads: nothing if it is this one.
type standing struct {
	// text says who leads, in one sentence.
	text string
	// pod is its name, and host its address; "" if they are not known.
	pod, host string
}

func (d *leaderProxy) open(handler http.Handler, leads func(context.Context) standing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handler, d.leads = handler, leads
}

// ServeHTTP implements http.Handler.
func (d *leaderProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	handler, leads := d.handler, d.leads
	d.mu.Unlock()
	if handler == nil {
		unavailable(w, "this process is still starting")
		return
	}
	if strings.HasPrefix(r.URL.Path, "/api/") {
		if other := leads(r.Context()); other.text != "" {
			if d.relay != nil && other.host != "" && r.Header.Get(relayedHeader) == "" {
				d.relay(w, r, other)
				return
			}
			unavailable(w, other.text)
			return
		}
	}
	handler.ServeHTTP(w, r)
}

func unavailable(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text})
}

// relayTo hands requests on to a port of the process that leads. Tokens are reviewed there. They go straight to it: a proxy of
// the environment is meant for the cloud, and must not see them.
func relayTo(port string, log *slog.Logger) func(http.ResponseWriter, *http.Request, standing) {
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: relayTimeout}).DialContext, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute}
	return func(w http.ResponseWriter, r *http.Request, to standing) {
		proxy := &httputil.ReverseProxy{
			Transport: transport,
			Rewrite: func(p *httputil.ProxyRequest) {
				p.SetURL(&url.URL{Scheme: "http", Host: net.JoinHostPort(to.host, port)})
				p.Out.Host = p.In.Host
				p.Out.Header.Set(relayedHeader, "1")
			},
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				log.Debug("a request for the dashboard could not be handed on", "pod", to.pod, "error", err)
				unavailable(w, fmt.Sprintf("pod %s leads, and does not answer: try again in a moment", to.pod))
			},
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		}
		proxy.ServeHTTP(w, r)
	}
}

// leader says who leads.
type leader struct {
	kube    kubernetes.Interface
	options *Options
	elected <-chan struct{}
	now     func() time.Time

	mu    sync.Mutex
	known standing
	at    time.Time
}

// other is who leads, or nothing if this process does.
func (l *leader) other(ctx context.Context) standing {
	select {
	case <-l.elected:
		return standing{}
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); l.known.text == "" || now.Sub(l.at) > leaderFor {
		l.known, l.at = l.ask(ctx), now
	}
	return l.known
}

func (l *leader) ask(ctx context.Context) standing {
	where := l.options.leaseNamespace() + "/" + l.options.LeaderElectionName
	lease, err := l.kube.CoordinationV1().Leases(l.options.leaseNamespace()).Get(ctx, l.options.LeaderElectionName, metav1.GetOptions{})
	if err != nil {
		return standing{text: fmt.Sprintf("this process does not lead, and Lease %s cannot be read: %v", where, err)}
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return standing{text: fmt.Sprintf("this process does not lead, and nobody holds Lease %s: ask again in a moment", where)}
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	text := fmt.Sprintf("this process does not lead: ask %s, which holds Lease %s", pod, where)
	return standing{text: text, pod: pod, host: l.hostOf(ctx, pod)}
}

// hostOf is the address of a pod; "" if it has none. Pods may be listed but not got.
func (l *leader) hostOf(ctx context.Context, pod string) string {
	list, err := l.kube.CoreV1().Pods(l.options.SystemNamespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + pod})
	if err != nil || len(list.Items) != 1 {
		return ""
	}
	return list.Items[0].Status.PodIP
}
