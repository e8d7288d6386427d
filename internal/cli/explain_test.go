package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// explainedAt is the Monday morning that the cluster of testdata/explain is looked at.
func explainedAt() time.Time { return time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC) }

// inMotion are the parts of the cluster of testdata/explain that keep its pool in motion.
var inMotion = []string{"db-0", "report-6f7c4-x2x1p", "general-x7k2p"}

// atRest writes the cluster of testdata/explain without what keeps its pool in motion.
func atRest(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("testdata/explain/cluster.json")
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(item json.RawMessage) bool {
		var o struct {
			Metadata struct{ Name string } `json:"metadata"`
		}
		return json.Unmarshal(item, &o) == nil && slices.Contains(inMotion, o.Metadata.Name)
	})
	if data, err = json.Marshal(list); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cluster.json")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// explainOn asks about the cluster of testdata/explain, as of a Monday morning. What is to be removed for its cost is asked while the
// pool is at rest.
func explainOn(t *testing.T, args ...string) (string, error) {
	t.Helper()
	for _, subject := range []string{"ip-10-0-1-11", "ip-10-0-2-12", "ip-10-0-3-13", "ip-10-0-3-15", "web-7d4b9-0", "general"} {
		if slices.ContainsFunc(args, func(arg string) bool { return arg == subject || strings.HasSuffix(arg, "/"+subject) }) {
			return explainIn(t, atRest(t), args...)
		}
	}
	return explainIn(t, "testdata/explain/cluster.json", args...)
}

func explainIn(t *testing.T, cluster string, args ...string) (string, error) {
	t.Helper()
	e := &explaining{}
	e.source.now = explainedAt
	cmd := e.command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append(args, "--snapshot", cluster, "--catalog", "testdata/explain/catalog.json"))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestExplainOnASnapshot(t *testing.T) {
	for _, test := range []struct{ name, args string }{
		{"pod-stuck", "pod train-0 -n ml"},
		{"pod-taint", "pod ml/etl-9b8d7-q4q4q"},
		{"pod-coming", "pod report-6f7c4-x2x1p --namespace shop"},
		{"pod-runs", "pod shop/web-7d4b9-0"},
		{"node-budget", "node ip-10-0-1-11"},
		{"node-moves", "node/ip-10-0-3-15"},
		{"node-full", "node ip-10-0-2-12"},
		{"node-drifted", "nodes ip-10-0-3-13"},
		{"node-leaving", "node ip-10-0-1-14"},
		{"claim", "nodeclaim general-x7k2p"},
		{"pool", "nodepool general"},
		{"tree", "pod ml/train-0 -o tree"},
		{"json", "node ip-10-0-1-11 -o json"},
		{"deployment", "deployment/web -n shop"},
		{"deployment-stuck", "deploy ml/etl"},
		{"statefulset", "sts cache -A"},
		{"job", "job train -n ml -o tree"},
		{"workload-yaml", "deployment report -n shop -o yaml"},
		{"workload-name", "deployment api -n shop -o name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := explainOn(t, strings.Fields(test.args)...)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "explain", test.name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("karpenter explain %s prints something else (-want +got):\n%s", test.args, d)
			}
			if test.name == "json" && !json.Valid([]byte(got)) {
				t.Error("not JSON")
			}
		})
	}
}

// Pods of a workload that have the same reason are one group, what needs attention first, and one of each is explained.
func TestExplainGroupsThePodsOfAWorkload(t *testing.T) {
	f := newFixture(t)
	f.pods("mix", 5, "100", "1Gi", "")
	for i, item := range f.items[len(f.items)-5:] {
		pod := item.(*corev1.Pod)
		pod.UID = types.UID(pod.Name)
		if i < 2 {
			continue
		}
		// Three of the five run, on two nodes.
		pod.Spec.NodeName = []string{"ip-10-0-2-22.us-west-2.compute.internal", "ip-10-0-1-33.us-west-2.compute.internal"}[i%2]
		pod.Spec.Containers[0].Resources.Requests = amounts("100m", "1Gi", "0")
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning}
	}
	snapshot, catalog := f.write()
	e := &explaining{}
	e.source.now = atNoon
	out, _, err := execute(t, e.command(), "deployment/mix", "--snapshot", snapshot, "--catalog", catalog)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("testdata", "explain", "workload-groups.golden"), out)
}

// While pods of a pool are to be placed or its nodes start, nothing of it is removed for its cost, and the answer says so.
func TestExplainOfAPoolInMotion(t *testing.T) {
	got, err := explainIn(t, "testdata/explain/cluster.json", "node", "ip-10-0-3-15")
	if want := "node ip-10-0-3-15 stays: pool general is not at rest: 1 node is starting and 2 pods are to be placed. Waiting until pool general is at rest would free m6i.2xlarge, $0.3840/h.\n"; err != nil || !strings.HasPrefix(got, want) {
		t.Errorf("%v\n%s", err, got)
	}
}

// Every command that the manual shows is run on the cluster of testdata, and prints what the manual shows.
func TestExplainIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "explain.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, block := range strings.Split(string(page), "<!-- run by: TestExplainIsDocumented -->")[1:] {
		var lines []string
		for _, line := range strings.Split(strings.TrimLeft(block, "\n"), "\n") {
			if line != "" && !strings.HasPrefix(line, "    ") {
				break
			}
			lines = append(lines, strings.TrimPrefix(line, "    "))
		}
		command, want, _ := strings.Cut(strings.TrimRight(strings.Join(lines, "\n"), "\n"), "\n")
		got, err := explainOn(t, strings.Fields(strings.TrimPrefix(command, "$ karpenter explain "))...)
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if d := cmp.Diff(want, strings.TrimRight(got, "\n")); d != "" {
			t.Errorf("%s (-manual +now):\n%s", command, d)
		}
		shown++
	}
	if shown < 8 {
		t.Errorf("only %d commands are shown", shown)
	}
}

func TestExplainRefusesWhatItCannotRead(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"cluster x", `cannot explain "cluster"`},
		{"pod", "which pod?"},
		{"node ip-10-0-1-1l", "did you mean ip-10-0-1-11?"},
		{"pod web-7d4b9-0", "did you mean shop/web-7d4b9-0?"},
		{"nodepool generl", "did you mean general?"},
		{"move 7", "numbers are those of the controller's ledger, which is not asked here"},
		{"move d8q3k-4", "no move is known here"},
		{"node ip-10-0-1-11 -o xml", "give text, tree, name, json or yaml"},
		{"deployment webb -n shop", `there is no deployment with pods called "shop/webb"; did you mean shop/web?`},
		{"deployment web", "did you mean shop/web?"},
		{"deploy nothing -A", `there is no deployment "nothing"; no namespace has one`},
		{"pod web-7d4b9-0 -A -n shop", "contradict each other"},
	} {
		if _, err := explainOn(t, strings.Fields(test.args)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("explain %s: got %v, want something about %q", test.args, err, test.want)
		}
	}
}

// movesOf is the cluster of testdata with a move under way: a drifted node, and the claim that replaces it.
func movesOf(t *testing.T) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "explain", "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Kind  string           `json:"kind"`
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	marks := map[string]map[string]any{
		"general-c5wzt": {"karpenter.sh/move": "id=d8q3k-4 reason=Drifted began=2026-03-02T09:59:20Z to=general-x7k2p"},
		"general-x7k2p": {"karpenter.sh/moved-from": "id=d8q3k-4 from=general/c6i.2xlarge/us-east-1c/on-demand"},
	}
	for _, item := range list.Items {
		meta, _ := item["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		if marks[name] != nil {
			meta["annotations"] = marks[name]
		}
	}
	out, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A move is found by the id on its claims and by its number, with a controller and without.
func TestExplainMoves(t *testing.T) {
	objects := movesOf(t)
	file := filepath.Join(t.TempDir(), "moves.json")
	if err := os.WriteFile(file, objects, 0o600); err != nil {
		t.Fatal(err)
	}
	const catalogue = "testdata/explain/catalog.json"
	ask := func(args ...string) string {
		t.Helper()
		e := &explaining{}
		e.source.now = explainedAt
		out, _, err := execute(t, e.command(), append([]string{"move"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	golden(t, "testdata/explain/move-objects.golden", ask("d8q3k-4", "--snapshot", file, "--catalog", catalogue))

	r := ledger.NewRecording(explainedAt(), knownLabels)
	r.Objects = objects
	types, err := readCatalogFile(catalogue)
	if err != nil {
		t.Fatal(err)
	}
	r.Classes[state.AnyClass] = types
	entry := ledger.Entry{
		ID: 42, Kind: ledger.Move, Reason: "Drifted", Key: "d8q3k-4", At: explainedAt().Add(-40 * time.Second), Outcome: ledger.Open, Evicts: 2, Saves: 0.17,
		Remove: []model.Node{{Claim: "general-c5wzt", Node: "ip-10-0-3-13", Type: "c6i.2xlarge", Zone: "us-east-1c", CapacityType: "on-demand", Price: 0.34}},
		Add:    []model.Node{{Claim: "general-x7k2p", Type: "c6i.xlarge", Zone: "us-east-1a", CapacityType: "on-demand", Price: 0.17}},
	}
	entry.Summary = ledger.MoveSummary("drifted", &entry)
	controller := controllerOn(t, r, entry)
	byNumber := ask("42", "--controller", controller)
	golden(t, "testdata/explain/move-ledger.golden", byNumber)
	for _, id := range []string{"#42", "d8q3k-4"} {
		if d := cmp.Diff(byNumber, ask(id, "--controller", controller)); d != "" {
			t.Errorf("%s is another move than 42:\n%s", id, d)
		}
	}
}

// controllerOn answers as a controller with that recording and those decisions does.
func controllerOn(t *testing.T, r *ledger.Recording, entries ...ledger.Entry) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/recording", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b.Bytes()) })
	mux.HandleFunc("GET /api/v1/decisions", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"decisions": entries})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func TestMovesAreCompletedFromClaims(t *testing.T) {
	claim := `{"metadata": {"name": "c1", "annotations": {"karpenter.sh/move": "id=a-1 reason=Drifted began=2026-03-02T09:59:20Z to=c2", "karpenter.sh/moved-from": "id=b-2 from=p/t/z/spot"}}}`
	for kind, want := range map[string]string{"move": "a-1 b-2", "nodeclaim": "c1"} {
		if got := strings.Join(namesIn(kind, json.RawMessage(claim)), " "); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}
