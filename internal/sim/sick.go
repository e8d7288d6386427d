package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/cloud/simaws"
)

// How kube-controller-manager treats nodes that are not ready: silentAfter is how long a kubelet says nothing until its node counts as
// unreachable, and endured how long pods tolerate that.
const (
	silentAfter = 40 * time.Second
	endured     = 5 * time.Minute
	// silent is the reason of a node's condition Ready whose kubelet says nothing.
	silent = "NodeStatusUnknown"
)

// patient is a node that is sick, or whose instance is being rebooted.
type patient struct {
	// condition is what it says is wrong; empty if nothing is.
	condition string
	// down says that its kubelet has stopped.
	down bool
}

func readSick(args []string) (func(*World) error, error) {
	if len(args) != 2 && len(args) != 3 {
		return nil, fmt.Errorf("%d arguments are there", len(args))
	}
	minutes := 0
	if len(args) == 3 {
		var err error
		if minutes, err = number(args[2]); err != nil {
			return nil, err
		}
	}
	return func(w *World) error { return w.sicken(args[0], args[1], time.Duration(minutes)*time.Minute) }, nil
}

// repair has the controller repair nodes, also by reboots.
func (w *World) repair() error {
	if w.replicas > 0 {
		return fmt.Errorf("the controller runs already; have it repair nodes before the first time")
	}
	w.gates, w.awsGates, w.repairs = "NodeRepair=true", "RebootForRepair=true", true
	return nil
}

// sicken has a ready node say that something is wrong with it, for so long or until that is mended.
func (w *World) sicken(condition, reason string, lasts time.Duration) error {
	var names []string
	w.server.Each(&corev1.Node{}, func(o client.Object) {
		node := o.(*corev1.Node)
		if ourNode(node) && node.DeletionTimestamp == nil && w.sick[node.Name] == nil && !unwell(node, corev1.NodeReady) {
			names = append(names, node.Name)
		}
	})
	name := w.one(among(names, w.here.nodes))
	if name == "" {
		return nil
	}
	p := &patient{condition: condition}
	w.note("node %s is sick: %s, %s", name, condition, reason)
	w.sick[name] = p
	if lasts > 0 {
		w.loop.start(func() {
			w.pause(lasts)
			if w.sick[name] == p {
				w.note("node %s is well again by itself", name)
				w.must(w.recover(name))
			}
		})
	}
	switch {
	case condition != string(corev1.NodeReady):
		return w.says(name, corev1.NodeConditionType(condition), corev1.ConditionFalse, reason)
	case reason == silent:
		w.stop(name, p)
		return nil
	}
	w.loop.start(func() { w.must(w.unready(name, p, corev1.ConditionFalse, reason, corev1.TaintNodeNotReady)) })
	return nil
}

// must keeps the error of a task.
func (w *World) must(err error) {
	if err != nil && w.fatal == nil {
		w.fatal = err
	}
}

// unwell says whether a node says that something is wrong.
func unwell(node *corev1.Node, condition corev1.NodeConditionType) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == condition && c.Status != corev1.ConditionTrue })
}

// says has a node report a condition.
func (w *World) says(name string, condition corev1.NodeConditionType, status corev1.ConditionStatus, reason string) error {
	return w.tells(name, func(node *corev1.Node) { w.set(node, condition, status, reason) })
}

// set changes a condition of a node.
func (w *World) set(node *corev1.Node, condition corev1.NodeConditionType, status corev1.ConditionStatus, reason string) {
	is := corev1.NodeCondition{Type: condition, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(w.loop.now), LastHeartbeatTime: metav1.NewTime(w.loop.now)}
	at := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == condition })
	if at < 0 {
		node.Status.Conditions = append(node.Status.Conditions, is)
		return
	}
	if node.Status.Conditions[at].Status == status {
		is.LastTransitionTime = node.Status.Conditions[at].LastTransitionTime
	}
	node.Status.Conditions[at] = is
}

// tells writes the status of a node, if it is there.
func (w *World) tells(name string, change func(*corev1.Node)) error {
	ctx, node := context.Background(), &corev1.Node{}
	if err := w.kubelet.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	change(node)
	return client.IgnoreNotFound(w.kubelet.Status().Update(ctx, node))
}

// taints puts a taint of kube-controller-manager on a node, or takes all of those away.
func (w *World) taints(name, key string) error {
	ctx, node := context.Background(), &corev1.Node{}
	if err := w.kubelet.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := node.DeepCopy()
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
	})
	if key != "" {
		now := metav1.NewTime(w.loop.now)
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: &now})
	}
	return client.IgnoreNotFound(w.kubelet.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// stop ends the kubelet of a node: it is unreachable after a while.
func (w *World) stop(name string, p *patient) {
	p.down = true
	w.loop.start(func() {
		w.pause(silentAfter)
		if p.down && w.sick[name] == p {
			w.must(w.unready(name, p, corev1.ConditionUnknown, silent, corev1.TaintNodeUnreachable))
		}
	})
}

// unready has a node be not ready, and its pods deleted once they have endured that for too long.
func (w *World) unready(name string, p *patient, status corev1.ConditionStatus, reason, taint string) error {
	if err := w.says(name, corev1.NodeReady, status, reason); err != nil {
		return err
	}
	if err := w.podsReady(name, corev1.ConditionFalse); err != nil {
		return err
	}
	if err := w.taints(name, taint); err != nil {
		return err
	}
	w.pause(endured)
	node, _ := w.server.Look(&corev1.Node{}, types.NamespacedName{Name: name}).(*corev1.Node)
	if node == nil || w.sick[name] != p || !unwell(node, corev1.NodeReady) {
		return nil
	}
	var pods []*corev1.Pod
	w.podsOn(name, func(pod *corev1.Pod) { pods = append(pods, pod.DeepCopy()) })
	for _, pod := range pods {
		if err := w.kubelet.Delete(context.Background(), pod); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// podsReady has the pods of a node be ready, or not, as it is.
func (w *World) podsReady(name string, status corev1.ConditionStatus) error {
	var pods []*corev1.Pod
	w.podsOn(name, func(pod *corev1.Pod) { pods = append(pods, pod.DeepCopy()) })
	for _, pod := range pods {
		for i := range pod.Status.Conditions {
			if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status != status {
				c.Status, c.LastTransitionTime = status, metav1.NewTime(w.loop.now)
			}
		}
		if err := w.kubelet.Status().Update(context.Background(), pod); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// recover ends what is wrong with a node.
func (w *World) recover(name string) error {
	p := w.sick[name]
	delete(w.sick, name)
	if p.down || p.condition == string(corev1.NodeReady) {
		if err := w.ready(name); err != nil {
			return err
		}
	}
	if p.condition == "" || p.condition == string(corev1.NodeReady) {
		return nil
	}
	return w.says(name, corev1.NodeConditionType(p.condition), corev1.ConditionTrue, "AllIsWell")
}

// ready has a node be ready again.
func (w *World) ready(name string) error {
	if err := w.says(name, corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"); err != nil {
		return err
	}
	if err := w.podsReady(name, corev1.ConditionTrue); err != nil {
		return err
	}
	return w.taints(name, "")
}

// sameReboot is for how long the cloud may be asked for the same reboot again. Who has not had the answer cannot know that the instance is
// up again already until its kubelet says so.
const sameReboot = 6 * time.Minute

// rebooting stops the kubelet of an instance that is being rebooted.
func (w *World) rebooting(m simaws.Instance) {
	w.note("instance %s is rebooted", m.InstanceID)
	times := w.reboots[m.InstanceID]
	if n := len(times); n == 0 || w.loop.now.Sub(times[n-1]) > sameReboot {
		w.reboots[m.InstanceID] = append(times, w.loop.now)
	}
	recent := 0
	for _, at := range w.reboots[m.InstanceID] {
		if w.loop.now.Sub(at) < 24*time.Hour {
			recent++
		}
	}
	if recent > 2 {
		w.breached("N7", "instance %s was rebooted %d times within a day", m.InstanceID, recent)
	}
	p := &patient{}
	if was := w.sick[m.NodeName]; was != nil {
		p.condition = was.condition
	}
	w.sick[m.NodeName] = p
	w.stop(m.NodeName, p)
}

// bootID is what the kernel of an instance calls itself; each start has another.
func bootID(m *simaws.Instance) string { return fmt.Sprintf("%s-boot-%d", m.InstanceID, m.Boot) }

// back has the kubelet of a rebooted instance report again, or not: that, how long it takes and whether it has helped is drawn.
func (w *World) back(m simaws.Instance) error {
	p := w.sick[m.NodeName]
	lost, helped := w.draw.IntN(6) == 0, w.draw.IntN(4) > 0
	if lost || p == nil {
		w.note("node %s does not come back", m.NodeName)
		return nil
	}
	w.pause(time.Duration(w.draw.IntN(240)) * time.Second)
	if w.sick[m.NodeName] != p { // it has ended meanwhile
		return nil
	}
	w.note("node %s is back", m.NodeName)
	node, _ := w.server.Look(&corev1.Node{}, types.NamespacedName{Name: m.NodeName}).(*corev1.Node)
	if node == nil {
		delete(w.sick, m.NodeName)
		return w.join(m)
	}
	p.down = false
	if err := w.tells(m.NodeName, func(node *corev1.Node) {
		node.Status.NodeInfo.BootID = bootID(&m)
		w.set(node, corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady")
	}); err != nil {
		return err
	}
	w.pause(readyAfter)
	if w.sick[m.NodeName] != p {
		return nil
	}
	if helped || p.condition == "" || p.condition == string(corev1.NodeReady) {
		p.down = true // what recover ends
		return w.recover(m.NodeName)
	}
	return w.ready(m.NodeName)
}

// stopped says whether the kubelet of a node has.
func (w *World) stopped(node string) bool { return w.sick[node] != nil && w.sick[node].down }
