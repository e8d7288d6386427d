package web

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/explain"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// Source is where everything that is shown comes from. All methods are safe for concurrent use and answer from memory.
type Source interface {
	// View is the newest view; the same value while nothing has changed.
	View() *state.View
	Ledger() *ledger.Ledger
	// Recording finds what a decision was made from, by the name in its entry; "" makes a recording of this moment.
	Recording(input string) (*ledger.Recording, error)
	// Explain answers questions about the newest view.
	Explain() *explain.Cluster
	// Plan is the latest plan for pods that wait, and when it was made; nil if there is none.
	Plan() (*pack.Plan, time.Time)
	// Decision is the latest decision about taking nodes away, what it was made from, and when; nil if there is none.
	Decision() (*disrupt.Decision, *disrupt.Input, time.Time)
	Now() time.Time
	About() About
}

// About says what is being looked at.
type About struct {
	Version string    `json:"version,omitempty"`
	Cluster string    `json:"cluster,omitempty"`
	Region  string    `json:"region,omitempty"`
	Started time.Time `json:"started"`
	// Prices are the price lists in use, with their dates.
	Prices []PriceList `json:"prices,omitempty"`
	// StockOuts are offerings that the cloud has refused of late.
	StockOuts []StockOut `json:"stockOuts,omitempty"`
}

// PriceList is a list of prices and when it was had.
type PriceList struct {
	Name string    `json:"name"`
	At   time.Time `json:"at,omitzero"`
}

// StockOut is an offering that is not tried again before Until.
type StockOut struct {
	Type         string    `json:"instanceType"`
	Zone         string    `json:"zone"`
	CapacityType string    `json:"capacityType"`
	Until        time.Time `json:"until,omitzero"`
}

// Options are the choices that whoever serves a handler has.
type Options struct {
	// Dashboard adds the page to the API.
	Dashboard bool
	// Authorize says whether a request may see data; nil allows everything. An error that is ErrForbidden is answered with 403,
	// one that is ErrUnasked with 503, any other with 401, upon which the page asks for a token.
	Authorize func(*http.Request) error
	// History is what charts show; nil for one of the handler's own, which begins with it.
	History *History
}

// What Authorize returns, wrapped or not: ErrForbidden about somebody who is known and may not look, ErrUnasked when it could not
// be found out who asks, which says nothing against the token.
var (
	ErrForbidden = errors.New("not allowed to read this")
	ErrUnasked   = errors.New("it could not be found out who asks")
)

// maxHeavy is how many explanations and recordings are made at once: each can cost as much as a decision, and decisions come
// first.
const maxHeavy = 2

// Server is the handler that Handler makes.
type Server struct {
	src     Source
	opt     Options
	mux     *http.ServeMux
	hub     *hub
	streams atomic.Int32
	// heavy bounds the questions that are answered at once.
	heavy chan struct{}
}

// Handler serves what the source says.
func Handler(src Source, opt Options) *Server {
	s := &Server{src: src, opt: opt, mux: http.NewServeMux(), hub: newHub(src, opt.History), heavy: make(chan struct{}, maxHeavy)}
	for pattern, answer := range map[string]http.HandlerFunc{
		"/api/v1/fleet":                    s.fleet,
		"/api/v1/fleet/nodes":              s.fleetNodes,
		"/api/v1/stream":                   s.stream,
		"/api/v1/history":                  s.history,
		"/api/v1/pools":                    s.pools,
		"/api/v1/prices":                   s.prices,
		"/api/v1/costs":                    s.costs,
		"/api/v1/decisions":                s.decisions,
		"/api/v1/decisions/{id}":           s.decision,
		"/api/v1/decisions/{id}/recording": s.recordingOf,
		"/api/v1/recording":                s.recording,
		"/api/v1/explain/{kind}/{name}":    s.explain,
		"/api/": func(w http.ResponseWriter, r *http.Request) {
			refuse(w, http.StatusNotFound, "there is nothing at "+r.URL.Path)
		},
	} {
		s.mux.HandleFunc(pattern, s.guarded(answer))
	}
	if opt.Dashboard {
		s.mux.Handle("/", assets())
	}
	return s
}

// Run looks at the source until the context ends: figures for charts are taken and savings counted while nobody asks.
func (s *Server) Run(ctx context.Context) {
	tick := time.NewTicker(SampleEvery)
	defer tick.Stop()
	for {
		s.hub.tend()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// policy allows what the page itself brings along, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "everything here is read-only: use GET")
		return
	}
	if !knownHost(r) {
		refuse(w, http.StatusMisdirectedRequest, "this address serves only localhost: open it as http://localhost or http://127.0.0.1, with the port")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// knownHost says whether a request that came in over a loopback address was meant for it. A page of another site that has its
// name point here would otherwise be allowed to read the answers.
func knownHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !local.IP.IsLoopback() {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	if n := len(host); n > 1 && host[0] == '[' && host[n-1] == ']' {
		host = host[1 : n-1]
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// guarded asks whether the request may see data before it is answered.
func (s *Server) guarded(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if s.opt.Authorize != nil {
			if err := s.opt.Authorize(r); err != nil {
				deny(w, err)
				return
			}
		}
		answer(w, r)
	}
}

func deny(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, ErrForbidden):
		refuse(w, http.StatusForbidden, err.Error())
	case errors.Is(err, ErrUnasked):
		refuse(w, http.StatusServiceUnavailable, err.Error())
	default:
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, err.Error())
	}
}

// errorDocument says what is wrong with a request.
type errorDocument struct {
	model.Type
	Error string `json:"error"`
}

func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(&errorDocument{model.TypeOf(model.KindError), text})
}
