// Package guides follows the documentation: every block of commands that names one of its tests is run, word for word, page by page, on a
// cluster such as "make local" starts.
package guides

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"karpenter/internal/cli"
	"karpenter/internal/clouds"
	"karpenter/internal/local"
	"karpenter/internal/operator"
	"karpenter/test/blocks"
	"karpenter/test/harness"
	"karpenter/test/harness/program"
)

// guides are the pages in the order in which somebody may read them.
var guides = []string{
	"README.md", "docs/start/README.md", "docs/start/local.md", "docs/concepts/pools.md", "docs/concepts/claims.md", "docs/concepts/classes.md", "docs/concepts/provisioning.md",
	"docs/concepts/consolidation.md", "docs/concepts/conditions.md", "docs/concepts/v1beta1.md", "docs/reference/README.md", "docs/reference/plan.md", "docs/reference/top.md", "docs/reference/decisions.md",
	"docs/tasks/choose-pools.md", "docs/tasks/spot.md", "docs/tasks/gpu.md", "docs/tasks/hpa-keda.md", "docs/operate/README.md", "docs/operate/troubleshooting.md",
	"docs/operate/security.md", "docs/operate/upgrades.md", "docs/operate/sizing.md",
}

func TestMain(m *testing.M) {
	program.Act(operator.NewCommand("test", clouds.Plugins()...), cli.NewConvert(), cli.NewPlan(), cli.NewExplain(), cli.NewTop(), cli.NewDecisions(), cli.NewDashboard(), cli.NewImport("test"), local.NewCommand())
	os.Exit(m.Run())
}

// reader is somebody at a shell.
type reader struct {
	t   *testing.T
	dir string
	env []string
}

// newReader makes a folder with what the repository has at its top, and the programs in bin.
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
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	program.Place(t, bin)
	for to, from := range map[string]string{
		"bin/kubectl": kube, "bin/kube": kube, "bin/helm": filepath.Join(root, "bin", "helm"),
		"examples": filepath.Join(root, "examples"), "deploy": filepath.Join(root, "deploy"), "charts": filepath.Join(root, "charts"),
	} {
		if err := os.Symlink(from, filepath.Join(dir, filepath.FromSlash(to))); err != nil {
			t.Fatal(err)
		}
	}
	return &reader{t: t, dir: dir, env: []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir()}}
}

// startCluster starts one as "make local" does.
func (r *reader) startCluster() {
	t := r.t
	t.Helper()
	kube, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := local.Start(t.Context(), local.Options{
		Binary: kube, Dir: filepath.Join(t.TempDir(), "cluster"), ClusterName: "my-cluster", Region: "us-west-2", BootTime: time.Second,
		Program: filepath.Join(r.dir, "bin", "karpenter"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	r.env = append(r.env, "KUBECONFIG="+cluster.Kubeconfig, "AWS="+cluster.AWSURL,
		"AWS_ENDPOINT_URL="+cluster.AWSURL, "AWS_REGION=us-west-2", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_PAGER=", "AWS_EC2_METADATA_DISABLED=true")
}

var (
	// What is followed for as long as one likes is looked at once.
	forever = regexp.MustCompile(`(?m) (?:--watch|-f)(\s*(?:#.*)?)$`)
	// A line with an ellipsis is filled in by what the reader has before him.
	filledIn = regexp.MustCompile(`(?m)^.*…[^\n]*$`)
)

// looks is how often a description is asked for: kubectl lists objects and then reads each, and fails if one has gone in between, as nodes
// do that are consolidated just then.
const looks = 3

func (r *reader) run(b blocks.Block) {
	text := filledIn.ReplaceAllString(forever.ReplaceAllString(b.Text, "$1"), "")
	var out string
	var err error
	for range looks {
		out, err = r.try(text)
		if err == nil || !strings.Contains(text, "kubectl describe") || !strings.Contains(out, "(NotFound)") {
			break
		}
	}
	if err != nil {
		r.t.Errorf("%s:%d: %v\n%s\n%s", b.Page, b.Line, err, text, out)
	}
	r.t.Logf("%s:%d\n%s", b.Page, b.Line, out)
}

// try runs commands once.
func (r *reader) try(text string) (string, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	cmd.Dir, cmd.Env, cmd.WaitDelay = r.dir, r.env, time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// TestGuides follows the pages.
func TestGuides(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster; not with -short")
	}
	t.Parallel()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t)
	r.startCluster()
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
					(&reader{t: t, dir: r.dir, env: r.env}).run(b)
				}
			}
		})
	}
	if count < 10 {
		t.Errorf("%d blocks were run", count)
	}
	t.Run("karpenter dashboard", (&reader{t: t, dir: r.dir, env: r.env}).dashboard)
}

// dashboard starts the dashboard as somebody would, and looks at the data that the page asks for.
func (r *reader) dashboard(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), filepath.Join(r.dir, "bin", "karpenter"), "dashboard", "--open=false")
	cmd.Dir, cmd.Env, cmd.Stderr = r.dir, r.env, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	at := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(line)
	if at == "" {
		t.Fatalf("it says %q (%v), and no address", line, err)
	}
	for path, want := range map[string]string{"/": "<html", "/api/v1/fleet": `"nodes":`, "/api/v1/decisions?kind=Plan": `"kind":"Plan"`} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v, and no %s in %.200s", path, response.Status, err, want, body)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted, it ends with %v", err)
	}
}
