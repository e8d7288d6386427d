package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// recordedFixture is the fixture as a recording.
func recordedFixture(t *testing.T) []byte {
	t.Helper()
	snapshot, _ := newFixture(t).write()
	objects, err := os.ReadFile(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	r := ledger.NewRecording(noon, knownLabels)
	r.Name, r.Objects = "42", objects
	r.Classes[state.AnyClass] = fixtureCatalog()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// fleetOf is what a controller has ready of a recording.
func fleetOf(t *testing.T, recording []byte) *model.Fleet {
	t.Helper()
	r, err := ledger.Read(recording)
	if err != nil {
		t.Fatal(err)
	}
	view, _, err := r.View()
	if err != nil {
		t.Fatal(err)
	}
	fleet := newTopModel(&Loaded{Recording: r}, view)
	fleet.Apply(judge(r, view))
	return fleet
}

// controllerAPI answers as a controller does.
func controllerAPI(t *testing.T) http.Handler {
	recording := recordedFixture(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/recording", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(recording) })
	mux.HandleFunc("GET /api/v1/decisions", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"decisions": []ledger.Entry{{ID: 7, Summary: r.URL.RawQuery}}, "newest": 7})
	})
	return mux
}

// apiServer answers lists of the fixture's objects, and what else is given by path.
func apiServer(t *testing.T, more map[string]http.Handler) string {
	t.Helper()
	lists := map[string][]any{}
	for _, item := range newFixture(t).items {
		data, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		var o map[string]any
		if err := json.Unmarshal(data, &o); err != nil {
			t.Fatal(err)
		}
		kind, _ := o["kind"].(string)
		delete(o, "kind") // as in lists of an API server
		delete(o, "apiVersion")
		lists[kind] = append(lists[kind], o)
	}
	mux := http.NewServeMux()
	for _, k := range listedKinds() {
		if _, other := more[k.path]; other {
			continue
		}
		mux.HandleFunc("GET "+k.path, func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": k.kind + "List", "items": lists[k.kind]})
		})
	}
	for path, handler := range more {
		mux.Handle(path, handler)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// kubeconfigOf leads to an API server.
func kubeconfigOf(t *testing.T, server string) string {
	t.Helper()
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "here", "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
		"users": [{"name": "u", "user": {}}], "clusters": [{"name": "c", "cluster": {"server": %q}}]}`, server)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
}

func TestTheClusterIsFoundWhereItIs(t *testing.T) {
	controller := httptest.NewServer(controllerAPI(t))
	defer controller.Close()
	leases := "/apis/coordination.k8s.io/v1/leases"
	lease := says(`{"items": [{"metadata": {"namespace": "kube-system"}, "spec": {"holderIdentity": "karpenter-abc_1234"}}]}`)
	proxied := http.StripPrefix("/api/v1/namespaces/kube-system/pods/http:karpenter-abc:8080/proxy", controllerAPI(t))
	plain := apiServer(t, nil)
	led := apiServer(t, map[string]http.Handler{leases: lease, "/api/v1/namespaces/kube-system/pods/": proxied})
	for _, x := range []struct {
		name   string
		source *Source
		want   string
		asks   bool // whether there is a ledger to ask
	}{
		{"a controller that is named", &Source{controller: controller.URL}, "controller at " + controller.URL, true},
		{"the leading pod", &Source{kubeconfig: kubeconfigOf(t, led)}, "controller karpenter-abc in kube-system", true},
		{"objects, without a controller", &Source{kubeconfig: kubeconfigOf(t, plain)}, "objects of cluster here, no controller answers", false},
		{"objects, as asked", &Source{kubeconfig: kubeconfigOf(t, led), offline: true}, "objects of cluster here, --offline is given: prices are the built-in list of", false},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.source.now = atNoon
			loaded, err := x.source.Load(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(loaded.From, x.want) {
				t.Errorf("it is from %q, want %q", loaded.From, x.want)
			}
			view, problems, err := loaded.Recording.View()
			if err != nil || len(problems) > 0 || len(view.Nodes) != 3 || view.Nodes[0].World.Price == 0 {
				t.Errorf("%d nodes, problems %v, error %v; want three nodes with prices", len(view.Nodes), problems, err)
			}
			if asks := loaded.Decisions != nil; asks != x.asks {
				t.Errorf("there is a ledger to ask: %v, want %v", asks, x.asks)
			}
			if !x.asks {
				return
			}
			list, err := loaded.Decisions(ledger.Query{Kinds: []ledger.Kind{ledger.Move}, About: &ledger.Ref{Kind: "Pod", Namespace: "default", Name: "x"}, Since: 3, Limit: 5})
			if err != nil || len(list) != 1 || list[0].Summary != "about=Pod%2Fdefault%2Fx&kind=Move&limit=5&since=3" {
				t.Errorf("decisions %+v, error %v", list, err)
			}
		})
	}
}

// What kubectl takes to reach a cluster, the commands take too: every request to the API server carries it.
func TestTheAPIServerIsAskedAsSomebodyElse(t *testing.T) {
	var asked []string
	server := apiServer(t, map[string]http.Handler{"/api/v1/pods": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Impersonate-User")+" "+strings.Join(r.Header.Values("Impersonate-Group"), ","))
		_, _ = w.Write([]byte(`{"items": []}`))
	})})
	_, _, err := execute(t, newPlan(atNoon), "--kubeconfig", kubeconfigOf(t, server), "--offline", "--as", "jane", "--as-group", "a", "--as-group", "b")
	if err != nil || len(asked) == 0 || asked[0] != "jane a,b" {
		t.Errorf("pods were listed as %q, error %v; want as jane a,b", asked, err)
	}
}

// A request that takes too long is given up.
func TestARequestTakesNoLongerThanAllowed(t *testing.T) {
	held := make(chan struct{})
	server := apiServer(t, map[string]http.Handler{"/apis/karpenter.sh/v1/nodepools": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held })})
	t.Cleanup(func() { close(held) }) // before the server ends, which waits for it
	_, _, err := execute(t, newPlan(atNoon), "--kubeconfig", kubeconfigOf(t, server), "--offline", "--request-timeout", "50ms")
	if err == nil || !strings.Contains(err.Error(), "the API server does not answer") {
		t.Errorf("it said %v, want that the API server does not answer", err)
	}
}

func TestASourceSaysWhatIsWrong(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	gone := http.NotFoundHandler()
	refused := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","message":"pods is forbidden"}`))
	})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(`{"kind":"KarpenterRecording","version":99,"objects":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name   string
		source *Source
		want   string
	}{
		{"nothing is given", &Source{}, "give --kubeconfig, --controller or --snapshot"},
		{"no such context", &Source{kubeconfig: kubeconfigOf(t, "http://127.0.0.1:1"), context: "there"}, `context "there" does not exist`},
		{"no Karpenter", &Source{kubeconfig: kubeconfigOf(t, apiServer(t, map[string]http.Handler{"/apis/karpenter.sh/v1/nodepools": gone}))}, "is Karpenter installed?"},
		{"no right", &Source{kubeconfig: kubeconfigOf(t, apiServer(t, map[string]http.Handler{"/api/v1/pods": refused}))}, "listing Pods of cluster here: 403 Forbidden pods is forbidden"},
		{"a controller that does not answer", &Source{controller: "http://127.0.0.1:1"}, "does not answer"},
		{"a recording of tomorrow", &Source{snapshot: file}, "this program reads up to"},
		{"two sources", &Source{snapshot: file, controller: "http://127.0.0.1:1"}, "--snapshot reads a file"},
	} {
		t.Run(x.name, func(t *testing.T) {
			if _, err := x.source.Load(t.Context(), nil); err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("it said %v, want %q", err, x.want)
			}
		})
	}
}

func TestARecordingIsReadZippedOrNot(t *testing.T) {
	plain := recordedFixture(t)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"plain": plain, "zipped": zipped.Bytes()} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		out, messages, err := execute(t, newTop(atNoon), "--snapshot", file, "-o", "json")
		if err != nil || !strings.Contains(out, `"nodes":3`) {
			t.Errorf("%s: %v, %s %s", name, err, out, messages)
		}
	}
}

func TestThePluginSaysHowItIsCalled(t *testing.T) {
	for program, want := range map[string]string{"/usr/bin/karpenter": "  karpenter plan\n", "/usr/bin/kubectl-karpenter": "  kubectl karpenter plan\n"} {
		root := newTestRoot()
		NameAfter(root, program)
		out, _, err := execute(t, root, "plan", "--help")
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
		if plugin := strings.Contains(program, "kubectl"); strings.Contains(out, "  kubectl karpenter plan [-f FILE|DIR]") != plugin {
			t.Errorf("%s has the usage line of another program:\n%s", program, out)
		}
	}
	if got := strings.Join(PluginArgs([]string{"/bin/kubectl_complete-karpenter", "plan", "--out"}), " "); got != "/bin/kubectl_complete-karpenter __complete plan --out" {
		t.Errorf("to complete, it runs %q", got)
	}
	if got := strings.Join(PluginArgs([]string{"karpenter", "plan"}), " "); got != "karpenter plan" {
		t.Errorf("it runs %q", got)
	}
}

func TestNamesAreCompletedFromTheCluster(t *testing.T) {
	kubeconfig := kubeconfigOf(t, apiServer(t, map[string]http.Handler{
		"/apis/apps/v1/namespaces/default/deployments": says(`{"items": [{"metadata": {"name": "web"}}]}`),
		"/api/v1/namespaces":                           says(`{"items": [{"metadata": {"name": "default"}}, {"metadata": {"name": "shop"}}]}`),
	}))
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"__complete", "explain", "node", "--kubeconfig", kubeconfig, "ip-10-0-1"}, "ip-10-0-1-11.us-west-2.compute.internal\nip-10-0-1-33.us-west-2.compute.internal\n:4\n"},
		{[]string{"__complete", "top", "--kubeconfig", kubeconfig, "--pool", ""}, "general\n:4\n"},
		{[]string{"__complete", "plan", "--output", ""}, "table\nwide\njson\nyaml\nmarkdown\n:4\n"},
		{[]string{"__complete", "plan", "--color", ""}, "auto\nalways\nnever\n:4\n"},
		{[]string{"__complete", "plan", "--kubeconfig", kubeconfig, "--context", ""}, "here\n:4\n"},
		{[]string{"__complete", "explain", "--output", ""}, "text\ntree\nname\njson\nyaml\n:4\n"},
		{[]string{"__complete", "explain", ""}, "pod\nnode\nnodeclaim\nnodepool\nmove\ndeployment\nstatefulset\ndaemonset\nreplicaset\njob\n:4\n"},
		{[]string{"__complete", "explain", "--kubeconfig", kubeconfig, "node/ip-10-0-2"}, "node/ip-10-0-2-22.us-west-2.compute.internal\n:4\n"},
		{[]string{"__complete", "explain", "--kubeconfig", kubeconfig, "-n", "default", "deploy", ""}, "web\n:4\n"},
		{[]string{"__complete", "explain", "--kubeconfig", kubeconfig, "--namespace", ""}, "default\nshop\n:4\n"},
		{[]string{"__complete", "explain", "node", "--kubeconfig", filepath.Join(t.TempDir(), "none"), ""}, ":4\n"},
	} {
		out, _, err := execute(t, newTestRoot(), x.args...)
		if err != nil || out != x.want {
			t.Errorf("%q completes to %q (%v), want %q", x.args, out, err, x.want)
		}
	}
}
