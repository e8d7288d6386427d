package plane

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// orphanEnv turns this test binary into a program that starts a plane in the named folder and waits to be killed.
const orphanEnv = "PLANE_TEST_ORPHAN_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(orphanEnv); dir != "" {
		p, err := Start(context.Background(), Options{Binary: binary(), Dir: dir})
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		for _, pid := range p.Pids() {
			fmt.Println(pid)
		}
		fmt.Println("ready")
		select {}
	}
	os.Exit(m.Run())
}

func binary() string {
	if file := os.Getenv("KARPENTER_KUBE_BINARY"); file != "" {
		return file
	}
	file, err := filepath.Abs("../../../bin/kube")
	if err != nil {
		panic(err)
	}
	return file
}

// A program that is told of a feature that it does not know refuses to start.
func TestFeaturesThatAProgramDoesNotKnowAreLeftOut(t *testing.T) {
	t.Parallel()
	p := &Plane{opts: Options{Binary: binary()}}
	for _, c := range []struct {
		features []string
		want     []string
	}{
		{[]string{"NoSuchFeature", "APIResponseCompression"}, []string{"--feature-gates=APIResponseCompression=false"}},
		{[]string{"NoSuchFeature"}, nil},
	} {
		if got, err := p.without(t.Context(), "kube-apiserver", c.features...); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v, want %q", c.features, got, err, c.want)
		}
	}
}

func TestTwoPlanesSideBySide(t *testing.T) {
	t.Parallel()
	var wait sync.WaitGroup
	for i := range 2 {
		wait.Go(func() {
			p, err := Start(t.Context(), Options{Binary: binary(), Dir: t.TempDir()})
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Stop()
			clients, err := kubernetes.NewForConfig(p.Config)
			if err != nil {
				t.Error(err)
				return
			}
			name := "only-in-" + strconv.Itoa(i)
			if _, err := clients.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			if _, err := clients.CoreV1().Namespaces().Get(t.Context(), "only-in-"+strconv.Itoa(1-i), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the other plane's namespace: %v, want not found", err)
			}
		})
	}
	wait.Wait()
}

func TestWholePlaneJudgesAPod(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, err := Start(t.Context(), Options{Binary: binary(), Dir: dir, Controllers: true, Scheduler: true, ControllersQPS: 40})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	for _, child := range p.processes { // Kubernetes' own limits, unless others are asked for
		if limits := strings.Contains(strings.Join(child.cmd.Args, " "), "--kube-api-qps"); limits != (child.name == "kube-controller-manager") {
			t.Errorf("%s is started with %q", child.name, child.cmd.Args)
		}
	}
	clients, err := kubernetes.NewForConfig(p.Config)
	if err != nil {
		t.Fatal(err)
	}

	version, err := clients.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), binary(), "kube-apiserver", "--version").Output()
	if want := strings.TrimSpace(strings.TrimPrefix(string(said), "Kubernetes ")); err != nil || version.GitVersion != want || !strings.HasPrefix(want, "v"+version.Major+"."+version.Minor+".") {
		t.Errorf("server version %+v, want %s, %v", version, want, err)
	}

	config, err := p.UserConfig("stranger", "nobodies")
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without a role lists secrets: %v, want forbidden", err)
	}

	// A pod that the scheduler has judged is one that admission, controllers (its service account) and scheduler have
	// all seen.
	watcher, err := clients.CoreV1().ServiceAccounts("default").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=default"})
	if err != nil {
		t.Fatal(err)
	}
	<-watcher.ResultChan()
	watcher.Stop()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lonely"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
	if _, err := clients.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods, err := clients.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()
	timeout := time.After(5 * time.Minute)
	for {
		select {
		case event := <-pods.ResultChan():
			for _, condition := range event.Object.(*corev1.Pod).Status.Conditions {
				if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
					return
				}
			}
		case <-timeout:
			t.Fatal("the scheduler did not judge the pod")
		}
	}
}

func TestKwokMakesANodeReady(t *testing.T) {
	t.Parallel()
	p, err := Start(t.Context(), Options{Binary: binary(), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	config, err := filepath.Abs("testdata/kwok.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run("kwok", "--kubeconfig="+p.Kubeconfig, "--config="+config); err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(p.Config)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "pretended", Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}}}
	if _, err := clients.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	nodes, err := clients.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.Stop()
	timeout := time.After(5 * time.Minute)
	for {
		select {
		case event := <-nodes.ResultChan():
			for _, condition := range event.Object.(*corev1.Node).Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					return
				}
			}
		case <-timeout:
			t.Fatalf("kwok did not make the node ready:\n%s", tail(filepath.Join(p.opts.Dir, "logs", "kwok.log"), 20))
		}
	}
}

func TestRestartKeepsDataAndAuthority(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for round := range 2 {
		p, err := Start(t.Context(), Options{Binary: binary(), Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		clients, err := kubernetes.NewForConfig(p.Config)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			_, err = clients.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
		} else {
			_, err = clients.CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{})
		}
		p.Stop()
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

func TestChildrenEndWhenTheParentIsKilled(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), orphanEnv+"="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var children []int
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
		pid, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil {
			t.Fatalf("the parent said %q", lines.Text())
		}
		children = append(children, pid)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	if len(children) != 2 {
		t.Fatalf("%d children, want etcd and kube-apiserver", len(children))
	}
	deadline := time.Now().Add(time.Minute)
	for _, pid := range children {
		for syscall.Kill(pid, 0) == nil && !zombie(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("child %d outlived its parent", pid)
			}
			time.Sleep(20 * time.Millisecond) // another process's end cannot be watched
		}
	}
}

// zombie tells a process that has ended but that nobody has reaped, as happens where process 1 is not an init.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestPortsAreKept(t *testing.T) {
	dir := t.TempDir()
	first, err := Ports(dir, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	again, err := Ports(dir, "b", "a")
	if err != nil {
		t.Fatal(err)
	}
	if again[0] != first[1] || again[1] != first[0] {
		t.Errorf("first %v, then in the other order %v", first, again)
	}
	taken, err := Listen(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	other, err := Ports(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	if other[0] == first[0] {
		t.Errorf("port %d was given although it is taken", other[0])
	}
	for _, port := range append(first, other[0]) {
		if port < firstPort || port > lastPort {
			t.Errorf("port %d may be given to any program before ours binds it", port)
		}
	}
}

func TestStartSaysWhatIsMissing(t *testing.T) {
	_, err := Start(t.Context(), Options{Binary: filepath.Join(t.TempDir(), "kube"), Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "make kube") {
		t.Errorf("got %v, want an error that names the command that builds it", err)
	}
}
