package operator

import (
	"context"
	"fmt"
	"net"

	"k8s.io/client-go/kubernetes"

	"karpenter/internal/ledger"
	"karpenter/internal/web"
)

// openLedger makes the ledger and what shows it. What is wrong with its folder is logged, and it works on without.
func (w *wiring) openLedger() (closed func()) {
	w.ledger, w.source = ledger.New(ledger.DefaultSize, hostName(), w.clock.Now), &source{w: w}
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
	history := &web.History{}
	if w.options.DecisionAPI || w.options.DashboardAddress != "" {
		if err := w.keepHistory(history); err != nil {
			return nil, err
		}
	}
	led := &leader{kube: kube, options: w.options, elected: w.m.Elected(), now: w.clock.Now}
	if w.options.DecisionAPI {
		w.api.open(web.Handler(w.source, web.Options{History: history}), led.other)
	}
	if w.options.DashboardAddress == "" {
		return func() {}, nil
	}
	opt, proxy := web.Options{Dashboard: true, History: history}, &leaderProxy{}
	if !loopback(w.options.DashboardAddress) {
		reviews, err := reviewClient(w.config)
		if err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(w.options.DashboardAddress)
		opt.Authorize, proxy.relay = newAuthMiddleware(reviews, w.clock.Now).authorize, relayTo(port, w.log)
	}
	page := web.Handler(w.source, opt)
	go page.Run(ctx)
	proxy.open(page, led.other)
	stop, err = serve(w.options.DashboardAddress, "DASHBOARD_ADDRESS", proxy, w.log)
	if err == nil {
		w.log.Info("serving the dashboard", "address", w.options.DashboardAddress, "tokens", opt.Authorize != nil)
	}
	return stop, err
}

// loopback says whether only this computer can reach an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
