package local

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/test/harness"
)

// command is a running `karpenter local`.
type command struct {
	*exec.Cmd
	kube     client.Client
	endpoint string
	awsURL   string
}

// start runs the command in a folder until it says that the cluster is ready.
func start(t *testing.T, dir string, flags ...string) *command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	c := &command{Cmd: exec.Command(self, append([]string{"local", "--dir", dir, "--kube", binary, "--boot-time", "0s", "--no-defaults"}, flags...)...)}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	address := regexp.MustCompile(`^http://127\.0\.0\.1:\d+`) // of the AWS simulator; the dashboard's is within a line
	lines := bufio.NewScanner(out)
	for lines.Scan() && c.awsURL == "" {
		c.awsURL = address.FindString(lines.Text())
	}
	if c.awsURL == "" {
		t.Fatal("the command ended before the cluster was ready")
	}
	go func() {
		for lines.Scan() { // nothing may wait for a reader
		}
	}()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	if c.kube, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	c.endpoint = config.Host
	return c
}

// children are the process ids of all that a process has started.
func children(t *testing.T, parent int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Skip("this computer does not tell which process started which")
	}
	var found []int
	for _, file := range stats {
		if text, err := os.ReadFile(file); err == nil {
			fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if fields[1] == strconv.Itoa(parent) {
				found = append(found, pid)
			}
		}
	}
	return found
}

// qpsOf are the limits of requests that processes were started with.
func qpsOf(t *testing.T, pids []int) (limits []string) {
	t.Helper()
	for _, pid := range pids {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, arg := range strings.Split(string(line), "\x00") {
			if strings.HasPrefix(arg, "--kube-api-") {
				limits = append(limits, arg)
			}
		}
	}
	slices.Sort(limits)
	return limits
}

// gone tells that a process has ended, though perhaps nobody has taken note.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func instances(t *testing.T, api *ec2.Client) []string {
	t.Helper()
	out, err := api.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, reservation := range out.Reservations {
		for _, instance := range reservation.Instances {
			ids = append(ids, *instance.InstanceId)
		}
	}
	slices.Sort(ids)
	return ids
}

// The cluster of the other tests runs beside these.
func TestItCanBeStoppedKilledAndResumed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "second")
	first := start(t, dir)
	id := launch(t.Context(), t, ec2Client(first.awsURL), first.endpoint, "kept", "m5.large")
	node := nodeOf(t, first.kube, id)
	pod := podOn("kept", "kept")
	if err := first.kube.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	eventually(t, first.kube, pod, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	had := instances(t, ec2Client(first.awsURL))
	started := children(t, first.Process.Pid)
	if len(started) != 6 { // etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok, controller
		t.Errorf("%d children, want 6", len(started))
	}
	if limits := qpsOf(t, started); limits != nil {
		t.Errorf("kube-controller-manager and kube-scheduler have %q, want Kubernetes' own limits", limits)
	}
	if err := first.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	for _, pid := range started {
		if !gone(pid) {
			t.Errorf("process %d has outlived Ctrl-C", pid)
		}
	}

	second := start(t, dir, "--kube-qps", "77")
	again := nodeOf(t, second.kube, id)
	if again.UID != node.UID {
		t.Errorf("after a restart node %s is another one", node.Name)
	}
	kept := podOn("kept", "kept")
	if err := second.kube.Get(t.Context(), client.ObjectKeyFromObject(kept), kept); err != nil || kept.UID != pod.UID || kept.Status.Phase != corev1.PodRunning {
		t.Errorf("after a restart the pod is %s (%v), want the same one running", kept.Status.Phase, err)
	}
	if has := instances(t, ec2Client(second.awsURL)); !slices.Equal(has, had) {
		t.Errorf("after a restart instances %v, before %v", has, had)
	}
	started = children(t, second.Process.Pid)
	if limits, want := qpsOf(t, started), []string{"--kube-api-burst=154", "--kube-api-burst=154", "--kube-api-qps=77", "--kube-api-qps=77"}; !slices.Equal(limits, want) {
		t.Errorf("kube-controller-manager and kube-scheduler have %q, want %q", limits, want)
	}
	if err := second.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = second.Wait()
	for _, pid := range started {
		until(t, fmt.Sprintf("process %d to end with its parent", pid), func() bool { return gone(pid) })
	}
}
