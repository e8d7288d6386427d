package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	karpv1 "karpenter/api/karpenter/v1"
)

// clock stands still until it is moved.
type clock struct {
	mu      sync.Mutex
	now     time.Time
	waiters map[chan time.Time]time.Time
}

func newClock() *clock { return &clock{now: start, waiters: map[chan time.Time]time.Time{}} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := make(chan time.Time, 1)
	c.waiters[at] = c.now.Add(d)
	return at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for waiter, due := range c.waiters {
		if !c.now.Before(due) {
			delete(c.waiters, waiter)
			waiter <- c.now
		}
	}
}

// waiting returns how many wait for the clock, that is, how many servers have nothing else to do.
func (c *clock) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiters)
}

var secretName = types.NamespacedName{Namespace: "kube-system", Name: "karpenter-conversion"}

func newCluster(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, karpv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range kinds() {
		objects = append(objects, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: kind.definition()},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group:      kind.group,
				Names:      apiextensionsv1.CustomResourceDefinitionNames{Plural: kind.plural},
				Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter},
			},
		})
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// serve starts a replica and waits until it is ready.
func serve(t *testing.T, cluster client.Client, clock Clock) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := newServer(Options{
		Client: cluster, Clock: clock, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Secret: secretName,
		Target: Target{ServiceNamespace: "kube-system", ServiceName: "karpenter", ServicePort: 8443}, Listener: listener,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stopping the server: %v", err)
		}
	})
	select {
	case <-server.ready:
	case <-time.After(2 * time.Minute):
		t.Fatal("the server is not ready")
	}
	return server
}

func definition(t *testing.T, cluster client.Client, kind kind) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: kind.definition()}, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// ask does what the API server does: it trusts what the definition says, now, on a new connection.
func ask(t *testing.T, cluster client.Client, server *Server, now time.Time, body string) (int, string) {
	t.Helper()
	roots := x509.NewCertPool()
	config := definition(t, cluster, kinds()[0]).Spec.Conversion.Webhook.ClientConfig
	if !roots.AppendCertsFromPEM(config.CABundle) {
		t.Fatal("no authority in the definition")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "karpenter.kube-system.svc", Time: func() time.Time { return now }}, DisableKeepAlives: true}
	httpClient := &http.Client{Transport: transport, Timeout: 2 * time.Minute}
	response, err := httpClient.Post("https://"+server.Listener.Addr().String()+kinds()[0].path(), "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func review(desired string, objects ...string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u-1","desiredAPIVersion":%q,"objects":[%s]}}`, desired, strings.Join(objects, ","))
}

const pool = `{"apiVersion":"karpenter.sh/v1beta1","kind":"NodePool","metadata":{"name":"default"},"spec":{"template":{"spec":{"requirements":[],"nodeClassRef":{"name":"x"}}}}}`

func answer(t *testing.T, text string) *apiextensionsv1.ConversionResponse {
	t.Helper()
	var out apiextensionsv1.ConversionReview
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if out.Kind != "ConversionReview" || out.APIVersion != "apiextensions.k8s.io/v1" || out.Response == nil {
		t.Fatalf("not a review: %s", text)
	}
	return out.Response
}

func TestServer_Converts(t *testing.T) {
	cluster, clock := newCluster(t), newClock()
	server := serve(t, cluster, clock)
	status, text := ask(t, cluster, server, start, review("karpenter.sh/v1", pool, pool))
	response := answer(t, text)
	if status != http.StatusOK || response.Result.Status != metav1.StatusSuccess || response.UID != "u-1" || len(response.ConvertedObjects) != 2 {
		t.Fatalf("%d %s", status, text)
	}
	if got := string(response.ConvertedObjects[0].Raw); !strings.Contains(got, `"group":"karpenter.k8s.aws"`) {
		t.Errorf("got %s", got)
	}
	for _, kind := range kinds() {
		conversion := definition(t, cluster, kind).Spec.Conversion
		if conversion.Strategy != apiextensionsv1.WebhookConverter || *conversion.Webhook.ClientConfig.Service.Path != "/convert/"+kind.plural {
			t.Errorf("%s: %+v", kind.plural, conversion)
		}
	}
}

// When an object is applied, the API server converts what is left of it without the fields of other owners, and Kubernetes 1.25 wants
// metadata in the answer all the same.
func TestServer_ConvertsWithoutMetadata(t *testing.T) {
	cluster, clock := newCluster(t), newClock()
	server := serve(t, cluster, clock)
	_, text := ask(t, cluster, server, start, review("karpenter.sh/v1beta1", `{"apiVersion":"karpenter.sh/v1","kind":"NodePool","status":{"nodes":1}}`))
	response := answer(t, text)
	if len(response.ConvertedObjects) != 1 || !strings.Contains(string(response.ConvertedObjects[0].Raw), `"metadata":{}`) {
		t.Errorf("got %s", text)
	}
}

func TestServer_BadReviews(t *testing.T) {
	cluster, clock := newCluster(t), newClock()
	server := serve(t, cluster, clock)
	bad := strings.Replace(pool, `"spec":{`, `"spec":{"disruption":{"budgets":[{},7]},`, 1)
	for name, c := range map[string]struct {
		body   string
		status int
		want   []string
	}{
		"not JSON":        {`{`, 400, []string{"ConversionReview"}},
		"empty":           {``, 400, []string{"ConversionReview"}},
		"another kind":    {`{"kind":"Pod","apiVersion":"v1"}`, 400, []string{`"Pod"`}},
		"old protocol":    {strings.Replace(review("karpenter.sh/v1", pool), "k8s.io/v1", "k8s.io/v1beta1", 1), 400, []string{"apiextensions.k8s.io/v1"}},
		"no request":      {`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}`, 400, []string{"request"}},
		"no object":       {review("karpenter.sh/v1"), 200, nil},
		"bad in a batch":  {review("karpenter.sh/v1", pool, bad), 200, []string{"objects[1]", `NodePool "default"`, "spec.disruption.budgets[1]", "must be an object, is the number 7"}},
		"object is null":  {review("karpenter.sh/v1", `null`), 200, []string{"objects[0]"}},
		"object is text":  {review("karpenter.sh/v1", `"x"`), 200, []string{"objects[0]", "JSON object"}},
		"unknown kind":    {review("karpenter.sh/v1", `{"apiVersion":"karpenter.sh/v1beta1","kind":"Machine","metadata":{"name":"m"}}`), 200, []string{`Machine "m"`, "apiVersion"}},
		"unknown version": {review("karpenter.sh/v2", pool), 200, []string{`NodePool "default"`, "karpenter.sh/v2"}},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := ask(t, cluster, server, start, c.body)
			if status != c.status {
				t.Fatalf("status %d, want %d: %s", status, c.status, text)
			}
			message := text
			if status == http.StatusOK {
				result := answer(t, text).Result
				message = result.Message
				if failed := result.Status == metav1.StatusFailure; failed != (len(c.want) > 0) {
					t.Fatalf("result %s", text)
				}
			}
			for _, want := range c.want {
				if !strings.Contains(message, want) {
					t.Errorf("%q is not in %q", want, message)
				}
			}
		})
	}
}

func TestServer_OnlyPost(t *testing.T) {
	recorder := newRecorder()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/convert/nodepools", nil)
	if err != nil {
		t.Fatal(err)
	}
	newReviewer(nil).ServeHTTP(recorder, request)
	if recorder.status != http.StatusMethodNotAllowed {
		t.Errorf("status %d", recorder.status)
	}
}

func TestServer_TooLarge(t *testing.T) {
	recorder := newRecorder()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/convert/nodepools", io.LimitReader(spaces{}, maxReview+1))
	if err != nil {
		t.Fatal(err)
	}
	newReviewer(nil).ServeHTTP(recorder, request)
	if recorder.status != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", recorder.status)
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

type recorder struct {
	bytes.Buffer
	header http.Header
	status int
}

func newRecorder() *recorder               { return &recorder{header: http.Header{}, status: http.StatusOK} }
func (r *recorder) Header() http.Header    { return r.header }
func (r *recorder) WriteHeader(status int) { r.status = status }

// TestA77_ClaimTakesExpireAfterOfItsPool: v1beta1 claims do not say when they expire.
func TestA77_ClaimTakesExpireAfterOfItsPool(t *testing.T) {
	never := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "eternal"}}
	never.Spec.Template.Spec.ExpireAfter = karpv1.NeverDuration()
	cluster, clock := newCluster(t, never), newClock()
	server := serve(t, cluster, clock)
	for pool, want := range map[string]string{"eternal": `"expireAfter":"Never"`, "gone": `"expireAfter":"720h"`} {
		claim := fmt.Sprintf(`{"apiVersion":"karpenter.sh/v1beta1","kind":"NodeClaim","metadata":{"name":"c","labels":{"karpenter.sh/nodepool":%q}},"spec":{"requirements":[]}}`, pool)
		_, text := ask(t, cluster, server, start, review("karpenter.sh/v1", claim, claim))
		if !strings.Contains(text, want) {
			t.Errorf("pool %s: %s", pool, text)
		}
	}
}

func TestServer_ReplicasShareOneSecret(t *testing.T) {
	empty := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretName.Namespace, Name: secretName.Name, Labels: map[string]string{"keep": "me"}}}
	for name, objects := range map[string][]client.Object{"made by the first": nil, "there and empty": {empty}} {
		t.Run(name, func(t *testing.T) {
			cluster, clock := newCluster(t, objects...), newClock()
			first := serve(t, cluster, clock)
			second := serve(t, cluster, clock)
			if !first.serving.Load().Leaf.Equal(second.serving.Load().Leaf) {
				t.Error("the replicas show different certificates")
			}
			secret := &corev1.Secret{}
			if err := cluster.Get(t.Context(), secretName, secret); err != nil {
				t.Fatal(err)
			}
			if _, err := parseKeyring(secret.Data); err != nil {
				t.Error(err)
			}
			if objects != nil && secret.Labels["keep"] != "me" {
				t.Error("the Secret lost its labels")
			}
		})
	}
}

// TestServer_RotatesWithoutRefusing moves two replicas through two years while they answer.
func TestServer_RotatesWithoutRefusing(t *testing.T) {
	cluster, clock := newCluster(t), newClock()
	replicas := []*Server{serve(t, cluster, clock), serve(t, cluster, clock)}
	leaves, bundles := map[string]bool{}, map[string]bool{}
	for range 2 * 365 / 6 {
		for range 2 { // twice, because the second round sees what the first has written
			clock.advance(3 * 24 * time.Hour)
			deadline := time.Now().Add(2 * time.Minute)
			for clock.waiting() < len(replicas) && time.Now().Before(deadline) {
				time.Sleep(100 * time.Microsecond)
			}
			for _, replica := range replicas {
				leaves[replica.serving.Load().Leaf.SerialNumber.String()] = true
			}
		}
		bundles[string(definition(t, cluster, kinds()[0]).Spec.Conversion.Webhook.ClientConfig.CABundle)] = true
		for _, replica := range replicas {
			if status, text := ask(t, cluster, replica, clock.Now(), review("karpenter.sh/v1", pool)); status != http.StatusOK {
				t.Fatalf("at %s: %d %s", clock.Now(), status, text)
			}
		}
	}
	if len(leaves) < 10 || len(bundles) < 5 {
		t.Errorf("%d certificates and %d bundles in two years: nothing was rotated", len(leaves), len(bundles))
	}
}

// TestServer_Repairs: somebody applies the definitions again without the conversion, or removes the Secret.
func TestServer_Repairs(t *testing.T) {
	cluster, clock := newCluster(t), newClock()
	server := serve(t, cluster, clock)
	before := server.serving.Load()
	crd := definition(t, cluster, kinds()[0])
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	if err := cluster.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretName.Namespace, Name: secretName.Name}}); err != nil {
		t.Fatal(err)
	}
	clock.advance(syncEvery)
	deadline := time.Now().Add(2 * time.Minute)
	for server.serving.Load() == before || clock.waiting() == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the Secret was not made again")
		}
		time.Sleep(time.Millisecond)
	}
	if status, text := ask(t, cluster, server, clock.Now(), review("karpenter.sh/v1", pool)); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
}

func TestTarget(t *testing.T) {
	service := Target{ServiceNamespace: "kube-system", ServiceName: "karpenter", ServicePort: 8443}
	for _, bad := range []Target{{}, {ServiceName: "a", ServicePort: 1}, {ServiceNamespace: "a", ServiceName: "b"}} {
		if bad.validate() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	if err := service.validate(); err != nil {
		t.Error(err)
	}
	if hosts := service.hosts(); hosts[0] != "karpenter.kube-system.svc" {
		t.Errorf("hosts %v", hosts)
	}
	reach := service.Conversion("nodepools", nil).Webhook.ClientConfig
	if reach.URL != nil || *reach.Service.Path != "/convert/nodepools" || *reach.Service.Port != 8443 {
		t.Errorf("%+v", reach)
	}
}

// FuzzReview asserts that what a conversion does not look at comes back as it was.
func FuzzReview(f *testing.F) {
	f.Add([]byte(review("karpenter.sh/v1", pool)))
	f.Add([]byte(review("karpenter.sh/v1beta1", listed(1), listed(2))))
	f.Add([]byte(review("karpenter.sh/v1beta1", `{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim","metadata":{"managedFields":null},"status":[1.50,9007199254740993]}`)))
	f.Add([]byte(review("karpenter.k8s.aws/v1beta1", `{"apiVersion":"karpenter.k8s.aws/v1","kind":"EC2NodeClass","spec":{"amiSelectorTerms":[{"alias":"al2023@latest"}]}}`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		request, err := readReview(bytes.NewReader(body))
		if err != nil {
			return
		}
		objects, result := newReviewer(nil).respond(t.Context(), request)
		if strings.Contains(result.Message, "panicked") {
			t.Fatal(result.Message)
		}
		to := newRecorder()
		if write(to, request.UID, objects, result); !json.Valid(to.Bytes()) {
			t.Fatalf("not JSON: %s", to.String())
		}
		for i, object := range objects {
			before, after := others(t, request.Objects[i].Raw), others(t, object)
			if !reflect.DeepEqual(before, after) {
				t.Fatalf("became\n%v, was\n%v", after, before)
			}
		}
	})
}

// others is what a conversion must leave alone.
func others(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := kjson.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	delete(out, "apiVersion")
	delete(out, "spec")
	if metadata, is := out["metadata"].(map[string]any); is {
		if delete(metadata, "annotations"); len(metadata) > 0 {
			return out
		}
	}
	if out["metadata"] == nil || reflect.DeepEqual(out["metadata"], map[string]any{}) {
		delete(out, "metadata")
	}
	return out
}
