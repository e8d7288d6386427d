package operator

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"karpenter/internal/web"
)

// reviewer is an API server that knows the token "good" of somebody who may get /karpenter/api/v1/fleet.
func reviewer() (*fake.Clientset, *int) {
	kube, asked := fake.NewClientset(), new(int)
	kube.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		*asked++
		r := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		switch r.Spec.Token {
		case "broken":
			return true, nil, errors.New("dial tcp 10.100.0.1:443: connection refused")
		case "denied":
			return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", errors.New("no such right"))
		}
		r.Status.Authenticated = r.Spec.Token == "good"
		r.Status.User = authenticationv1.UserInfo{Username: "ann", Groups: []string{"ops"}}
		return true, r, nil
	})
	kube.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		n := r.Spec.NonResourceAttributes
		r.Status.Allowed = r.Spec.User == "ann" && r.Spec.Groups[0] == "ops" && n.Verb == "get" && n.Path == "/karpenter/api/v1/fleet"
		return true, r, nil
	})
	return kube, asked
}

func TestTokensAreReviewed(t *testing.T) {
	kube, asked := reviewer()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := newAuthMiddleware(kube, func() time.Time { return now })
	ask := func(path, header string) error {
		r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		return b.authorize(r)
	}
	if err := ask("/api/v1/fleet", "Bearer good"); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		path, header, want string
		is                 error
	}{
		{"/api/v1/fleet", "", "a token is needed", nil},
		{"/api/v1/fleet", "Basic good", "a token is needed", nil},
		{"/api/v1/fleet", "Bearer ", "a token is needed", nil},
		{"/api/v1/fleet", "Bearer bad", "does not accept this token", nil},
		{"/api/v1/fleet", "Bearer broken", "the API server does not answer", web.ErrUnasked},
		{"/api/v1/fleet", "Bearer denied", "the controller's account may not create tokenreviews.authentication.k8s.io; the chart allows it", web.ErrUnasked},
		{"/api/v1/explain/pod/x", "Bearer good", "ann may not get /karpenter/api/v1/explain; a ClusterRole with nonResourceURLs [/karpenter/*]", web.ErrForbidden},
	} {
		err := ask(c.path, c.header)
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, web.ErrForbidden) != (c.is == web.ErrForbidden) || errors.Is(err, web.ErrUnasked) != (c.is == web.ErrUnasked) {
			t.Errorf("%s with %q: %v, want %q", c.path, c.header, err, c.want)
		}
	}
	*asked = 0
	for range 5 {
		_ = ask("/api/v1/fleet", "Bearer good")
		_ = ask("/api/v1/explain/pod/y", "Bearer good")
		_ = ask("/api/v1/fleet", "Bearer bad")
	}
	if *asked != 0 {
		t.Errorf("the API server was asked %d times about what it has just said", *asked)
	}
	_ = ask("/api/v1/fleet", "Bearer broken")
	if *asked != 1 {
		t.Error("that it could not be asked is remembered")
	}
	now = now.Add(refuseFor)
	if err := ask("/api/v1/fleet", "Bearer bad"); err == nil || *asked != 2 {
		t.Errorf("after five seconds: %v, asked %d times", err, *asked)
	}
	if err := ask("/api/v1/fleet", "Bearer good"); err != nil || *asked != 2 {
		t.Errorf("after five seconds: %v, asked %d times", err, *asked)
	}
	now = now.Add(rememberFor)
	if err := ask("/api/v1/fleet", "Bearer good"); err != nil || *asked != 3 {
		t.Errorf("after a minute: %v, asked %d times", err, *asked)
	}
	for i := range 3 * maxRemembered {
		_ = ask("/api/v1/fleet", "Bearer "+strings.Repeat("x", 1+i%2000))
	}
	if len(b.known) > maxRemembered {
		t.Errorf("%d verdicts are remembered", len(b.known))
	}
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:80": true, "[::1]:80": true, "localhost:80": true, ":80": false, "0.0.0.0:80": false, "10.0.0.1:80": false, "example.com:80": false, "x": false} {
		if got := loopback(address); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}

func TestTheLeaderProxySaysWhoLeads(t *testing.T) {
	holder := "karpenter-7d9f_b3c1"
	kube := fake.NewClientset(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "lease"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
	})
	elected := make(chan struct{})
	led := &leader{kube: kube, options: &Options{SystemNamespace: "kube-system", LeaderElectionName: "lease"}, elected: elected, now: time.Now}
	proxy := &leaderProxy{}
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		proxy.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, http.NoBody))
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	expect := func(path string, code int, text string) {
		t.Helper()
		if c, body := ask(path); c != code || body != text {
			t.Errorf("%s: %d %s", path, c, body)
		}
	}
	expect("/api/v1/fleet", 503, `{"error":"this process is still starting"}`)
	proxy.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("in")) }), led.other)
	expect("/api/v1/fleet", 503, `{"error":"this process does not lead: ask karpenter-7d9f, which holds Lease kube-system/lease"}`)
	expect("/", 200, "in")
	close(elected)
	expect("/api/v1/fleet", 200, "in")
}

// A process that does not lead hands requests on to the pod that does, once, with their token and as they come in.
func TestTheLeaderProxyHandsRequestsOn(t *testing.T) {
	holder := "karpenter-1_b3c1"
	kube := fake.NewClientset(
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "lease"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter-1"}, Status: corev1.PodStatus{PodIP: "127.0.0.1"}},
	)
	leads := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Join([]string{r.URL.String(), r.Header.Get("Authorization"), r.Header.Get(relayedHeader), r.Host}, " "))
	}))
	defer leads.Close()
	_, port, _ := net.SplitHostPort(leads.Listener.Addr().String())
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	led := &leader{kube: kube, options: &Options{SystemNamespace: "kube-system", LeaderElectionName: "lease"}, elected: make(chan struct{}), now: func() time.Time { return now }}
	proxy := &leaderProxy{relay: relayTo(port, slog.New(slog.DiscardHandler))}
	proxy.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("in")) }), led.other)
	expect := func(path, relayed string, code int, text string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		r.Header.Set("Authorization", "Bearer x")
		if relayed != "" {
			r.Header.Set(relayedHeader, relayed)
		}
		w := httptest.NewRecorder()
		proxy.ServeHTTP(w, r)
		if got := strings.TrimSpace(w.Body.String()); w.Code != code || got != text {
			t.Errorf("%s: %d %s, want %d %s", path, w.Code, got, code, text)
		}
	}
	const itself = `{"error":"this process does not lead: ask karpenter-1, which holds Lease kube-system/lease"}`
	expect("/api/v1/stream?run=a&version=1", "", 200, "/api/v1/stream?run=a&version=1 Bearer x 1 example.com")
	expect("/app.js", "", 200, "in")
	expect("/api/v1/fleet", "1", 503, itself)
	leads.Close()
	expect("/api/v1/fleet", "", 503, `{"error":"pod karpenter-1 leads, and does not answer: try again in a moment"}`)
	if err := kube.CoreV1().Pods("kube-system").Delete(t.Context(), "karpenter-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(leaderFor + time.Second)
	expect("/api/v1/fleet", "", 503, itself)
}
