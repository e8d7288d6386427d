package operator_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newAccount makes a service account that may get paths.
func newAccount(t *testing.T, name string, paths ...string) *corev1.ServiceAccount {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	objects := []client.Object{account}
	if len(paths) > 0 {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "dashboard-" + name}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: paths, Verbs: []string{"get"}}}}
		objects = append(objects, role, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "dashboard-" + name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: name}},
		})
	}
	for _, o := range objects {
		if err := cluster.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range paths {
		mayGet(t, account, strings.TrimSuffix(path, "*"))
	}
	return account
}

// mayGet waits until the API server has heard of an account's rights.
func mayGet(t *testing.T, account *corev1.ServiceAccount, path string) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + account.Namespace + ":" + account.Name, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		}}
		if err := cluster.Client.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s may not get %s: %s", account.Name, path, review.Status.Reason)
		}
	}
}

// tokenOf asks the API server for a token, as kubectl create token does.
func tokenOf(t *testing.T, account *corev1.ServiceAccount, audiences ...string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	if err := cluster.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// aged is a token as it would be if it had been made so long ago: the API server makes none that lives for less than ten
// minutes, so it is signed again with the API server's own key.
func aged(t *testing.T, token string, ago time.Duration) string {
	t.Helper()
	parts := strings.Split(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&claims); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"iat", "nbf", "exp"} {
		at, err := claims[name].(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		claims[name] = at - int64(ago.Seconds())
	}
	if raw, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(filepath.Dir(cluster.Kubeconfig), "pki", "service-account.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(file)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	text := parts[0] + "." + base64.RawURLEncoding.EncodeToString(raw)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// visit is a look at the dashboard, and what should come of it: a status and, unless all is well, an error that says so.
type visit struct {
	name, path, token string
	code              int
	problem           string
}

func (v visit) pay(t *testing.T, base string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+v.path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if v.token != "" {
		r.Header.Set("Authorization", "Bearer "+v.token)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	var told struct{ Error string }
	if w.StatusCode != http.StatusOK {
		if err := json.Unmarshal(body, &told); err != nil {
			t.Errorf("%d %s", w.StatusCode, body)
		}
	}
	if w.StatusCode != v.code || !strings.Contains(told.Error, v.problem) || v.problem == "" && told.Error != "" {
		t.Errorf("%d %q, want %d %q", w.StatusCode, told.Error, v.code, v.problem)
	}
	challenge := w.Header.Get("WWW-Authenticate")
	if want := map[bool]string{true: "Bearer"}[v.code == http.StatusUnauthorized]; challenge != want {
		t.Errorf("WWW-Authenticate is %q, want %q", challenge, want)
	}
}

// TestTheDashboardAsksTheAPIServer has the real API server say who may look at a dashboard that everybody can reach.
func TestTheDashboardAsksTheAPIServer(t *testing.T) {
	port := freePort(t)
	c := startChild(t, []string{"AWS_ENDPOINT_URL=" + newAWS(t), "DISABLE_LEADER_ELECTION=true", fmt.Sprintf("DASHBOARD_ADDRESS=:%d", port)})
	if said := c.message("serving the dashboard"); said["tokens"] != true {
		t.Errorf("the log says %v", said)
	}
	c.message("leading")
	viewer, narrow := newAccount(t, "viewer", "/karpenter/*"), newAccount(t, "narrow", "/karpenter/api/v1/decisions")
	prefix, short := newAccount(t, "prefix", "/api/v1/*"), newAccount(t, "short-lived", "/karpenter/*")
	good, gone := tokenOf(t, viewer), tokenOf(t, short)
	if err := cluster.Client.Delete(t.Context(), short); err != nil {
		t.Fatal(err)
	}
	const (
		unknown = "the API server does not accept this token: it is not one of this cluster, has expired, was made for another audience, or its account is gone. kubectl create token makes a new one"
		needed  = "a token is needed: send the header Authorization: Bearer TOKEN, for example one of kubectl create token"
	)
	forbidden := func(who, path string) string {
		return fmt.Sprintf("not allowed to read this: system:serviceaccount:default:%s may not get %s; a ClusterRole with nonResourceURLs [/karpenter/*] and verbs [get] allows it", who, path)
	}
	for _, v := range []visit{
		{"the page without data", "/", "", 200, ""},
		{"a good token", "/api/v1/fleet", good, 200, ""},
		{"a good token, another path", "/api/v1/explain/nodepool/none", good, 404, "none"},
		{"no token", "/api/v1/fleet", "", 401, needed},
		{"garbage", "/api/v1/fleet", "garbage", 401, unknown},
		{"garbage that looks like a token", "/api/v1/fleet", good[:len(good)-8] + "AAAAAAAA", 401, unknown},
		{"almost expired", "/api/v1/history", aged(t, good, 50*time.Minute), 200, ""},
		{"expired", "/api/v1/fleet", aged(t, good, 2*time.Hour), 401, unknown},
		{"for another audience", "/api/v1/fleet", tokenOf(t, viewer, "vault"), 401, unknown},
		{"of an account that is gone", "/api/v1/fleet", gone, 401, unknown},
		{"of an account without rights", "/api/v1/fleet", tokenOf(t, newAccount(t, "stranger")), 403, forbidden("stranger", "/karpenter/api/v1/fleet")},
		{"of one with rights to the API server's own paths only", "/api/v1/fleet", tokenOf(t, prefix), 403, forbidden("prefix", "/karpenter/api/v1/fleet")},
		{"of one with some rights, where it has them", "/api/v1/decisions", tokenOf(t, narrow), 200, ""},
		{"of one with some rights, elsewhere", "/api/v1/recording", tokenOf(t, narrow), 403, forbidden("narrow", "/karpenter/api/v1/recording")},
	} {
		t.Run(v.name, func(t *testing.T) { v.pay(t, fmt.Sprintf("http://127.0.0.1:%d", port)) })
	}
}
