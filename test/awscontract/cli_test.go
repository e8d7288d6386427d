package awscontract

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"karpenter/internal/cloud/simaws/catalog"
)

// requireCLI, when set in the environment, turns the lack of the aws command
// from a skipped test into a failed one. The make target sets it.
const requireCLI = "KARPENTER_TEST_AWSCLI"

// findCLI finds the aws command.
func findCLI() string {
	path, err := exec.LookPath("aws")
	if err != nil {
		return ""
	}
	return path
}

// scriptTime is how long a script may take; each aws command takes a second of
// processor time, and computers are busy.
const scriptTime = 10 * time.Minute

// runScript runs a shell script of testdata with the aws command against a
// world, and fails the test with its output when a command fails.
func runScript(t *testing.T, w *world, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a script of aws commands takes a minute; not with -short")
	}
	if findCLI() == "" {
		if os.Getenv(requireCLI) != "" {
			t.Fatal("the aws command is missing; on Debian: apt-get install -y awscli")
		}
		t.Skip("the aws command is missing; on Debian: apt-get install -y awscli")
	}
	dir := t.TempDir()
	// A command of the same name that passes the endpoint on as an option,
	// because versions before 2.13 do not read AWS_ENDPOINT_URL and version 1
	// ignores it for SQS. The scripts stay as they are.
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	command := realCLI()
	if address := cliServer(); address != "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		command = "env " + socketVariable + "=" + address + " " + self
	}
	wrapper := "#!/bin/sh\nexec " + command + ` --endpoint-url "$AWS_ENDPOINT_URL" "$@"` + "\n"
	if err := os.WriteFile(filepath.Join(bin, "aws"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", script)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "AWS_ENDPOINT_URL=" + w.url, "AWS_REGION=us-west-2", "AWS_DEFAULT_REGION=us-west-2",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_PAGER=", "AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1",
		"TESTDATA=" + filepath.Dir(script), "GOCACHE=" + goEnv(t, "GOCACHE"), "GOMODCACHE=" + goEnv(t, "GOMODCACHE"), "PYENV_ROOT=" + os.Getenv("PYENV_ROOT"),
	}
	if root := os.Getenv("HOME"); os.Getenv("PYENV_ROOT") == "" {
		cmd.Env = append(cmd.Env, "PYENV_ROOT="+root+"/.pyenv")
	}
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", name, err, out.String(), problems.String())
	}
	return out.String()
}

// goEnv is a setting of the go command, for scripts that build something under
// a home directory of their own.
func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestCLIGettingStarted runs the AWS commands of a published getting-started
// text as they stand.
func TestCLIGettingStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "cli", nil)
	got := runScript(t, w, "getting-started.sh")
	for _, want := range []string{"account 111122223333", "https://", "KarpenterNodeRole-my-cluster", "subnets my-cluster my-cluster", "group my-cluster"} {
		if !strings.Contains(got, want) {
			t.Errorf("output lacks %q:\n%s", want, got)
		}
	}
}

// TestCLICloudFormation deploys a stack by the command of a published
// walk-through, and updates and deletes it.
func TestCLICloudFormation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "cli", nil)
	got := runScript(t, w, "cloudformation.sh")
	for _, want := range []string{
		"status CREATE_COMPLETE", "role KarpenterNodeRole-production", "queue arn:aws:sqs:eu-west-2:111122223333:production", ".eu-west-2.eks.amazonaws.com", "retention 300",
		"rules 5", "No changes to deploy", "status UPDATE_COMPLETE", "retention 600", "does not exist", "rolled back ROLLBACK_COMPLETE",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("output lacks %q:\n%s", want, got)
		}
	}
}

// TestCLIRefreshesTheCatalogue refreshes a region of the catalogue from a live
// account, which here is a world made of that catalogue: nothing may change
// but the spot prices, which move. An aws command that is too old for the
// purpose, such as Debian 12's, is refused instead of losing fields.
func TestCLIRefreshesTheCatalogue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "cli", nil)
	got := runScript(t, w, "catalogue.sh")
	if strings.Contains(got, "the aws command is too old") {
		t.Logf("refused, as it should: %s", strings.TrimSpace(got))
		return
	}
	old, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	types, tables, _ := strings.Cut(got, "-- us-west-2\n")
	fresh, err := catalog.ParseTypes(types)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(old.Types, fresh); d != "" {
		t.Error(d)
	}
	was, err := old.Region("us-west-2")
	if err != nil {
		t.Fatal(err)
	}
	now, err := catalog.ParseRegion("us-west-2", tables)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(was.Zones, now.Zones); d != "" || len(was.Offers) != len(now.Offers) {
		t.Fatalf("%d offers became %d; zones %s", len(was.Offers), len(now.Offers), d)
	}
	for i, o := range now.Offers {
		if p := was.Offers[i]; o.Type != p.Type || o.ZoneMask != p.ZoneMask || o.OnDemand != p.OnDemand || o.Spot > 1.5*p.Spot || o.Spot < 0.5*p.Spot {
			t.Errorf("%+v became %+v", p, o)
		}
	}
}

// TestCLIOperations drives everything else, a service per script.
func TestCLIOperations(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ec2-describe", "ec2-launch", "ec2-capacity", "iam", "messages", "clusters", "groups"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "cli", nil)
			got := runScript(t, w, name+".sh")
			if !strings.HasSuffix(strings.TrimSpace(got), "done") {
				t.Errorf("the script did not come to its end:\n%s", got)
			}
			fmt.Fprintln(t.Output(), got)
		})
	}
}
