package charts

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/test/harness/program"
)

// shown is what a chart opens and allows for the dashboard.
type shown struct {
	Port, ServicePort int32
	Reviews           []string
	Viewers           bool
	From, To          int
}

// shownBy looks for it in a rendered chart with a NetworkPolicy.
func shownBy(t *testing.T, objects manifests) shown {
	t.Helper()
	var s shown
	for _, p := range pick(t, objects, "Deployment", "karpenter", &appsv1.Deployment{}).Spec.Template.Spec.Containers[0].Ports {
		if p.Name == "http-dashboard" {
			s.Port = p.ContainerPort
		}
	}
	for _, p := range pick(t, objects, "Service", "karpenter", &corev1.Service{}).Spec.Ports {
		if p.Name == "http-dashboard" && p.TargetPort.StrVal == "http-dashboard" {
			s.ServicePort = p.Port
		}
	}
	for _, r := range pick(t, objects, "ClusterRole", "karpenter-core", &rbacv1.ClusterRole{}).Rules {
		if strings.HasPrefix(r.APIGroups[0], "auth") {
			s.Reviews = append(s.Reviews, strings.Join(append(r.Verbs, r.APIGroups[0]+"/"+r.Resources[0]), " "))
		}
	}
	if s.Viewers = slices.Contains(objects.names(), "ClusterRole karpenter-dashboard"); s.Viewers {
		want := []rbacv1.PolicyRule{{NonResourceURLs: []string{"/karpenter/*"}, Verbs: []string{"get"}}}
		if d := cmp.Diff(want, pick(t, objects, "ClusterRole", "karpenter-dashboard", &rbacv1.ClusterRole{}).Rules); d != "" {
			t.Error(d)
		}
	}
	policy := pick(t, objects, "NetworkPolicy", "karpenter", &networkingv1.NetworkPolicy{}).Spec
	for _, rule := range policy.Ingress {
		if rule.Ports[0].Port.StrVal == "http-dashboard" {
			s.From += 1 + len(rule.From)
		}
	}
	for _, rule := range policy.Egress {
		if len(rule.To) == 1 && rule.To[0].PodSelector != nil && cmp.Diff(policy.PodSelector, *rule.To[0].PodSelector) == "" {
			s.To += int(rule.Ports[0].Port.IntVal)
		}
	}
	return s
}

// The dashboard is off by default; on a loopback address only the pod itself reaches it, and nothing is opened or allowed.
func TestTheDashboardIsOpenedByItsAddressAlone(t *testing.T) {
	h := newHelm(t, "")
	reviews := []string{"create authentication.k8s.io/tokenreviews", "create authorization.k8s.io/subjectaccessreviews"}
	for _, c := range []struct {
		address, more string
		want          shown
	}{
		{address: "", want: shown{}},
		{address: "127.0.0.1:8082", want: shown{}},
		{address: "localhost:8082", want: shown{}},
		{address: "[::1]:8082", want: shown{}},
		{address: ":8082", want: shown{Port: 8082, ServicePort: 8082, Reviews: reviews, Viewers: true, From: 1, To: 8082}},
		{address: "0.0.0.0:9000", want: shown{Port: 9000, ServicePort: 9000, Reviews: reviews, Viewers: true, From: 1, To: 9000}},
		{address: "[::]:9000", want: shown{Port: 9000, ServicePort: 9000, Reviews: reviews, Viewers: true, From: 1, To: 9000}},
		{
			address: ":8082", more: ",networkPolicy.dashboardFrom[0].namespaceSelector.matchLabels.team=ops",
			want: shown{Port: 8082, ServicePort: 8082, Reviews: reviews, Viewers: true, From: 3, To: 8082},
		},
	} {
		set := fmt.Sprintf("settings.clusterName=c,networkPolicy.enabled=true,settings.dashboardAddress=%s%s", c.address, c.more)
		objects := h.render(t, "karpenter", "--namespace", "kube-system", "--set", set)
		if d := cmp.Diff(c.want, shownBy(t, objects)); d != "" {
			t.Errorf("%q%s: %s", c.address, c.more, d)
		}
		if o := options(t, pick(t, objects, "Deployment", "karpenter", &appsv1.Deployment{}), nil); o.DashboardAddress != c.address {
			t.Errorf("the controller gets %q, want %q", o.DashboardAddress, c.address)
		}
	}
	for _, bad := range []string{"8082", ":0", "example.com:80", "localhost", "127.1:80"} {
		if _, err := h.run(t, "template", "karpenter", "karpenter", "--set", "settings.clusterName=c,settings.dashboardAddress="+bad); err == nil || !strings.Contains(err.Error(), "dashboardAddress") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Rights on the ConfigMap of the dashboard's history come with what shows it.
func TestTheHistoryIsKeptWhereItIsShown(t *testing.T) {
	h := newHelm(t, "")
	for set, want := range map[string]bool{
		"": true, ",settings.decisionAPI=false": false, ",settings.decisionAPI=false,settings.dashboardAddress=127.0.0.1:8082": true,
	} {
		objects := h.render(t, "karpenter", "--namespace", "kube-system", "--kube-version", "1.37.0", "--set", "settings.clusterName=c"+set)
		granted := slices.ContainsFunc(pick(t, objects, "Role", "karpenter", &rbacv1.Role{}).Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "configmaps") })
		if policy := slices.Contains(objects.names(), "ValidatingAdmissionPolicy karpenter-history"); granted != want || policy != want {
			t.Errorf("%q: rights %t, policy %t, want %t", set, granted, policy, want)
		}
	}
}

// openDashboard upgrades the installation by a dashboard for everybody with a token, and runs the controller under its account: the
// rights that come with it do, and are gone when it goes back to the pod's own address.
func openDashboard(t *testing.T, s *site, install []string) {
	reviews := []string{"authentication.k8s.io/tokenreviews", "authorization.k8s.io/subjectaccessreviews"}
	mayReview := func(want bool) {
		t.Helper()
		program.Until(t, fmt.Sprintf("the account may review: %t", want), func() bool {
			return !slices.ContainsFunc(reviews, func(r string) bool { return allowed(t, s, "create", []string{r, "", ""}) != want })
		})
	}
	mayReview(false)
	port := program.FreePort(t)
	s.h.must(t, append(install, "--set", "settings.dashboardAddress=:"+port)...)
	mayReview(true)
	deployment := &appsv1.Deployment{}
	if err := s.get(deployment, "kube-system", "karpenter"); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{}
	if err := s.get(service, "kube-system", "karpenter"); err != nil || !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return fmt.Sprint(p.Port) == port }) {
		t.Errorf("the Service has no port %s: %v, %v", port, service.Spec.Ports, err)
	}
	world := s.world(t)
	s.controller(t, deployment, world)
	stranger, viewer := s.visitor(t, "stranger"), s.visitor(t, "viewer", "karpenter-dashboard")
	url := "http://" + net.JoinHostPort("127.0.0.1", port) + "/api/v1/fleet"
	program.Until(t, "the viewer sees the fleet", func() bool { return statusOf(t.Context(), url, viewer) == http.StatusOK })
	for token, want := range map[string]int{"": http.StatusUnauthorized, "garbage": http.StatusUnauthorized, stranger: http.StatusForbidden} {
		if got := statusOf(t.Context(), url, token); got != want {
			t.Errorf("with token %.8q: %d, want %d", token, got, want)
		}
	}
	s.h.must(t, append(install, "--set", "settings.dashboardAddress=127.0.0.1:"+port)...)
	mayReview(false)
	s.gone(&rbacv1.ClusterRole{}, "", "karpenter-dashboard")
}

// visitor is the token of a new account that roles are bound to.
func (s *site) visitor(t *testing.T, name string, roles ...string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	objects := []client.Object{account}
	for _, role := range roles {
		objects = append(objects, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
		})
	}
	for _, o := range objects {
		if err := s.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	token := &authenticationv1.TokenRequest{}
	if err := s.Client.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// statusOf is what is answered to a request with a token; 0 if nobody answers.
func statusOf(ctx context.Context, url, token string) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	_ = w.Body.Close()
	return w.StatusCode
}
