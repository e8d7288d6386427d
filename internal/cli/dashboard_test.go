package cli

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// The dashboard is served from the program itself, data come from the controller, and only this computer's own pages get them.
func TestDashboardIsServedLocally(t *testing.T) {
	asked := make(chan string, 10)
	controller := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.RequestURI() + " " + r.Header.Get("Authorization")
		_, _ = io.WriteString(w, `{"decisions":[]}`)
	}))
	t.Cleanup(controller.Close)
	ctx, stop := context.WithCancel(t.Context())
	cmd := NewDashboard()
	out := make(followed, 10)
	cmd.SetOut(out)
	cmd.SetArgs([]string{"--open=false", "--controller", controller.URL})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	var at string
	select {
	case line := <-out:
		at = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(line)
	case err := <-ended:
		t.Fatalf("it ended with %v", err)
	}
	if got := <-asked; !strings.HasPrefix(got, "/api/v1/decisions?limit=1") {
		t.Errorf("the controller is asked %q first", got)
	}
	get := func(path, host, method string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, at+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			r.Host = host
		}
		r.Header.Set("Authorization", "Bearer of-the-page")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if status, body := get("/", "", http.MethodGet); status != 200 || !strings.Contains(body, "<html") {
		t.Errorf("the page: %d, %.80s", status, body)
	}
	if status, body := get("/api/v1/fleet?x=1", "", http.MethodGet); status != 200 || body != `{"decisions":[]}` {
		t.Errorf("data: %d, %s", status, body)
	}
	if got := <-asked; got != "/api/v1/fleet?x=1 " {
		t.Errorf("the controller is asked %q, want the same path without the page's token", got)
	}
	if status, _ := get("/api/v1/fleet", "evil.example.com", http.MethodGet); status != http.StatusForbidden {
		t.Errorf("a foreign host gets %d", status)
	}
	if status, _ := get("/api/v1/fleet", "", http.MethodPost); status != http.StatusMethodNotAllowed {
		t.Errorf("a POST gets %d", status)
	}
	controller.CloseClientConnections()
	controller.Close()
	if status, body := get("/api/v1/fleet", "", http.MethodGet); status != http.StatusBadGateway || !strings.Contains(body, "does not answer") {
		t.Errorf("without a controller: %d, %s", status, body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
