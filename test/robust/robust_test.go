package robust

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/aws"
	"karpenter/internal/cloud/simaws"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // controller-runtime's own; without one it complains
	os.Exit(m.Run())
}

// foreignKey is what somebody else puts on our objects; the rules know it.
const foreignKey = "example.com/foreign"

// some is a share of requests that go wrong on their way.
var some = trouble{delay: 50 * time.Millisecond, unsent: 0.01, unanswered: 0.01, tooMany: 0.01, broken: 0.01}

// TestT1_Killed kills the controller while load swings, claims are deleted, and a share of its requests to the API server and to AWS is
// late, cut off or refused: no instance is left over or launched twice, and soon after the last time everything is in order.
func TestT1_Killed(t *testing.T) {
	t.Parallel()
	kills, most := length(20, 1000), 60
	if *long {
		most = 300
	}
	w := newWorld(t, options{after: karpv1.NewNillableDuration(0), limit: fmt.Sprint(most + 100)})
	w.kube.make(some)
	w.cloud.make(some)
	var takes []time.Duration
	for i := range kills {
		w.scale(w.random.IntN(most + 1))
		if i%3 == 2 {
			w.deleteClaim()
		}
		w.pause(200*time.Millisecond + time.Duration(w.random.Int64N(int64(4*time.Second))))
		w.kill()
		if i%10 == 9 { // how long until it does something again
			at := time.Now()
			w.ask(i / 10)
			took, ok := w.acted(at, "", 30*time.Second)
			if !ok {
				t.Errorf("kill %d: the controller has done nothing for 30 s", i)
			}
			takes = append(takes, took)
		}
	}
	w.kube.make(trouble{})
	w.cloud.make(trouble{})
	w.askNoMore()
	w.scale(24)
	took := w.awaitSettled(24)
	t.Logf("| T1 SIGKILLs, 0 to %d pods | %d | first act after a kill: median %v, p99 %v; all in order %.0f s after the last |", most, kills, quantile(takes, 0.5), quantile(takes, 0.99), took.Seconds())
}

// ask adds a pod, in the place of the last one, for which there is no node yet: it runs on one instance type only.
func (w *world) ask(n int) {
	w.t.Helper()
	types := []string{"c5.large", "m5a.xlarge", "r5.xlarge", "c6i.large", "m6a.xlarge", "r6i.xlarge", "c7a.large", "m7i.xlarge", "r7a.xlarge", "m5d.large"}
	w.askNoMore()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprint("probe-", n), Labels: map[string]string{"app": "probe"}}, Spec: *workload().Spec.Template.Spec.DeepCopy()}
	pod.Spec.NodeSelector = map[string]string{corev1.LabelInstanceTypeStable: types[n%len(types)]}
	w.must(w.Client.Create(w.t.Context(), pod))
}

// askNoMore deletes what ask has added, one by one, as the audit log has it.
func (w *world) askNoMore() {
	w.t.Helper()
	var pods corev1.PodList
	w.must(w.Client.List(w.t.Context(), &pods, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": "probe"}))
	for i := range pods.Items {
		w.must(client.IgnoreNotFound(w.Client.Delete(w.t.Context(), &pods.Items[i])))
	}
}

// TestT20_LeaderKilledAndStopped kills the leader of three processes, and stops it for longer than its lease lasts, so that it wakes up
// when another leads: nothing is done by who does not lead, and the next one takes over soon.
func TestT20_LeaderKilledAndStopped(t *testing.T) {
	t.Parallel()
	kills, stops, asleep := length(1, 200), length(1, 200), 18*time.Second
	if *long {
		asleep = time.Minute
	}
	w := newWorld(t, options{replicas: 3, elect: true, after: karpv1.NewNillableDuration(0), limit: "200"})
	var takes []time.Duration
	pods := 30
	next := func(do func(pid int) (ends bool)) {
		var leader string
		w.until("there is a leader", func() bool {
			leader = w.leader()
			return w.Controllers()[leader] != 0
		})
		w.pause(time.Duration(w.random.Int64N(int64(3 * time.Second))))
		at := time.Now()
		pods = 38 - pods
		w.scale(pods) // 8 and 30 in turn: something to do at once
		by := "-" + leader
		if ends := do(w.Controllers()[leader]); ends { // its container is started again, and may be the one that leads next
			at, by = time.Now(), ""
		}
		took, ok := w.acted(at, by, time.Minute)
		if !ok {
			t.Errorf("after %s nobody has done anything for a minute; %s leads", leader, w.leader())
		}
		takes = append(takes, took)
	}
	for range kills {
		next(func(pid int) bool {
			w.must(syscall.Kill(pid, syscall.SIGKILL))
			return true
		})
	}
	killed := takes
	takes = nil
	for range stops {
		w.sleeps(asleep, next)
		w.pause(3 * time.Second) // in which it may do harm
	}
	w.scale(12)
	w.awaitSettled(12)
	t.Logf("| T20 leader killed, 3 processes | %d | take-over to first act: median %v, p99 %v |", kills, quantile(killed, 0.5), quantile(killed, 0.99))
	t.Logf("| T20 leader stopped for %v or longer, 3 processes | %d | take-over to first act: median %v, p99 %v |", asleep, stops, quantile(takes, 0.5), quantile(takes, 0.99))
}

// sleeps stops the leader for a time, and until another one has acted.
func (w *world) sleeps(d time.Duration, next func(do func(pid int) (ends bool))) {
	w.t.Helper()
	began, leader := time.Now(), 0
	defer func() {
		if leader == 0 {
			return
		}
		if err := syscall.Kill(leader, syscall.SIGCONT); err != nil {
			w.t.Error(err)
		}
	}()
	next(func(pid int) bool {
		w.must(syscall.Kill(pid, syscall.SIGSTOP))
		began, leader = time.Now(), pid
		return false
	})
	w.pause(d - time.Since(began))
}

// TestT21_ClockIsSet sets the clock of the controller forth and back, while instances come up and while nothing happens: none of them is ended
// for being late, and none is launched twice.
func TestT21_ClockIsSet(t *testing.T) {
	if !clocks {
		t.Skip("how the clock of a process is set depends on the computer; here it is not known")
	}
	if !*long {
		t.Skip("takes more than a minute; -long runs it")
	}
	t.Parallel()
	times := length(1, 10)
	w := newWorld(t, options{after: karpv1.NeverDuration(), limit: "1000"})
	w.scale(8)
	w.awaitSettled(8)
	pods, before := 8, w.alive()
	for range times {
		for _, ahead := range []time.Duration{10 * time.Minute, -10 * time.Minute, 2 * time.Hour, 0} {
			pods += 16
			w.scale(pods)
			w.until("an instance comes up", func() bool { return len(w.alive()) > len(before) })
			began := w.alive()
			w.setClock(w.Pids()["controller"], ahead)
			w.awaitSettled(pods)
			w.keeps(began)
			w.pause(3 * time.Second) // in which what looks late may be ended
			w.keeps(began)
			before = w.alive()
		}
	}
	t.Logf("| T21 clock set by +10 min, -10 min, +2 h and back | %d times each | %d instances, 0 ended |", times, len(before))
}

// TestT13_APIServerAway takes the API server away again and again, has it refuse every connection, and makes it stutter: none of it is
// a reason to end an instance or the controller.
func TestT13_APIServerAway(t *testing.T) {
	t.Parallel()
	times, away := length(2, 20), 12*time.Second
	if *long {
		away = 10 * time.Minute
	}
	w := newWorld(t, options{replicas: 1, elect: true, after: karpv1.NeverDuration(), limit: "400"})
	w.scale(20)
	w.awaitSettled(20)
	var takes, own []time.Duration
	before, restarts := w.alive(), w.restarts()
	for i := range times {
		w.must(syscall.Kill(w.Controllers()[w.leader()], 0))
		if i%2 == 0 {
			w.freeze(w.Pids()["kube-apiserver"], away)
		} else {
			w.kube.make(trouble{unsent: 1})
			w.pause(away)
			w.kube.make(trouble{})
		}
		at := time.Now()
		w.until("the API server takes a write", func() bool { return w.tryScale(22+2*i) == nil })
		// The rest of the control plane was cut off as well, and may take its time.
		known := w.until("kube-scheduler has found pods unschedulable", w.unschedulable)
		took, ok := w.acted(at, "", known+time.Minute)
		if !ok {
			t.Errorf("pods are unschedulable for a minute and nothing has been done")
		}
		takes, own = append(takes, took), append(own, max(0, took-known))
		t.Logf("T13: the API server is back after %v; pods unschedulable after %v, first act after %v", away, known, took)
		w.awaitSettled(22 + 2*i)
	}
	w.pause(10 * time.Second) // what is wrong with the picture shows when it is acted upon
	w.keeps(before)
	if now := w.restarts(); now != restarts {
		t.Errorf("the controller was restarted %d times", now-restarts)
	}
	t.Logf("| T13 API server away for %v | %d | 0 instances ended; %d restarts; first act after its return: median %v, most %v; after pods were unschedulable: most %v |", away, times, w.restarts()-restarts, quantile(takes, 0.5), quantile(takes, 1), quantile(own, 1))
}

// unschedulable tells whether kube-scheduler has found a pod of the workload to be so.
func (w *world) unschedulable() bool {
	w.t.Helper()
	var pods corev1.PodList
	w.must(w.Client.List(w.t.Context(), &pods, client.InNamespace(metav1.NamespaceDefault)))
	return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		})
	})
}

// keeps fails if an instance of these has ended.
func (w *world) keeps(before map[string]bool) {
	w.t.Helper()
	after := w.alive()
	for id := range before {
		if !after[id] {
			w.t.Errorf("instance %s has ended", id)
		}
	}
}

// restarts is how often the controller's containers were started again.
func (w *world) restarts() (n int) {
	w.t.Helper()
	var pods corev1.PodList
	w.must(w.Client.List(w.t.Context(), &pods, client.InNamespace("kube-system"), client.MatchingLabels{"app.kubernetes.io/name": "karpenter"}))
	for i := range pods.Items {
		for j := range pods.Items[i].Status.ContainerStatuses {
			n += int(pods.Items[i].Status.ContainerStatuses[j].RestartCount)
		}
	}
	return n
}

// TestT8_NothingIsListed has AWS show no instances, then the API server forget the claims as a restored backup does, then a cluster of the same
// name begin beside this one: no instance is ended.
func TestT8_NothingIsListed(t *testing.T) {
	t.Parallel()
	pods, wait := length(24, 480), time.Duration(length(6, 600))*time.Second
	w := newWorld(t, options{after: karpv1.NeverDuration(), limit: "1000"})
	w.scale(pods)
	w.awaitSettled(pods)
	before := w.alive()

	w.must(w.AWS.AddFault(simaws.Fault{Kind: simaws.FaultEmpty, Action: "ec2:DescribeInstances", Percent: 100}))
	w.live(wait)
	w.keeps(before)
	w.AWS.ClearFaults()
	t.Logf("T8: AWS showed no instance for %v; %d of %d live", wait, len(w.alive()), len(before))

	ids := map[string]bool{}
	for range 5 {
		id, err := w.foreignInstance()
		w.must(err)
		ids[id] = true
		w.history.foreign(id)
	}
	w.live(wait)
	w.keeps(before)
	w.keeps(ids)
	t.Logf("T8: a cluster of the same name for %v; %d of %d live", wait, len(w.alive()), len(before)+len(ids))

	w.history.restored()
	w.forgetClaims()
	w.live(wait)
	w.keeps(before)
	w.keeps(ids)
	t.Logf("| T8 nothing listed, a cluster of the same name, forgotten NodeClaims, %v each | %d instances | %d live |", wait, len(before)+len(ids), len(w.alive()))
}

// live lets time pass, in the middle of which another process begins: the picture is the first that it sees, and it has seen it when this returns.
func (w *world) live(d time.Duration) {
	w.t.Helper()
	w.pause(d / 2)
	at := time.Now()
	w.kill()
	w.until("a new process lists the instances", func() bool { return w.history.listedAfter(at) })
	w.pause(d / 2)
}

// forgetClaims has the API server forget all claims while the controller does not look, as a restored backup does.
func (w *world) forgetClaims() {
	w.t.Helper()
	ctx := w.t.Context()
	pid := w.Pids()["controller"]
	w.must(syscall.Kill(pid, syscall.SIGSTOP))
	var claims karpv1.NodeClaimList
	w.must(w.Client.List(ctx, &claims))
	for i := range claims.Items {
		c := &claims.Items[i]
		before := c.DeepCopy()
		c.Finalizers = nil
		w.must(w.Client.Patch(ctx, c, client.MergeFrom(before)))
		w.must(client.IgnoreNotFound(w.Client.Delete(ctx, c, client.PropagationPolicy(metav1.DeletePropagationOrphan))))
	}
	w.must(syscall.Kill(pid, syscall.SIGKILL)) // the next one finds it so
}

// foreignInstance is one of a cluster with the same name and another UID.
func (w *world) foreignInstance() (string, error) {
	known := map[string]bool{}
	for _, in := range glimpses(w.t, w.AWS) {
		known[in.ID] = true
	}
	call := url.Values{"Action": {"RunInstances"}, "ImageId": {"resolve:ssm:/aws/service/eks/optimized-ami/1.37/amazon-linux-2023/x86_64/standard/recommended/image_id"}, "InstanceType": {"m5.large"}, "MinCount": {"1"}, "MaxCount": {"1"}, "TagSpecification.1.ResourceType": {"instance"}}
	for i, tag := range [][2]string{
		{awsv1.TagClusterPrefix + "my-cluster", awsv1.TagClusterOwned}, {awsv1.TagEKSClusterName, "my-cluster"}, {aws.TagClusterUID, "another"}, {awsv1.TagNodePool, "default"}, {awsv1.TagNodeClass, "default"},
	} {
		call.Set(fmt.Sprintf("TagSpecification.1.Tag.%d.Key", i+1), tag[0])
		call.Set(fmt.Sprintf("TagSpecification.1.Tag.%d.Value", i+1), tag[1])
	}
	if err := w.AWS.Do(region, "ec2", call); err != nil {
		return "", err
	}
	for _, in := range glimpses(w.t, w.AWS) {
		if !known[in.ID] {
			return in.ID, nil
		}
	}
	return "", errors.New("no instance was launched")
}

// TestT16_Rewritten has somebody write on every object of ours five times a second, while load goes up and down and nodes with it: it goes
// on, what they write stays, and hardly a write is repeated more than three times.
func TestT16_Rewritten(t *testing.T) {
	t.Parallel()
	rounds := length(1, 20)
	w := newWorld(t, options{after: karpv1.NewNillableDuration(0), limit: "200"})
	ctx, end := context.WithCancel(t.Context())
	var adversary sync.WaitGroup
	rewrites := 0
	adversary.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			rewrites += w.rewrite(ctx, n)
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	var most time.Duration
	for range rounds {
		w.scale(30)
		most = max(most, w.awaitSettled(30))
		w.scale(0)
		most = max(most, w.until("nodes without pods are gone", func() bool { return len(w.alive()) == 0 && w.settled(0) == "" }))
	}
	end()
	adversary.Wait()
	retries := w.history.retries()
	p99 := retries[max(0, len(retries)-1-max(1, len(retries)/100))] // one in a hundred, or the one if there are fewer
	if p99 > 3 {
		t.Errorf("more than one write in a hundred is repeated %d times; of %d the most is %d", p99, len(retries), retries[len(retries)-1])
	}
	t.Logf("| T16 objects rewritten %d times at 5 Hz | %d rounds | all in order after %v at most; %d writes of the controller, retries p99 %d, most %d |", rewrites, rounds, most.Round(time.Second), len(retries), p99, retries[len(retries)-1])
}

// rewrite changes all NodeClaims, NodePools and nodes that are the controller's.
func (w *world) rewrite(ctx context.Context, n int) (written int) {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"keep","example.com/written":"%d"},"labels":{%q:"keep"}}}`, foreignKey, n, foreignKey))
	var claims karpv1.NodeClaimList
	var pools karpv1.NodePoolList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&claims, &pools, &nodes} {
		if w.Client.List(ctx, list) != nil {
			return written // the end
		}
	}
	var all []client.Object
	for i := range claims.Items {
		all = append(all, &claims.Items[i])
	}
	for i := range pools.Items {
		all = append(all, &pools.Items[i])
	}
	for i := range nodes.Items {
		if nodes.Items[i].Labels[karpv1.NodePoolLabelKey] != "" {
			all = append(all, &nodes.Items[i])
		}
	}
	for _, o := range all {
		if w.Client.Patch(ctx, o, patch) == nil {
			written++
		}
	}
	return written
}
