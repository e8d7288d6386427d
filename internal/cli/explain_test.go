package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// explainOn asks about the cluster of testdata/explain, as of a Monday morning.
func explainOn(t *testing.T, args ...string) (string, error) {
	t.Helper()
	e := &explaining{}
	e.source.now = func() time.Time { return time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC) }
	cmd := e.command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append(args, "--snapshot", "testdata/explain/cluster.json", "--catalog", "testdata/explain/catalog.json"))
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
		{"move 7", "no move is known here"},
		{"node ip-10-0-1-11 -o yaml", "give text, tree or json"},
	} {
		if _, err := explainOn(t, strings.Fields(test.args)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("explain %s: got %v, want something about %q", test.args, err, test.want)
		}
	}
}
