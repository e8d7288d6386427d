package sim

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/sim/kube"
)

// podGrace is how long pods are given to end, with some time to notice.
const podGrace = 40 * time.Second

// wrote holds a write that has taken effect against the rules.
func (w *rules) wrote(op *kube.Op, ours bool) {
	w.dirty = w.dirty || counted(op)
	if op.Err != nil {
		return
	}
	if claim, ok := op.Old.(*karpv1.NodeClaim); ok && op.New == nil {
		w.claimGone(claim)
	}
	if !ours {
		return
	}
	switch op.Kind.Kind {
	case "NodeClaim":
		w.claimWritten(op)
	case "Pod":
		if old, ok := op.Old.(*corev1.Pod); ok && (op.Verb == "delete" || op.Subresource == "eviction") {
			w.podAsked(old, op.Verb == "delete")
		}
	case "Node":
		if old, ok := op.Old.(*corev1.Node); ok && !ourNode(old) && old.Spec.ProviderID != "" && w.claimOf(old.Spec.ProviderID[strings.LastIndexByte(old.Spec.ProviderID, '/')+1:]) == nil && !w.restored {
			w.breached("S6", "%s of Node %s, which is not the cluster's", op.Verb, old.Name)
		}
	}
	w.kept(op)
}

// counted says whether a write has changed something that is looked at after it: which claims there are, of what pool and batch and with
// what instance, and what pools allow.
func counted(op *kube.Op) bool {
	if op.Kind.Group != karpv1.Group {
		return false
	}
	old, was := op.Old.(*karpv1.NodeClaim)
	now, is := op.New.(*karpv1.NodeClaim)
	if !was || !is {
		return op.Old == nil || op.New == nil || op.Old.GetGeneration() != op.New.GetGeneration()
	}
	return old.Status.ProviderID != now.Status.ProviderID || old.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() ||
		old.Labels[karpv1.NodePoolLabelKey] != now.Labels[karpv1.NodePoolLabelKey] || cloud.BatchID(old) != cloud.BatchID(now)
}

// claimGone holds the end of a claim against S8: it goes only when its instance has ended, or never was.
func (w *rules) claimGone(claim *karpv1.NodeClaim) {
	if w.restored {
		return
	}
	w.each(func(in simaws.Glimpse) {
		if in.ID == instanceOf(claim) && in.State != "terminated" || lives(in) && (tag(in, karpv1.Group+"/nodeclaim") == claim.Name) {
			w.breached("S8", "NodeClaim %s is gone and its instance %s is %s", claim.Name, in.ID, in.State)
		}
	})
}

// claimWritten holds what the controller writes on claims against S4, S5 and S7.
func (w *rules) claimWritten(op *kube.Op) {
	if op.Verb == "create" && op.Subresource == "" || op.Verb == "delete" {
		w.claimsChanged = w.now()
		if op.Verb == "create" {
			w.claimed++
		}
	}
	old, _ := op.Old.(*karpv1.NodeClaim)
	now, _ := op.New.(*karpv1.NodeClaim)
	if old == nil {
		return
	}
	if now != nil && old.Annotations[karpv1.MoveAnnotationKey] == "" && now.Annotations[karpv1.MoveAnnotationKey] != "" ||
		now != nil && !rebooted(old) && rebooted(now) {
		w.moveBegun(now)
	}
	if op.Verb == "delete" && old.DeletionTimestamp == nil {
		if old.Annotations[karpv1.MoveAnnotationKey] != "" {
			w.moveEnds(old)
		} else {
			w.calledFor(old)
		}
	}
}

// calledFor holds the deletion of a claim that is no move's against S7: what works and runs pods is kept until its time is over.
func (w *rules) calledFor(claim *karpv1.NodeClaim) {
	id, runs := instanceOf(claim), false
	w.each(func(in simaws.Glimpse) { runs = runs || in.ID == id && in.State == "running" })
	expire := claim.Spec.ExpireAfter.Duration
	expired := expire != nil && !w.now().Before(claim.CreationTimestamp.Add(*expire))
	node := w.nodeOf(id)
	if !runs || w.killed[id] || expired || w.repairs || node == nil || node.DeletionTimestamp != nil || !claim.StatusConditions().IsTrue(karpv1.ConditionInitialized) {
		return
	}
	pool, _ := w.server.Look(&karpv1.NodePool{}, types.NamespacedName{Name: claim.Labels[karpv1.NodePoolLabelKey]}).(*karpv1.NodePool)
	if pool == nil || pool.DeletionTimestamp != nil || pool.Spec.Replicas != nil || unwell(node, corev1.NodeReady) {
		return
	}
	w.podsOn(node.Name, func(pod *corev1.Pod) {
		w.breached("S7", "NodeClaim %s was deleted although its node is well and runs pod %s", claim.Name, pod.Name)
	})
}

// moveBegun holds a move against the budget of its pool: S4.
func (w *rules) moveBegun(claim *karpv1.NodeClaim) {
	w.repairBegun(claim)
	pool := claim.Labels[karpv1.NodePoolLabelKey]
	most, limited := w.budgetOf(pool)
	n := 0
	w.claims(func(c *karpv1.NodeClaim) {
		// what is as good as gone is not counted
		if c.Labels[karpv1.NodePoolLabelKey] == pool && (c.Annotations[karpv1.MoveAnnotationKey] != "" || rebooted(c)) && !c.StatusConditions().IsTrue(karpv1.ConditionInstanceTerminating) {
			n++
		}
	})
	if limited && n > most {
		w.breached("S4", "%d nodes of NodePool %s are being disrupted, and its budget is %d", n, pool, most)
	}
}

// moveEnds holds the deletion of a node by a move against S5, and S7: what replaces it is there, and nobody has forbidden it.
func (w *rules) moveEnds(claim *karpv1.NodeClaim) {
	node := w.nodeOf(instanceOf(claim))
	if node == nil || node.DeletionTimestamp != nil {
		return // somebody else has had it removed meanwhile
	}
	if w.killed[instanceOf(claim)] {
		return // its instance goes, whatever replaces it
	}
	move := map[string]string{}
	for _, field := range strings.Fields(claim.Annotations[karpv1.MoveAnnotationKey]) {
		key, value, _ := strings.Cut(field, "=")
		move[key] = value
	}
	for _, name := range strings.FieldsFunc(move["to"], func(r rune) bool { return r == ',' }) {
		to, _ := w.server.Look(&karpv1.NodeClaim{}, types.NamespacedName{Name: name}).(*karpv1.NodeClaim)
		if to == nil || !to.StatusConditions().IsTrue(karpv1.ConditionInitialized) {
			w.breached("S7", "NodeClaim %s was deleted before %s, which replaces it, was initialized", claim.Name, name)
		}
	}
	if move["reason"] == "Unhealthy" {
		w.repairEnds(claim, node)
		return // which heeds neither the node nor its pods, within that time
	}
	if claim.Spec.TerminationGracePeriod != nil && move["reason"] == "Drifted" {
		return // pods that must not be disrupted end with that period
	}
	if node.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" || claim.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" {
		w.breached("S5", "NodeClaim %s was disrupted although it has %s", claim.Name, karpv1.DoNotDisruptAnnotationKey)
	}
	w.podsOn(node.Name, func(pod *corev1.Pod) {
		switch {
		case protected(pod):
			w.breached("S5", "NodeClaim %s was disrupted although pod %s has %s", claim.Name, pod.Name, karpv1.DoNotDisruptAnnotationKey)
		case move["reason"] == "Empty":
			w.breached("S7", "NodeClaim %s was removed as empty although pod %s runs on its node", claim.Name, pod.Name)
		}
	})
}

// podAsked holds the eviction or deletion of a pod against S5 and S6.
func (w *rules) podAsked(pod *corev1.Pod, deleted bool) {
	if pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" {
		return
	}
	node, _ := w.server.Look(&corev1.Node{}, types.NamespacedName{Name: pod.Spec.NodeName}).(*corev1.Node)
	if node == nil {
		return
	}
	if !ourNode(node) {
		w.breached("S6", "pod %s was asked to leave node %s, which is not the cluster's", pod.Name, node.Name)
	}
	claim := w.claimOf(node.Spec.ProviderID[strings.LastIndexByte(node.Spec.ProviderID, '/')+1:])
	if claim != nil && w.overdue(claim, podGrace) {
		return
	}
	if protected(pod) && w.now().Sub(w.protected[pod.UID]) > w.lag+w.later+time.Second { // what no watch has shown is not known
		w.breached("S5", "pod %s was asked to leave although it has %s", pod.Name, karpv1.DoNotDisruptAnnotationKey)
	}
	if deleted {
		w.breached("S5", "pod %s was deleted without asking its PodDisruptionBudget", pod.Name)
	}
}

// kept holds a write against S14: what others have put on an object stays, and a user's spec is the user's.
func (w *rules) kept(op *kube.Op) {
	if op.Old == nil || op.New == nil {
		return
	}
	lost := func(old, now map[string]string) bool {
		return old[foreignKey] != "" && old[foreignKey] != now[foreignKey]
	}
	if lost(op.Old.GetAnnotations(), op.New.GetAnnotations()) || lost(op.Old.GetLabels(), op.New.GetLabels()) {
		w.breached("S14", "%s of %s %s has lost what somebody else has put on it", op.Verb, op.Kind.Kind, op.Key.Name)
	}
	if usersSpec(op.Old) && op.Old.GetGeneration() != op.New.GetGeneration() {
		w.breached("S14", "%s of %s %s has changed its spec, which is its user's", op.Verb, op.Kind.Kind, op.Key.Name)
	}
	old, ok := op.Old.(*corev1.Node)
	now, _ := op.New.(*corev1.Node)
	foreign := func(t corev1.Taint) bool { return t.Key == foreignKey }
	if ok && now != nil && slices.ContainsFunc(old.Spec.Taints, foreign) && !slices.ContainsFunc(now.Spec.Taints, foreign) {
		w.breached("S14", "%s of Node %s has lost a taint that somebody else has put on it", op.Verb, now.Name)
	}
}
