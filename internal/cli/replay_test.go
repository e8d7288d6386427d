package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"karpenter/internal/ledger"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
	"karpenter/test/blocks"
)

// recorded is a recording of the cluster that explain is tested with, with its answer.
func recorded(t *testing.T) *ledger.Recording {
	t.Helper()
	objects, err := os.ReadFile("testdata/explain/cluster.json")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := readCatalogFile("testdata/explain/catalog.json")
	if err != nil {
		t.Fatal(err)
	}
	r := ledger.NewRecording(time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC), knownLabels)
	r.Name, r.Made, r.Objects, r.Classes = "karpenter-0-7", "v1", objects, map[string]*dump.Catalog{state.AnyClass: catalog}
	view, _, err := r.View()
	if err != nil {
		t.Fatal(err)
	}
	r.Answer = r.Replay(view, 1)
	if len(r.Answer.Plan.Nodes)+len(r.Answer.Plan.Existing)+len(r.Answer.Decision.Moves) == 0 {
		t.Fatalf("the recording has too little in it: %+v %+v", r.Answer.Plan, r.Answer.Decision)
	}
	return r
}

// save writes a recording to a file in the current folder of the test.
func save(t *testing.T, r *ledger.Recording, zipped bool) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	data, name := b.Bytes(), "recording.json"
	if zipped {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(data); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		data, name = z.Bytes(), name+".gz"
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func replay(stdin string, args ...string) (string, error) {
	cmd := NewReplay("v2")
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.Execute()
	return out.String(), err
}

func TestReplayGivesTheSameAnswer(t *testing.T) {
	r := recorded(t)
	for _, zipped := range []bool{false, true} {
		text, err := replay("", save(t, r, zipped), "--workers", "3")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Recording karpenter-0-7 of 2026-03-02T10:00:00Z, made by version v1.\n", "The answer is the same, to the byte.\n", "/h"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing in\n%s", want, text)
			}
		}
	}
}

func TestReplayShowsTheDifference(t *testing.T) {
	r := recorded(t)
	r.Answer.Decision.After++
	path := save(t, r, false)
	text, err := replay("", path)
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != ExitChanges || exit.Error() != "" {
		t.Errorf("it ends with %v", err)
	}
	if !strings.Contains(text, "The answer is another (- recorded, + now):\n  - all nodes cost ") || !strings.Contains(text, "\n  + all nodes cost ") {
		t.Errorf("it prints\n%s", text)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err = replay(string(data), "-", "-o", "json")
	if !errors.As(err, &exit) {
		t.Errorf("it ends with %v", err)
	}
	var report replayReport
	if err := json.Unmarshal([]byte(text), &report); err != nil || report.Same == nil || *report.Same || len(report.Difference) != 2 || report.Made != "v1" || report.Replay != "v2" || report.Recorded == nil {
		t.Errorf("%v: %s", err, text)
	}
}

func TestReplayWithoutAnAnswerDecides(t *testing.T) {
	r := recorded(t)
	r.Answer = nil
	text, err := replay("", save(t, r, false))
	if err != nil || !strings.Contains(text, "No answer is recorded. The answer now:\n  ") {
		t.Errorf("%v:\n%s", err, text)
	}
}

const smallPool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  limits: {cpu: "0"}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
`

// other writes a manifest of a pool of the recording, as one that may have no nodes.
func other(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(path, []byte(smallPool), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReplayWithAnotherPool(t *testing.T) {
	r := recorded(t)
	text, err := replay("", save(t, r, false), "--nodepool", other(t))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "The answer is the same, to the byte.\n") || !strings.Contains(text, "With that (- without, + with):\n  ") || strings.Contains(text, "nothing changes") {
		t.Errorf("it prints\n%s", text)
	}
	wrong := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(wrong, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := replay("", save(t, r, false), "--nodepool", wrong); err == nil || !strings.Contains(err.Error(), "Namespace x is no NodePool") {
		t.Errorf("a Namespace: %v", err)
	}
}

func TestReplayRefusesWhatIsNoRecording(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "read recording",
		`{"kind":"List","items":[]}`:    `kind is "List"; a recording has kind KarpenterRecording`,
		`{"kind":"KarpenterRecording"}`: "version is 0; this program reads up to 1",
		"\x1f\x8b\x08garbage":           "read recording",
		`{"kind":"KarpenterRecording","version":1}`:                                                       "it has no objects",
		`{"kind":"KarpenterRecording","version":1,"objects":{"items":[]},"classes":{"a":{"sameAs":"b"}}}`: `class "a" has no instanceTypes`,
	} {
		if _, err := replay(text, "-"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := replay("", "-", "-o", "xml"); err == nil || !strings.Contains(err.Error(), "give text, json or yaml") {
		t.Errorf("-o xml: %v", err)
	}
}

// TestReplayCommandsOfTheDocs runs what the page tells readers to run.
func TestReplayCommandsOfTheDocs(t *testing.T) {
	found, err := blocks.Read("../../docs/reference/decisions.md")
	if err != nil {
		t.Fatal(err)
	}
	r := recorded(t)
	files := map[string]string{"recording.json": save(t, r, false), "other.yaml": other(t)}
	ran := 0
	for _, b := range found {
		if b.Test != t.Name() {
			continue
		}
		for line := range strings.Lines(b.Text) {
			line, _, _ = strings.Cut(line, "#")
			args := strings.Fields(line)
			if len(args) == 0 {
				continue
			}
			for i, a := range args {
				if file := files[a]; file != "" {
					args[i] = file
				}
			}
			ran++
			if text, err := replay("", args[2:]...); err != nil || text == "" {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	if ran != 2 {
		t.Errorf("%d commands were run", ran)
	}
}
