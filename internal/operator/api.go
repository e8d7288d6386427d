package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"karpenter/internal/ledger"
	"karpenter/internal/web"
)

// leaderFor is how long it is believed who leads.
const leaderFor = 5 * time.Second

// frontDoor stands where the JSON API is served. Until there is something behind it, and in processes that do not lead, it says so:
// what they would show is not what is decided.
type frontDoor struct {
	mu      sync.Mutex
	handler http.Handler
	// leads says who leads if this process does not; "" if it does.
	leads func(context.Context) string
}

func (d *frontDoor) open(handler http.Handler, leads func(context.Context) string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handler, d.leads = handler, leads
}

// ServeHTTP implements http.Handler.
func (d *frontDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	handler, leads := d.handler, d.leads
	d.mu.Unlock()
	if handler == nil {
		unavailable(w, "this process is still starting")
		return
	}
	if strings.HasPrefix(r.URL.Path, "/api/") {
		if other := leads(r.Context()); other != "" {
			unavailable(w, other)
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

// leader says who leads.
type leader struct {
	kube    kubernetes.Interface
	options *Options
	elected <-chan struct{}
	now     func() time.Time

	mu   sync.Mutex
	text string
	at   time.Time
}

// other is one sentence about who leads, or "" if this process does.
func (l *leader) other(ctx context.Context) string {
	select {
	case <-l.elected:
		return ""
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); l.text == "" || now.Sub(l.at) > leaderFor {
		l.text, l.at = l.ask(ctx), now
	}
	return l.text
}

func (l *leader) ask(ctx context.Context) string {
	where := l.options.leaseNamespace() + "/" + l.options.LeaderElectionName
	lease, err := l.kube.CoordinationV1().Leases(l.options.leaseNamespace()).Get(ctx, l.options.LeaderElectionName, metav1.GetOptions{})
	if err != nil {
		return fmt.Sprintf("this process does not lead, and Lease %s cannot be read: %v", where, err)
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return fmt.Sprintf("this process does not lead, and nobody holds Lease %s: ask again in a moment", where)
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return fmt.Sprintf("this process does not lead: ask %s, which holds Lease %s", pod, where)
}

// openLedger makes the ledger and what shows it. What is wrong with its folder is logged, and it works on without.
func (w *wiring) openLedger() (closed func()) {
	host, err := os.Hostname()
	if err != nil {
		host = "karpenter"
	}
	w.ledger, w.source = ledger.New(ledger.DefaultSize, host, w.clock.Now), &source{w: w}
	w.ledger.KeepRecordings(ledger.DefaultRecordings, w.build.Version)
	w.ledger.SetPrices(w.price)
	if w.options.LedgerDir == "" {
		return func() {}
	}
	trouble := func(err error) { w.log.Error("trouble with the files that decisions are kept in", "error", err) }
	file, err := w.ledger.OpenFile(ledger.FileOptions{Dir: w.options.LedgerDir, Now: w.clock.Now, Fail: trouble})
	if err != nil {
		trouble(fmt.Errorf("LEDGER_DIR=%q: %w", w.options.LedgerDir, err))
	}
	return file.Close
}

// dashboards opens the JSON API and, if asked to, the dashboard. It returns what ends the latter.
func (w *wiring) dashboards(ctx context.Context, kube kubernetes.Interface) (stop func(), err error) {
	led := &leader{kube: kube, options: w.options, elected: w.m.Elected(), now: w.clock.Now}
	if w.options.DecisionAPI {
		w.api.open(web.Handler(w.source, web.Options{}), led.other)
	}
	if w.options.DashboardAddress == "" {
		return func() {}, nil
	}
	opt := web.Options{Dashboard: true}
	if !loopback(w.options.DashboardAddress) {
		opt.Authorize = newBouncer(kube, w.clock.Now).authorize
	}
	page := web.Handler(w.source, opt)
	go page.Run(ctx)
	door := &frontDoor{}
	door.open(page, led.other)
	stop, err = serve(w.options.DashboardAddress, "DASHBOARD_ADDRESS", door, w.log)
	if err == nil {
		w.log.Info("serving the dashboard", "address", w.options.DashboardAddress, "tokens", opt.Authorize != nil)
	}
	return stop, err
}

// loopback says whether only this machine can reach an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
