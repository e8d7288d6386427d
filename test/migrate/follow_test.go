package migrate

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"karpenter/test/blocks"
	"karpenter/test/harness"
	"karpenter/test/harness/program"
	"karpenter/test/harness/simcloud"
)

// reader is somebody who follows the documentation, in a folder of his own.
type reader struct {
	cluster *harness.Cluster
	world   *simcloud.World
	dir     string
}

// follow runs the blocks of a page of docs/operate that name the test, word for word, and returns what they print.
func follow(t *testing.T, r reader, page, test string) string {
	t.Helper()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	texts, err := blocks.Of(filepath.Join(root, "docs", "operate", page), test)
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	program.Place(t, bin)
	kube, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kube, filepath.Join(bin, "kubectl")); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, text := range texts {
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", text)
		cmd.Dir, cmd.WaitDelay = r.dir, time.Second
		cmd.Env = []string{
			"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "KUBECONFIG=" + r.cluster.Kubeconfig,
			"AWS_ENDPOINT_URL=" + aws.ToString(r.world.Config.BaseEndpoint), "AWS_REGION=" + r.world.Config.Region,
			"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true",
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s\n%s", page, err, text, out.String())
		}
		all.Write(out.Bytes())
	}
	return all.String()
}
