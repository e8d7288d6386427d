package local

import (
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestTheKubeconfigNamesTheController(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"here": {Server: "https://127.0.0.1:1"}}, CurrentContext: "here",
		Contexts: map[string]*clientcmdapi.Context{"here": {Cluster: "here"}},
	}
	if err := clientcmd.WriteToFile(config, file); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"http://127.0.0.1:2", "http://127.0.0.1:3"} { // the second start has another port
		if err := noteController(file, url); err != nil {
			t.Fatal(err)
		}
		got, err := clientcmd.LoadFromFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cluster := got.Clusters["here"]
		if cluster.Server != "https://127.0.0.1:1" || len(cluster.Extensions) != 1 {
			t.Errorf("cluster %+v", cluster)
		}
		note, ok := cluster.Extensions[extensionName].(*runtime.Unknown)
		if want := `{"controller":"` + url + `"}`; !ok || string(note.Raw) != want {
			t.Errorf("extension %+v, want %s", cluster.Extensions[extensionName], want)
		}
	}
}
