package web_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"karpenter/internal/web"
)

func TestEveryAnswerIsGuarded(t *testing.T) {
	h := web.Handler(smallCluster(t, stopped), web.Options{Dashboard: true})
	for _, path := range []string{"/", "/app.js", "/base.css", "/icon.svg", "/api/v1/fleet", "/api/v1/none", "/none"} {
		got := get(t, h, path).Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		} {
			if got.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got.Get(name), want)
			}
		}
	}
}

func TestReadOnly(t *testing.T) {
	h := web.Handler(smallCluster(t, stopped), web.Options{Dashboard: true})
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"} {
		for _, path := range []string{"/", "/api/v1/fleet", "/api/v1/stream"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, allow %q", method, path, w.Code, w.Header().Get("Allow"))
			}
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/api/v1/stream", nil))
	if w.Code != http.StatusOK {
		t.Errorf("HEAD of the stream: %d", w.Code)
	}
}

func TestOnlyLocalhostIsServedOnLoopback(t *testing.T) {
	s := listen(t, web.Handler(smallCluster(t, stopped), web.Options{Dashboard: true}))
	port := s.Listener.Addr().(*net.TCPAddr).Port
	for host, code := range map[string]int{
		fmt.Sprintf("127.0.0.1:%d", port): 200, fmt.Sprintf("localhost:%d", port): 200, "localhost": 200, fmt.Sprintf("[::1]:%d", port): 200, "[::1]": 200, "127.0.0.2": 200,
		"evil.example": 421, fmt.Sprintf("evil.example:%d", port): 421, "localhost.evil.example": 421, "10.0.0.1": 421, "127.0.0.1.evil.example:80": 421,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v1/history", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Body.Close()
		if w.StatusCode != code {
			t.Errorf("host %s: %d, want %d", host, w.StatusCode, code)
		}
	}
}

func TestAuthorize(t *testing.T) {
	h := web.Handler(smallCluster(t, stopped), web.Options{Dashboard: true, Authorize: tokens})
	for token, code := range map[string]int{"": 401, "wrong": 401, "nobody": 403, "whoever": 503, "good": 200} {
		for _, path := range []string{"fleet", "history", "pools", "prices", "decisions", "decisions/1", "decisions/1/recording", "recording", "explain/nodepool/general", "stream", "none"} {
			r := httptest.NewRequest(http.MethodHead, "/api/v1/"+path, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if want := code; w.Code != want && (code != 200 || w.Code != 404) {
				t.Errorf("%s with token %q: %d, want %d", path, token, w.Code, want)
			}
			if code == 401 && w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: no challenge", path)
			}
		}
	}
	for _, path := range []string{"/", "/app.js"} {
		if w := get(t, h, path); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "shop-production") {
			t.Errorf("%s: %d; the page without data is for everybody, so that it can ask for a token", path, w.Code)
		}
	}
}

func tokens(r *http.Request) error {
	switch r.Header.Get("Authorization") {
	case "Bearer good":
		return nil
	case "Bearer nobody":
		return fmt.Errorf("account nobody: %w", web.ErrForbidden)
	case "Bearer whoever":
		return fmt.Errorf("%w: the API server does not answer", web.ErrUnasked)
	}
	return errors.New("a token is needed")
}

func TestAssets(t *testing.T) {
	h := web.Handler(smallCluster(t, stopped), web.Options{Dashboard: true})
	page := get(t, h, "/").Body.String()
	for _, part := range strings.FieldsFunc(page, func(r rune) bool { return r == '"' }) {
		if !strings.HasSuffix(part, ".js") && !strings.HasSuffix(part, ".css") && !strings.HasSuffix(part, ".svg") {
			continue
		}
		w := get(t, h, "/"+part)
		if w.Code != http.StatusOK || w.Header().Get("ETag") == "" {
			t.Errorf("%s: %d, ETag %q", part, w.Code, w.Header().Get("ETag"))
		}
		r := httptest.NewRequest(http.MethodGet, "/"+part, nil)
		r.Header.Set("If-None-Match", w.Header().Get("ETag"))
		again := httptest.NewRecorder()
		h.ServeHTTP(again, r)
		if again.Code != http.StatusNotModified {
			t.Errorf("%s a second time: %d", part, again.Code)
		}
		for _, bad := range []string{"http://", "https://", "innerHTML", "eval(", "document.write"} {
			if body := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", ""); strings.Contains(body, bad) {
				t.Errorf("%s has %q in it", part, bad)
			}
		}
	}
	for _, bad := range []string{"<script>", "style=", " onclick", "=\"/"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q in it", bad)
		}
	}
	if w := get(t, web.Handler(smallCluster(t, stopped), web.Options{}), "/"); w.Code != http.StatusNotFound {
		t.Errorf("without the dashboard / answers %d", w.Code)
	}
}
