package operator

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
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
		if r.Spec.Token == "broken" {
			return true, nil, errors.New("the API server is away")
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
	b := newBouncer(kube, func() time.Time { return now })
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
		forbidden          bool
	}{
		{"/api/v1/fleet", "", "a token is needed", false},
		{"/api/v1/fleet", "Basic good", "a token is needed", false},
		{"/api/v1/fleet", "Bearer ", "a token is needed", false},
		{"/api/v1/fleet", "Bearer bad", "does not know this token", false},
		{"/api/v1/fleet", "Bearer broken", "the API server is away", false},
		{"/api/v1/explain/pod/x", "Bearer good", "ann may not get /karpenter/api/v1/explain; a ClusterRole with nonResourceURLs [/karpenter/*]", true},
	} {
		err := ask(c.path, c.header)
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, web.ErrForbidden) != c.forbidden {
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
	now = now.Add(rememberFor)
	if err := ask("/api/v1/fleet", "Bearer good"); err != nil || *asked != 2 {
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

func TestTheFrontDoorSaysWhoLeads(t *testing.T) {
	holder := "karpenter-7d9f_b3c1"
	kube := fake.NewClientset(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "lease"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
	})
	elected := make(chan struct{})
	led := &leader{kube: kube, options: &Options{SystemNamespace: "kube-system", LeaderElectionName: "lease"}, elected: elected, now: time.Now}
	door := &frontDoor{}
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		door.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, http.NoBody))
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	expect := func(path string, code int, text string) {
		t.Helper()
		if c, body := ask(path); c != code || body != text {
			t.Errorf("%s: %d %s", path, c, body)
		}
	}
	expect("/api/v1/fleet", 503, `{"error":"this process is still starting"}`)
	door.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("in")) }), led.other)
	expect("/api/v1/fleet", 503, `{"error":"this process does not lead: ask karpenter-7d9f, which holds Lease kube-system/lease"}`)
	expect("/", 200, "in")
	close(elected)
	expect("/api/v1/fleet", 200, "in")
}
