// Package robust holds the real program to the rules of the simulator: one to three processes of it, on the real API server and the AWS
// simulator, each behind a proxy that delays, cuts and refuses, while processes are killed and stopped. What happens is taken from the API
// server's audit log and from what passes on the way to AWS, and judged by the code that judges simulated clusters.
package robust

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/cloud/simaws/catalog"
	"karpenter/internal/local"
	"karpenter/internal/local/plane"
	"karpenter/internal/sim"
	"karpenter/test/harness"
)

const (
	region = "us-west-2"
	// calm is how long the cluster may take to put itself right. An instance that no claim has is ended after two looks, two minutes
	// apart, and a look at far fewer claims than before counts for nothing.
	calm = 9 * time.Minute
	// glance is how often something is looked at that is waited for.
	glance = 200 * time.Millisecond
	// budget is how many nodes may be disrupted at once, in every test.
	budget = 8
)

var (
	long  = flag.Bool("long", false, "run the tests to their full length, which takes hours")
	share = flag.Float64("share", 1, "with -long, how much of the full length: 0.1 is a tenth")
	seed  = flag.Uint64("seed", 7, "what is drawn; to play the shares of a test beside each other")
)

// length is how often or how long something is done.
func length(short, full int) int {
	if !*long {
		return short
	}
	return max(short, int(float64(full)**share))
}

// world is a cluster with the whole product, one workload, and its history.
type world struct {
	*local.Cluster
	t       *testing.T
	kube    *proxy
	cloud   *proxy
	history *history
	random  *rand.Rand
	peers   peers
	system  map[string]bool // instances that were there before
	calmed  time.Time
}

// options say what cluster a test needs.
type options struct {
	// replicas is how many processes the controller has; if they elect a leader, also when it is one.
	replicas int
	elect    bool
	// after is consolidateAfter of the pool; limit its vCPUs.
	after karpv1.NillableDuration
	limit string
}

// slots has room for as many clusters as run at once: each takes about a core while it starts.
var slots = make(chan struct{}, 2)

// newWorld starts a cluster and begins to judge what happens in it.
func newWorld(t *testing.T, opts options) *world {
	t.Helper()
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	kube, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	karpenter := filepath.Join(root, "bin", "karpenter")
	if _, err := os.Stat(karpenter); err != nil {
		t.Fatalf("%v; run make build", err)
	}
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, random: rand.New(rand.NewPCG(*seed, 0)), history: &history{last: map[string]string{}}, system: map[string]bool{}}
	w.history.judge = sim.NewJudge(func(name string) int { return types.Type(name).VCPUs }, time.Minute)
	w.history.judge.SetBudget("default", budget)
	dir := filepath.Join(t.TempDir(), "cluster")
	policy := filepath.Join(t.TempDir(), "audit.yaml")
	w.must(os.WriteFile(policy, []byte(auditPolicy), 0o600))
	following, end := context.WithCancel(context.Background())
	followed := make(chan error, 1)
	go func() { followed <- w.history.follow(following, filepath.Join(dir, "logs", "audit.log")) }()
	settings := map[string]string{"DISABLE_LEADER_ELECTION": fmt.Sprint(!opts.elect)}
	cluster, err := local.Start(t.Context(), local.Options{
		Binary: kube, Dir: dir, ClusterName: "my-cluster", Region: region, BootTime: 3 * time.Second, Program: karpenter, Settings: settings,
		AuditPolicy: policy, Proxy: w.between,
	})
	if err != nil {
		end()
		t.Fatal(err)
	}
	w.Cluster = cluster
	w.history.looks(func(key client.ObjectKey, object client.Object) error {
		return cluster.Client.Get(context.Background(), key, object)
	})
	t.Cleanup(func() {
		log := cluster.LogTail(60)
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
		w.kube.close()
		w.cloud.close()
		end()
		if err := <-followed; err != nil {
			t.Error(err)
		}
		w.judged()
		w.noPanics(dir)
		if t.Failed() {
			t.Logf("the end of the controller's log:\n%s", log)
		}
	})
	for id := range w.alive() {
		w.system[id] = true
	}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	w.must(cluster.Client.Patch(t.Context(), pool, client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"spec":{"limits":{"cpu":%q,"memory":null},"disruption":{"consolidateAfter":%q,"budgets":[{"nodes":"%d"}]}}}`, opts.limit, opts.after.String(), budget))))
	w.must(cluster.Client.Create(t.Context(), workload()))
	if opts.elect {
		w.replicate(opts.replicas)
	}
	return w
}

// noPanics looks for panics in the logs of pods (S13): the controller survives them, so that nothing else would tell.
func (w *world) noPanics(dir string) {
	w.t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "pods", "*", "log*"))
	if err != nil || len(logs) == 0 {
		w.t.Errorf("there are no logs of pods to look for panics in: %v", err)
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			w.t.Error(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "panic") {
				w.t.Errorf("S13: the controller has panicked: %s", line)
			}
		}
	}
}

// between puts proxies before the API server and AWS.
func (w *world) between(kube *plane.Plane, aws string) (kubeURL, awsURL string, err error) {
	cert, err := tls.LoadX509KeyPair(kube.ServingPair())
	if err != nil {
		return "", "", err
	}
	config := rest.AnonymousClientConfig(kube.Config) // requests carry the tokens of who has sent them
	config.TLSClientConfig.NextProtos = []string{"h2", "http/1.1"}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return "", "", err
	}
	if w.kube, err = newProxy(kube.Endpoint(), transport, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}); err != nil {
		return "", "", err
	}
	status := func(code int, reason string) string {
		text, _ := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: metav1.StatusReason(reason), Message: "by order of a test"})
		return string(text)
	}
	w.kube.tooMany, w.kube.broken = status(http.StatusTooManyRequests, "TooManyRequests"), status(http.StatusServiceUnavailable, "ServiceUnavailable")
	if w.cloud, err = newProxy(aws, &http.Transport{MaxIdleConnsPerHost: 100}, nil); err != nil {
		return "", "", err
	}
	failure := func(code string) string {
		return "<Response><Errors><Error><Code>" + code + "</Code><Message>by order of a test</Message></Error></Errors><RequestID>test</RequestID></Response>"
	}
	w.cloud.tooMany, w.cloud.broken = failure("RequestLimitExceeded"), failure("InternalError")
	w.cloud.before = func(body []byte, conn net.Conn) any {
		a := &asked{body: body}
		if !a.writes() {
			return a
		}
		if a.process = "controller"; w.Cluster != nil {
			a.process = w.peers.of(conn, w.Controllers())
		}
		a.lived = map[string]bool{}
		for _, in := range glimpses(w.t, w.aws()) {
			a.lived[in.ID] = in.State == "pending" || in.State == "running"
		}
		return a
	}
	w.cloud.after = func(seen any) {
		if a := seen.(*asked); a.shows() && w.Cluster != nil {
			w.history.call(a, glimpses(w.t, w.aws()))
		}
	}
	return w.kube.url, w.cloud.url, nil
}

func (w *world) aws() *simaws.Sim { return w.Cluster.AWS }

// replicate has the controller run as so many processes, on the one system node.
func (w *world) replicate(n int) {
	w.t.Helper()
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "karpenter"}
	w.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		d := &appsv1.Deployment{}
		if err := w.Client.Get(w.t.Context(), key, d); err != nil {
			return err
		}
		spec := &d.Spec.Template.Spec
		d.Spec.Replicas, d.Spec.Strategy = new(int32(n)), appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		spec.Affinity.PodAntiAffinity, spec.TopologySpreadConstraints = nil, nil
		spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
		return w.Client.Update(w.t.Context(), d)
	}))
	w.until("the controller's processes are ready", func() bool {
		d := &appsv1.Deployment{}
		w.must(w.Client.Get(w.t.Context(), key, d))
		return d.Status.ObservedGeneration == d.Generation && d.Status.ReadyReplicas == int32(n) && d.Status.UpdatedReplicas == int32(n) && len(w.Controllers()) == n
	})
}

// leader is the pod that has the lease, "" for none.
func (w *world) leader() string {
	lease := &coordinationv1.Lease{}
	if err := w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: leaseName}, lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return name
}

// workload is a Deployment whose pods take a core each, and a moment to end.
func workload() *appsv1.Deployment {
	labels := map[string]string{"app": "swing"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "swing"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: new(int64(1)),
				Containers: []corev1.Container{{
					Name: "main", Image: "registry.k8s.io/pause:3.10",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
				}},
			}},
		},
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// scale changes how many pods there shall be.
func (w *world) scale(replicas int) {
	w.t.Helper()
	w.must(w.tryScale(replicas))
}

func (w *world) tryScale(replicas int) error {
	return w.Client.Patch(w.t.Context(), workload(), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)))
}

// kill ends all processes of the controller, which are started again.
func (w *world) kill() {
	w.t.Helper()
	for w.KillController() != nil { // it is on its way up
		w.pause(glance)
	}
}

// deleteClaim has a user delete one of the claims.
func (w *world) deleteClaim() {
	w.t.Helper()
	var list karpv1.NodeClaimList
	w.must(w.Client.List(w.t.Context(), &list))
	if len(list.Items) > 0 {
		w.must(client.IgnoreNotFound(w.Client.Delete(w.t.Context(), &list.Items[w.random.IntN(len(list.Items))])))
	}
}

// alive are the instances that have not ended.
func (w *world) alive() map[string]bool {
	list, err := w.AWS.Instances(region)
	if err != nil {
		w.t.Error(err)
	}
	ids := map[string]bool{}
	for i := range list {
		if state := list[i].State; (state == "pending" || state == "running") && !w.system[list[i].ID] {
			ids[list[i].ID] = true
		}
	}
	return ids
}

// settled says what is still wrong, or nothing: every pod runs, every claim has its instance and every instance its claim.
func (w *world) settled(replicas int) string {
	var claims karpv1.NodeClaimList
	var pods corev1.PodList
	if err := w.Client.List(w.t.Context(), &claims); err != nil {
		return err.Error()
	}
	if err := w.Client.List(w.t.Context(), &pods, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return err.Error()
	}
	running := 0
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == corev1.PodRunning && pods.Items[i].DeletionTimestamp == nil {
			running++
		}
	}
	if running != replicas || len(pods.Items) != replicas {
		return fmt.Sprintf("%d of %d pods run, %d should", running, len(pods.Items), replicas)
	}
	alive := w.alive()
	for i := range claims.Items {
		id := claims.Items[i].Status.ProviderID
		id = id[strings.LastIndexByte(id, '/')+1:]
		if !alive[id] {
			return fmt.Sprintf("NodeClaim %s has no living instance but %q", claims.Items[i].Name, id)
		}
		delete(alive, id)
	}
	if len(alive) > 0 {
		return fmt.Sprintf("instances without a NodeClaim: %v", slices.Sorted(maps.Keys(alive)))
	}
	return ""
}

// awaitSettled waits until nothing is wrong any more.
func (w *world) awaitSettled(replicas int) time.Duration {
	w.t.Helper()
	began, wrong := time.Now(), "?"
	for wrong != "" {
		if wrong = w.settled(replicas); wrong != "" && time.Since(began) > calm {
			w.t.Fatalf("after %v of calm: %s", calm, wrong)
		}
		w.pause(glance)
	}
	w.calmed = began
	return time.Since(began)
}

// judged says what the judge has found in the whole history.
func (w *world) judged() {
	w.t.Helper()
	h := w.history
	found := h.judge.End(time.Now(), w.calmed)
	for _, b := range found {
		w.t.Errorf("%s %v", b.At.Format("15:04:05.000"), b)
	}
	w.t.Logf("history: %d events, %d writes and %d calls of the controller; %s; API server %s; AWS %s; %d breaches", h.seen, h.writes, h.calls, h.judge.Summary(), w.kube.counts(), w.cloud.counts(), len(found))
	if h.unknown > 0 {
		w.t.Logf("of %d calls it is not known which process made them", h.unknown)
	}
	if h.tookEffect > 0 {
		w.t.Logf("%d writes took effect, or may have, although the API server could not answer", h.tookEffect)
	}
	if h.writes == 0 || h.calls == 0 {
		w.t.Error("the history has nothing of the controller: nothing was judged")
	}
}

// pause lets the cluster go on for a while.
func (w *world) pause(d time.Duration) {
	w.t.Helper()
	select {
	case <-time.After(d):
	case <-w.t.Context().Done():
		w.t.Fatal("interrupted")
	}
}

// until waits for something to come true.
func (w *world) until(what string, done func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for !done() {
		if time.Since(began) > calm {
			w.t.Fatalf("it did not come to this in %v: %s", calm, what)
		}
		w.pause(glance / 2)
	}
	return time.Since(began)
}

// acted waits for what the controller does next, of a process or of any, and says when that was; false if it is not soon.
func (w *world) acted(since time.Time, process string, soon time.Duration) (time.Duration, bool) {
	w.t.Helper()
	for time.Since(since) < soon {
		if at, ok := w.history.next(since, process); ok {
			return at.Sub(since), true
		}
		w.pause(glance)
	}
	return 0, false
}

// freeze stops a process for a while.
func (w *world) freeze(pid int, d time.Duration) {
	w.t.Helper()
	w.must(syscall.Kill(pid, syscall.SIGSTOP))
	defer func() {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && err != syscall.ESRCH {
			w.t.Error(err)
		}
	}()
	w.pause(d)
}

// quantile is the value that a share of those measured are not above.
func quantile(of []time.Duration, share float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))].Round(10 * time.Millisecond)
}
