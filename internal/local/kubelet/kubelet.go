package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// nameLabel and nameValue are what every pod of the chart is labelled with.
	nameLabel = "app.kubernetes.io/name"
	nameValue = "karpenter"
	// serviceSetting is set in the controller's container by every chart of Karpenter, and by nobody else.
	serviceSetting = "KARPENTER_SERVICE"
	// followAgain is how long to wait before a watch that ended is opened anew.
	followAgain = time.Second
)

// podNetwork is where pods that are run have their addresses. kwok gives those of the others out of another one.
var podNetwork = netip.MustParsePrefix("10.2.0.0/16")

// Options say for which cluster pods are run, and how.
type Options struct {
	Kube client.WithWatch
	// Config has the address and the authority of the API server.
	Config *rest.Config
	// Dir is where each pod has a folder while it runs.
	Dir string
	// Program is run in the place of the image.
	Program string
	// Env is what the computer adds to the environment of every container. It wins over what the pod says.
	Env map[string]string
	// Tell is told what happens, in one line.
	Tell func(format string, args ...any)
}

// Kubelet runs pods.
type Kubelet struct {
	opts    Options
	stop    context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	pods map[types.UID]*worker
}

// Start runs what Ours selects until Stop.
func Start(ctx context.Context, opts Options) *Kubelet {
	k := &Kubelet{opts: opts, pods: map[types.UID]*worker{}}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	k.stop = stop
	k.running.Go(func() {
		for working.Err() == nil {
			_ = k.follow(working) // what goes wrong is tried again
			select {
			case <-working.Done():
			case <-time.After(followAgain):
			}
		}
	})
	return k
}

// Stop ends the processes, in order, and leaves their pods as they are: the next Kubelet starts them again.
func (k *Kubelet) Stop() {
	k.stop()
	k.running.Wait()
}

// Ours returns the index of the container that is the controller, or -1 if the pod is not one of the chart's.
func Ours(pod *corev1.Pod) int {
	if pod.Labels[nameLabel] != nameValue {
		return -1
	}
	return slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == serviceSetting })
	})
}

// follow lists the pods, and then follows what becomes of them until the watch ends.
func (k *Kubelet) follow(ctx context.Context) error {
	selector := client.MatchingLabels{nameLabel: nameValue}
	list := &corev1.PodList{}
	if err := k.opts.Kube.List(ctx, list, selector); err != nil {
		return fmt.Errorf("listing the controller's pods: %w", err)
	}
	there := map[types.UID]bool{}
	for i := range list.Items {
		there[list.Items[i].UID] = true
		k.observe(ctx, &list.Items[i])
	}
	for _, w := range k.workers() {
		if !there[w.pod.UID] {
			w.end(0)
		}
	}
	watcher, err := k.opts.Kube.Watch(ctx, &corev1.PodList{}, selector, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return fmt.Errorf("watching the controller's pods: %w", err)
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-watcher.ResultChan():
			pod, ok := event.Object.(*corev1.Pod)
			switch {
			case !open || event.Type == watch.Error:
				return errors.New("the watch has ended")
			case !ok:
			case event.Type == watch.Deleted:
				k.removed(pod.UID)
			default:
				k.observe(ctx, pod)
			}
		}
	}
}

// observe does what a pod asks for: to be run, or to be ended.
func (k *Kubelet) observe(ctx context.Context, pod *corev1.Pod) {
	index := Ours(pod)
	if index < 0 || pod.Spec.NodeName == "" {
		return
	}
	k.mu.Lock()
	w := k.pods[pod.UID]
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if w == nil && (!over || pod.DeletionTimestamp != nil) {
		w = k.newWorker(pod, index)
		k.pods[pod.UID] = w
		working, stop := context.WithCancel(ctx)
		w.stop = stop
		k.running.Go(func() {
			defer stop()
			w.run(working)
			k.mu.Lock()
			delete(k.pods, pod.UID)
			k.mu.Unlock()
		})
	}
	k.mu.Unlock()
	if w != nil && pod.DeletionTimestamp != nil {
		grace := int64(0)
		if pod.DeletionGracePeriodSeconds != nil {
			grace = *pod.DeletionGracePeriodSeconds
		}
		w.end(time.Duration(grace) * time.Second)
	}
}

// removed ends a process whose pod is no more.
func (k *Kubelet) removed(uid types.UID) {
	k.mu.Lock()
	w := k.pods[uid]
	k.mu.Unlock()
	if w != nil {
		w.end(0)
	}
}

// Kill ends the processes of all pods as a crash would; they are started again. It says how many there were.
func (k *Kubelet) Kill() (killed int) {
	for _, w := range k.workers() {
		w.mu.Lock()
		if w.cmd != nil && w.cmd.Process.Kill() == nil {
			w.killed = true
			killed++
		}
		w.mu.Unlock()
	}
	return killed
}

// Pid is the id of the first process that runs, or 0 while none does.
func (k *Kubelet) Pid() int {
	for _, w := range k.workers() {
		if pid := w.pid(); pid != 0 {
			return pid
		}
	}
	return 0
}

// Pids are the ids of the processes that run, by the names of their pods.
func (k *Kubelet) Pids() map[string]int {
	pids := map[string]int{}
	for _, w := range k.workers() {
		if pid := w.pid(); pid != 0 {
			pids[w.pod.Name] = pid
		}
	}
	return pids
}

// Tail is the last lines of the log of each pod's process.
func (k *Kubelet) Tail(lines int) string {
	var text strings.Builder
	for _, w := range k.workers() {
		text.WriteString(tail(w.log(), lines))
	}
	return text.String()
}

// newWorker makes the worker of a pod. The caller holds k.mu.
func (k *Kubelet) newWorker(pod *corev1.Pod, index int) *worker {
	w := &worker{
		k: k, pod: pod.DeepCopy(), container: &pod.Spec.Containers[index], dir: filepath.Join(k.opts.Dir, string(pod.UID)), ports: map[int32]int{},
	}
	w.pod.Status.PodIP = k.address(pod.Status.PodIP)
	for i := range pod.Status.ContainerStatuses {
		if had := &pod.Status.ContainerStatuses[i]; had.Name == w.container.Name {
			w.state.restarts, w.state.last = had.RestartCount, had.LastTerminationState.Terminated
			if had.State.Running != nil { // by a process that ended with the Kubelet before this one
				w.state.restarts++
			}
		}
	}
	return w
}

// address is one that no pod has; the wanted one if that can be. The caller holds k.mu.
func (k *Kubelet) address(wanted string) string {
	taken := map[string]bool{}
	for _, w := range k.pods {
		taken[w.pod.Status.PodIP] = true
	}
	if at, err := netip.ParseAddr(wanted); err == nil && podNetwork.Contains(at) && !taken[wanted] {
		return wanted
	}
	at := podNetwork.Addr().Next()
	for taken[at.String()] {
		at = at.Next()
	}
	return at.String()
}

// workers are those of all pods, in the order of their names.
func (k *Kubelet) workers() []*worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]*worker, 0, len(k.pods))
	for _, w := range k.pods {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *worker) int {
		return slices.Compare([]string{a.pod.Namespace, a.pod.Name}, []string{b.pod.Namespace, b.pod.Name})
	})
	return all
}
