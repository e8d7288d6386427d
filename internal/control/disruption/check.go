package disruption

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/state"
)

// disturbed says what on a node forbids that it is removed now, as the API server itself shows it: pods that have come since
// it was looked at, and pods that must not be disturbed. before are the pods that were there; nil for any.
func (l *Loop) disturbed(ctx context.Context, n *state.Node, r record, before map[types.UID]bool) (why string, err error) {
	list := &corev1.PodList{}
	if err := l.Live.List(ctx, list, client.MatchingFields{"spec.nodeName": n.Object.Name}); err != nil {
		return "", fmt.Errorf("listing the pods of Node %s: %w", n.Object.Name, err)
	}
	forced := r.forced(n.Claim)
	now := l.Clock.Now()
	for i := range list.Items {
		p := &list.Items[i]
		if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		if before != nil && !before[p.UID] && !control.OfNode(p) {
			return fmt.Sprintf("pod %s/%s was bound to it", p.Namespace, p.Name), nil
		}
		if !forced && life.Protect(p.Annotations[karpv1.DoNotDisruptAnnotationKey], started(p), now).Holds {
			return fmt.Sprintf("pod %s/%s has the annotation %s", p.Namespace, p.Name, karpv1.DoNotDisruptAnnotationKey), nil
		}
	}
	return "", nil
}

// known are the pods that a node was seen with.
func known(n *state.Node) map[types.UID]bool {
	out := make(map[types.UID]bool, len(n.Pods))
	for _, p := range n.Pods {
		out[p.UID] = true
	}
	return out
}

func started(p *corev1.Pod) (at time.Time) {
	if p.Status.StartTime != nil {
		at = p.Status.StartTime.Time
	}
	return at
}
