package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"karpenter/internal/web"
)

// dashboard is a run of the dashboard command.
type dashboard struct {
	source Source
	port   int
	open   bool

	mu    sync.Mutex
	found *endpoint // nil until a controller answers, and again when it stops
}

// NewDashboard returns the command that shows the dashboard in a browser.
func NewDashboard() *cobra.Command {
	d := &dashboard{}
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Show the cluster in a browser: nodes, pods, prices, decisions",
		Long: `Serve the dashboard on this computer, with what the cluster's controller answers, and open it in a browser. The controller is reached
through the API server, with your rights; it needs no setting for it. Nothing is changed. Interrupt it to end.`,
		Example: `  karpenter dashboard
  karpenter dashboard --port 8082 --open=false`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	f := cmd.Flags()
	d.source.addClusterFlags(f)
	f.IntVar(&d.port, "port", 0, "port on this computer; any free one without it")
	f.BoolVar(&d.open, "open", term.IsTerminal(int(os.Stdout.Fd())), "open a browser")
	f.Lookup("open").DefValue = "true" // on a terminal
	d.source.completeAccess(cmd)
	return cmd
}

func (d *dashboard) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	e, err := d.controller(ctx)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", d.port))
	if err != nil {
		return fmt.Errorf("--port is %d: %w; give another, or none for any free one", d.port, err)
	}
	server := &http.Server{Handler: d.handler(), ReadHeaderTimeout: 10 * time.Second}
	at := "http://" + listener.Addr().String()
	fmt.Fprintf(cmd.OutOrStdout(), "dashboard at %s, from %s; interrupt to end\n", at, e.name)
	if d.open {
		if err := openBrowser(ctx, at); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "no browser could be opened (%v); open %s yourself\n", err, at)
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the dashboard: %w", err)
	}
	return nil
}

// controller is the one that answers.
func (d *dashboard) controller(ctx context.Context) (*endpoint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.found != nil {
		return d.found, nil
	}
	err := d.source.askController(ctx, func(e *endpoint) error {
		_, err := e.get(ctx, "decisions?limit=1")
		if err == nil {
			d.found = e
		}
		return err
	})
	return d.found, err
}

// lost has the controller looked for again with the next request: another one may lead now.
func (d *dashboard) lost() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = nil
}

// handler serves the page, and passes requests for data on. Requests that a foreign page has made this computer's browser send are
// refused: they name another host.
func (d *dashboard) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", web.Page())
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		e, err := d.controller(r.Context())
		if err != nil {
			http.Error(w, oneLine(err), http.StatusBadGateway)
			return
		}
		d.proxy(e).ServeHTTP(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil || host != "127.0.0.1" && host != "localhost" {
			http.Error(w, fmt.Sprintf("this dashboard is for this computer only, and not for %q", r.Host), http.StatusForbidden)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "the dashboard changes nothing", http.StatusMethodNotAllowed)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// proxy passes requests on to a controller.
func (d *dashboard) proxy(e *endpoint) http.Handler {
	base, err := url.Parse(strings.TrimSuffix(e.base, "/"))
	if err != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, err.Error(), http.StatusBadGateway) })
	}
	p := &httputil.ReverseProxy{
		FlushInterval: -1, // changes are streamed
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			r.Out.Header.Del("Authorization") // who asks is the kubeconfig's user
			r.Out.Header.Del("Cookie")
		},
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode == http.StatusServiceUnavailable {
				d.lost()
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			d.lost()
			http.Error(w, e.name+" does not answer: "+oneLine(err), http.StatusBadGateway)
		},
	}
	if e.client != nil {
		p.Transport = e.client.Transport
	}
	return p
}

// openBrowser has the desktop open an address.
func openBrowser(ctx context.Context, at string) error {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	return exec.CommandContext(ctx, program, at).Start()
}
