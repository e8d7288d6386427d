package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what the commands print as what is wanted")

// convertWith runs the command and returns what it printed.
func convertWith(t testing.TB, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := NewConvert()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

// golden compares with a file, or writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), -update accepts it:\n%s", file, diff)
	}
}

func TestConvert_Golden(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		failed string
	}{
		{name: "eks-node-provisioning"},
		{name: "karpenter-deep-dive"},
		{name: "alpha", args: []string{"--instance-profile", "KarpenterNodeInstanceProfile-demo"}},
		{name: "kubelet"},
		{name: "bad", failed: "could not convert 9 of 11 objects; only the others are printed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := filepath.Join("testdata", "convert", c.name)
			out, errs, err := convertWith(t, "", append([]string{"-f", base + ".yaml"}, c.args...)...)
			if (err != nil) != (c.failed != "") || err != nil && !strings.Contains(err.Error(), c.failed) {
				t.Errorf("error %v, want %q", err, c.failed)
			}
			golden(t, base+".out", out)
			golden(t, base+".err", errs)
			again, _, err := convertWith(t, out, "-f", "-")
			if err != nil || again != out {
				t.Errorf("converting the output again changes it: %v\n%s", err, cmp.Diff(out, again))
			}
		})
	}
}

func TestConvert_OtherDocumentsStayByteForByte(t *testing.T) {
	for name, text := range map[string]string{
		"comments":           "# one\napiVersion: v1\nkind: ConfigMap # two\nmetadata: {name: a}\ndata:\n  a: |\n    x\n\n    y\n",
		"no newline":         "apiVersion: v1\nkind: Pod",
		"windows lines":      "---\r\napiVersion: v1\r\nkind: Pod\r\n---\r\napiVersion: v1\r\nkind: Service\r\n",
		"separators":         "--- # first\napiVersion: v1\nkind: Pod\n---\n# only a comment\n--- {apiVersion: v1, kind: Service}\n",
		"json":               "{\"apiVersion\": \"v1\",\n  \"kind\": \"Pod\"}\n",
		"v1 of ours":         "# mine\napiVersion: karpenter.sh/v1\nkind: NodePool\nspec: {a: 1} # whatever\n",
		"duplicate keys":     "kind: Pod\nkind: Pod\n",
		"overlay":            "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\n",
		"a list":             "- 1\n- 2\n",
		"a List of others":   "apiVersion: v1\nkind: List\nitems: [{kind: Pod}] # c\n",
		"dashes in a string": "a: |\n  ---\n  b\n",
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, err := convertWith(t, text, "-f", "-")
			if err != nil || errs != "" || out != text {
				t.Errorf("error %v, %q\n%s", err, errs, cmp.Diff(text, out))
			}
		})
	}
}

const betaPool = `{"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": {"name": %q}, "spec": {"template": {"spec": {"requirements": []}}}}`

func TestConvert_FilesAndDirectories(t *testing.T) {
	dir := t.TempDir()
	for file, name := range map[string]string{"b.yaml": "b", "a.json": "a", "notes.txt": "notes", "below/c.yml": "c"} {
		path := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(betaPool, "%q", `"`+name+`"`, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	names := func(out string) string {
		var found []string
		for line := range strings.Lines(out) {
			if name, ok := strings.CutPrefix(line, "  name: "); ok {
				found = append(found, strings.TrimSpace(name))
			}
		}
		return strings.Join(found, " ")
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"a b", []string{"-f", dir}},
		{"a b c", []string{"-f", dir, "-R"}},
		{"notes", []string{"-f", filepath.Join(dir, "notes.txt")}},
		{"b a", []string{"-f", filepath.Join(dir, "b.yaml"), "-f", filepath.Join(dir, "a.json")}},
	} {
		out, _, err := convertWith(t, "", c.args...)
		if got := names(out); err != nil || got != c.want {
			t.Errorf("%q: %q, want %q: %v", c.args, got, c.want, err)
		}
	}
	// One file that cannot be read does not keep the others from being converted.
	out, errs, err := convertWith(t, "", "-f", filepath.Join(dir, "missing.yaml"), "-f", filepath.Join(dir, "b.yaml"))
	if err == nil || names(out) != "b" || !strings.Contains(errs, "missing.yaml") {
		t.Errorf("%v %q %q", err, out, errs)
	}
}

func TestConvert_BadArguments(t *testing.T) {
	for want, args := range map[string][]string{
		"-f":              {},
		"v2":              {"-f", "-", "--output-version", "v2"},
		"nothing":         {"-f", t.TempDir()},
		"unknown command": {"old.yaml"},
	} {
		_, errs, err := convertWith(t, "", args...)
		if err == nil {
			t.Errorf("%q was accepted", args)
		} else if text := err.Error() + errs; want != "nothing" && !strings.Contains(text, want) {
			t.Errorf("%q: %s", args, text)
		}
	}
}

func TestConvert_BackToBeta(t *testing.T) {
	const v1 = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: a\nspec:\n  template:\n    spec:\n      expireAfter: 24h\n      nodeClassRef:\n        group: karpenter.k8s.aws\n        kind: EC2NodeClass\n        name: a\n      requirements: []\n      terminationGracePeriod: 1h\n"
	beta, _, err := convertWith(t, v1, "-f", "-", "--output-version", "v1beta1")
	if err != nil || !strings.Contains(beta, "expireAfter: 24h") || !strings.Contains(beta, "karpenter.sh/v1beta1") {
		t.Fatalf("%v\n%s", err, beta)
	}
	back, _, err := convertWith(t, beta, "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v1, back); diff != "" {
		t.Error(diff)
	}
}

func FuzzConvert(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "convert", "*.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, _, err := convertWith(t, text, "-f", "-")
		if err != nil {
			return
		}
		again, errs, err := convertWith(t, out, "-f", "-")
		if err != nil || again != out {
			t.Errorf("the output is not what it should be: %v %s\n%s", err, errs, cmp.Diff(out, again))
		}
	})
}
