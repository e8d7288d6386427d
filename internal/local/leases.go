package local

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// leaseSeconds is what kubelets say of their leases.
	leaseSeconds = 40
	// renewAfter is how old a lease is when it is renewed. kube-controller-manager gives a node up after 50 seconds, and says of
	// its pods that they are not ready.
	renewAfter = 12 * time.Second
	// listEvery is how often it is looked up which nodes have a kubelet. Those that join meanwhile are known from nodeKeeper.
	listEvery = 10 * time.Second
	// leaseWorkers renew side by side.
	leaseWorkers = 16
)

// leaseKeeper renews the leases of the nodes whose instances run, so that kube-controller-manager knows them alive. kwok
// could do it too, but then misses pods that are bound before it has seen its own lease.
type leaseKeeper struct {
	kube client.Client

	mu    sync.Mutex
	known map[string]renewal
}

// renewal is when a node's lease was renewed last.
type renewal struct {
	node types.UID
	at   time.Time
}

// run works until ctx ends.
func (l *leaseKeeper) run(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var listed time.Time
	for {
		if now := time.Now(); now.Sub(listed) >= listEvery && l.list(ctx) == nil {
			listed = now
		}
		l.renew(ctx, l.due(time.Now().Add(-renewAfter)))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// list finds out which nodes have a kubelet.
func (l *leaseKeeper) list(ctx context.Context) error {
	var nodes metav1.PartialObjectMetadataList
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := l.kube.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.known
	l.known = map[string]renewal{}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if node.Annotations[kwokAnnotation] != managed {
			continue
		}
		l.known[node.Name] = renewal{node: node.UID}
		if last := before[node.Name]; last.node == node.UID {
			l.known[node.Name] = last
		}
	}
	return nil
}

// due are the nodes whose leases were not renewed since then, those that have waited longest first.
func (l *leaseKeeper) due(since time.Time) (due []metav1.ObjectMeta) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, last := range l.known {
		if last.at.Before(since) {
			due = append(due, metav1.ObjectMeta{Name: name, UID: last.node})
		}
	}
	slices.SortFunc(due, func(a, b metav1.ObjectMeta) int { return l.known[a.Name].at.Compare(l.known[b.Name].at) })
	return due
}

// renew renews leases. What fails is due again a second later.
func (l *leaseKeeper) renew(ctx context.Context, due []metav1.ObjectMeta) {
	work := make(chan *metav1.ObjectMeta)
	var workers sync.WaitGroup
	for range leaseWorkers {
		workers.Go(func() {
			for node := range work {
				_ = l.touch(ctx, node)
			}
		})
	}
	for i := range due {
		work <- &due[i]
	}
	close(work)
	workers.Wait()
}

// touch renews the lease of a node, or makes it.
func (l *leaseKeeper) touch(ctx context.Context, node *metav1.ObjectMeta) error {
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: corev1.NamespaceNodeLease, Name: node.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: new(int32(leaseSeconds)), RenewTime: &now},
	}
	before := lease.DeepCopy()
	before.Spec = coordinationv1.LeaseSpec{}
	before.OwnerReferences = nil
	err := l.kube.Patch(ctx, lease.DeepCopy(), client.MergeFrom(before))
	if apierrors.IsNotFound(err) {
		err = l.kube.Create(ctx, lease)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("renewing the lease of node %s: %w", node.Name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]renewal{}
	}
	l.known[node.Name] = renewal{node.UID, now.Time}
	return nil
}
