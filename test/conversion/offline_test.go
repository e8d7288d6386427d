package conversion

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"karpenter/internal/cli"
	"karpenter/test/harness"
)

// TestConvert_OutputIsAccepted: what `karpenter convert` prints passes the strictest validation.
func TestConvert_OutputIsAccepted(t *testing.T) {
	c := shared
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	cases := filepath.Join(root, "internal", "cli", "testdata", "convert")
	for name, args := range map[string][]string{
		"guides":  {"-R", "-f", filepath.Join(root, "examples", "guides")},
		"alpha":   {"-f", filepath.Join(cases, "alpha.yaml"), "--instance-profile", "p"},
		"kubelet": {"-f", filepath.Join(cases, "kubelet.yaml")},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			cmd := cli.NewConvert()
			cmd.SetArgs(args)
			cmd.SetOut(&out)
			cmd.SetErr(&bytes.Buffer{})
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(out.String(), "v1beta1\n") {
				t.Errorf("something was left in v1beta1:\n%s", out.String())
			}
			c.kubectl(t, out.String(), "apply", "--dry-run=server", "--validate=strict", "-f", "-")
		})
	}
}
