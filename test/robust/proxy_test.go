package robust

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// trouble is what a proxy does to requests that pass it. Shares are from 0 to 1.
type trouble struct {
	// delay is for how long a request is held up at most.
	delay time.Duration
	// unsent requests get no answer and have no effect; unanswered ones have their effect, and no answer.
	unsent, unanswered float64
	// tooMany and broken are answered with 429 and 503.
	tooMany, broken float64
}

// proxy stands between the controller and a server, and makes trouble.
type proxy struct {
	url string
	// tooMany is the body of the 429, as the server would write it; broken that of the 503.
	tooMany, broken string
	// before and after, if set, see requests to a server that does not stream: after sees them before the controller sees the answer.
	before func(body []byte, conn net.Conn) any
	after  func(seen any)

	server   *http.Server
	upstream *httputil.ReverseProxy

	mu      sync.Mutex
	random  *rand.Rand
	now     trouble
	counted map[string]int
}

// newProxy listens on a port of this computer. certificate, if any, is what it shows.
func newProxy(to string, transport http.RoundTripper, certificate *tls.Config) (*proxy, error) {
	target, err := url.Parse(to)
	if err != nil {
		return nil, fmt.Errorf("a proxy before %s: %w", to, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a proxy before %s: %w", to, err)
	}
	p := &proxy{url: target.Scheme + "://" + listener.Addr().String(), random: rand.New(rand.NewPCG(1, 2)), counted: map[string]int{}}
	p.upstream = &httputil.ReverseProxy{
		// The host stays the one that was asked for, where signatures and queue URLs depend on it.
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      quiet,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = &http.Server{Handler: p, TLSConfig: certificate, ReadHeaderTimeout: time.Minute, ConnContext: withConn, ErrorLog: quiet}
	go func() {
		if certificate == nil {
			_ = p.server.Serve(listener) // ends with ErrServerClosed
		} else {
			_ = p.server.ServeTLS(listener, "", "")
		}
	}()
	return p, nil
}

// make has the proxy make trouble from now on; the zero value ends it.
func (p *proxy) make(t trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = t
}

// counts is how often each kind of trouble was made.
func (p *proxy) counts() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprint(p.counted)
}

// draw says what is to happen to a request.
func (p *proxy) draw() (what string, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.delay > 0 {
		delay = time.Duration(p.random.Int64N(int64(p.now.delay)))
	}
	at := p.random.Float64()
	for _, kind := range []struct {
		name  string
		share float64
	}{{"unsent", p.now.unsent}, {"unanswered", p.now.unanswered}, {"429", p.now.tooMany}, {"503", p.now.broken}} {
		if at -= kind.share; at < 0 {
			p.counted[kind.name]++
			return kind.name, delay
		}
	}
	p.counted["passed"]++
	return "", delay
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what, delay := p.draw()
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return
	}
	refuse := func(status int, body string) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", map[bool]string{true: "application/json", false: "text/xml"}[body[0] == '{'])
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
	switch what {
	case "unsent":
		panic(http.ErrAbortHandler)
	case "429":
		refuse(http.StatusTooManyRequests, p.tooMany)
		return
	case "503":
		refuse(http.StatusServiceUnavailable, p.broken)
		return
	case "unanswered":
		if r.URL.Query().Get("watch") != "" { // it is cut off in the middle
			ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
			defer cancel()
			r = r.WithContext(ctx)
			break
		}
		w = lost{http.Header{}}
		defer func() { panic(http.ErrAbortHandler) }()
	}
	if p.after == nil {
		p.upstream.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	seen := p.before(body, connOf(r))
	answer := &held{header: http.Header{}, status: http.StatusOK}
	func() {
		defer func() { answer.dropped = recover() != nil }()
		p.upstream.ServeHTTP(answer, r)
	}()
	p.after(seen)
	if answer.dropped {
		panic(http.ErrAbortHandler)
	}
	for key, values := range answer.header {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body.Bytes())
}

func (p *proxy) close() { _ = p.server.Close() }

// lost is an answer that nobody gets.
type lost struct{ header http.Header }

func (l lost) Header() http.Header         { return l.header }
func (l lost) Write(b []byte) (int, error) { return len(b), nil }
func (l lost) WriteHeader(int)             {}

// held is an answer that is not sent yet.
type held struct {
	header  http.Header
	status  int
	body    bytes.Buffer
	dropped bool
}

func (h *held) Header() http.Header         { return h.header }
func (h *held) Write(b []byte) (int, error) { return h.body.Write(b) }
func (h *held) WriteHeader(status int)      { h.status = status }
