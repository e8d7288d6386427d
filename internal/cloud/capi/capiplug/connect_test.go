package capiplug

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"karpenter/cloud/plug"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCAPI_WrongManagementCluster shows what a start says to which the way to the management cluster is wrong.
func TestCAPI_WrongManagementCluster(t *testing.T) {
	for name, path := range map[string]string{"no such file": "/nowhere/kubeconfig", "no kubeconfig": file(t, "a: [b"), "empty": file(t, "")} {
		c := &Cloud{Options: Options{Kubeconfig: path}}
		err := c.Connect(t.Context(), plug.Process{Config: &rest.Config{}})
		if err == nil || !strings.Contains(err.Error(), "--cluster-api-kubeconfig "+path) || !strings.Contains(err.Error(), "management cluster") {
			t.Errorf("%s: %v", name, err)
		}
	}
	empty := httptest.NewServer(http.NotFoundHandler())
	defer empty.Close()
	if _, err := schemeOf(&rest.Config{Host: empty.URL}); err == nil || !strings.Contains(err.Error(), "serves none of the versions [v1beta2 v1beta1] of cluster.x-k8s.io") {
		t.Errorf("a cluster without Cluster API: %v", err)
	}
	denying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer denying.Close()
	if _, err := schemeOf(&rest.Config{Host: denying.URL}); err == nil || !strings.Contains(err.Error(), denying.URL) || !strings.Contains(err.Error(), "rights") {
		t.Errorf("a cluster that lets nobody in: %v", err)
	}
}

// TestCAPI_SeveralClusters shows that a management cluster of several Clusters is asked for the one that is meant.
func TestCAPI_SeveralClusters(t *testing.T) {
	for clusters, want := range map[string]string{
		`{"metadata":{"namespace":"a","name":"one"}}`:                                             "",
		`{"metadata":{"namespace":"a","name":"one"}},{"metadata":{"namespace":"b","name":"two"}}`: "has 2 Clusters, among them a/one and b/two; give the namespace and the name",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if strings.HasSuffix(r.URL.Path, "/clusters") {
				_, _ = io.WriteString(w, `{"kind":"ClusterList","apiVersion":"cluster.x-k8s.io/v1beta2","items":[`+clusters+`]}`)
				return
			}
			var kinds []string
			for _, kind := range []string{"Cluster", "MachineDeployment", "MachineSet", "Machine"} {
				kinds = append(kinds, fmt.Sprintf(`{"name":"%ss","kind":%q,"namespaced":true}`, strings.ToLower(kind), kind))
			}
			switch r.URL.Path {
			case "/apis":
				_, _ = io.WriteString(w, `{"kind":"APIGroupList","groups":[{"name":"cluster.x-k8s.io","versions":[{"groupVersion":"cluster.x-k8s.io/v1beta2","version":"v1beta2"}]}]}`)
			case "/apis/cluster.x-k8s.io/v1beta2":
				_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"cluster.x-k8s.io/v1beta2","resources":[`+strings.Join(kinds, ",")+`]}`)
			default:
				http.NotFound(w, r)
			}
		}))
		defer server.Close()
		c := &Cloud{Options: Options{Kubeconfig: "given"}, config: &rest.Config{Host: server.URL}, process: plug.Process{Log: slog.New(slog.DiscardHandler)}}
		if err := c.Find(t.Context()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", clusters, err)
		}
	}
}

func TestCAPI_PriceFile(t *testing.T) {
	prices, err := readPrices(file(t, "large: 0.42\nsmall: 0.1\n"))
	if err != nil || prices["large"] != 0.42 || len(prices) != 2 {
		t.Errorf("%v %v", prices, err)
	}
	for name, text := range map[string]string{"negative": "large: -1", "a word": "large: cheap", "a list": "[1]"} {
		if _, err := readPrices(file(t, text)); err == nil || !strings.Contains(err.Error(), "--cluster-api-price-file") || !strings.Contains(err.Error(), "dollars an hour") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readPrices("/nowhere"); err == nil || !strings.Contains(err.Error(), "0.42") {
		t.Errorf("no such file: %v", err)
	}
}
