// Package guides follows the documentation: every block of commands that names TestGuides is run, word for word, page by page, on a
// cluster such as "make local" starts.
package guides

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"karpenter/internal/cli"
	"karpenter/internal/local"
	"karpenter/internal/operator"
	"karpenter/test/blocks"
	"karpenter/test/harness"
)

// asProgram makes the test binary the program, with the commands that guides use.
const asProgram = "GUIDES_TEST_AS_PROGRAM"

// guides are the pages in the order in which somebody may read them.
var guides = []string{
	"README.md", "docs/start/README.md", "docs/start/local.md", "docs/concepts/v1beta1.md", "docs/reference/README.md", "docs/reference/plan.md",
	"docs/operate/README.md", "docs/operate/pools.md", "docs/operate/spot.md", "docs/operate/gpu.md", "docs/operate/troubleshooting.md",
	"docs/operate/security.md", "docs/operate/upgrades.md", "docs/operate/sizing.md",
}

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	local.Lifeline()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	root := &cobra.Command{Use: "karpenter", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(operator.NewCommand("test"), cli.NewConvert(), cli.NewPlan(), cli.NewExplain(), cli.NewTop(), cli.NewImport("test"))
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		os.Exit(1)
	}
}

// reader is somebody at a shell.
type reader struct {
	t   *testing.T
	dir string
	env []string
}

// newReader starts the cluster, and a folder with what the repository has at its top.
func newReader(t *testing.T) *reader {
	t.Helper()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	kube, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), t.TempDir()
	self := "#!/bin/sh\n" + asProgram + "=1 exec " + os.Args[0] + ` "$@"` + "\n"
	if err := os.WriteFile(filepath.Join(bin, "karpenter"), []byte(self), 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		kube: filepath.Join(bin, "kubectl"), filepath.Join(root, "examples"): filepath.Join(dir, "examples"),
		filepath.Join(root, "deploy"): filepath.Join(dir, "deploy"), filepath.Join(root, "charts"): filepath.Join(dir, "charts"), bin: filepath.Join(dir, "bin"),
	} {
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	cluster, err := local.Start(t.Context(), local.Options{
		Binary: kube, Dir: filepath.Join(t.TempDir(), "cluster"), ClusterName: "my-cluster", Region: "us-west-2", BootTime: time.Second,
		Controller: []string{filepath.Join(bin, "karpenter"), "controller"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &reader{t, dir, []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "KUBECONFIG=" + cluster.Kubeconfig, "AWS=" + cluster.AWSURL,
		"AWS_ENDPOINT_URL=" + cluster.AWSURL, "AWS_REGION=us-west-2", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_PAGER=", "AWS_EC2_METADATA_DISABLED=true",
	}}
}

var (
	// What is followed for as long as one likes is looked at once.
	forever = regexp.MustCompile(`(?m) (?:--watch|-f)(\s*(?:#.*)?)$`)
	// A line with an ellipsis is filled in by what the reader has before him.
	filledIn = regexp.MustCompile(`(?m)^.*…[^\n]*$`)
)

func (r *reader) run(b blocks.Block) {
	text := filledIn.ReplaceAllString(forever.ReplaceAllString(b.Text, "$1"), "")
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	cmd.Dir, cmd.Env, cmd.WaitDelay = r.dir, r.env, time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		r.t.Errorf("%s:%d: %v\n%s\n%s", b.Page, b.Line, err, text, out.String())
	}
	r.t.Logf("%s:%d\n%s", b.Page, b.Line, out.String())
}

// TestGuides follows the pages.
func TestGuides(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster; not with -short")
	}
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t)
	count := 0
	for _, page := range guides {
		found, err := blocks.Read(filepath.Join(root, filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(page, ".md"), func(t *testing.T) {
			for _, b := range found {
				if b.Test == "TestGuides" {
					count++
					(&reader{t, r.dir, r.env}).run(b)
				}
			}
		})
	}
	if count < 10 {
		t.Errorf("%d blocks were run", count)
	}
}
