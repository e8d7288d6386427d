package local

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// leaseSeconds is what kubelets say of their leases.
	leaseSeconds = 40
	// leaseTurns is after how many seconds a lease is renewed. kube-controller-manager gives a node up after 50.
	leaseTurns = 15
	// leaseWorkers renew side by side.
	leaseWorkers = 4
)

// leaseKeeper renews the leases of the nodes whose instances run, so that kube-controller-manager knows them alive. kwok
// could do it too, but then misses pods that are bound before it has seen its own lease.
type leaseKeeper struct {
	kube client.Client
}

// run works until ctx ends. Every second it is the turn of another part of the nodes, so that a thousand are no burst.
// What fails has two more turns before kube-controller-manager gives the node up.
func (l *leaseKeeper) run(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var nodes metav1.PartialObjectMetadataList
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	for turn := 0; ; turn = (turn + 1) % leaseTurns {
		if turn == 0 { // those that join meanwhile get their lease from nodeKeeper
			_ = l.kube.List(ctx, &nodes)
		}
		l.renew(ctx, &nodes, turn)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// renew renews the leases whose turn it is.
func (l *leaseKeeper) renew(ctx context.Context, nodes *metav1.PartialObjectMetadataList, turn int) {
	work := make(chan *metav1.PartialObjectMetadata)
	var workers sync.WaitGroup
	for range leaseWorkers {
		workers.Go(func() {
			for node := range work {
				_ = l.touch(ctx, &node.ObjectMeta)
			}
		})
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if node.Annotations[kwokAnnotation] == managed && turnOf(node.Name) == turn {
			work <- node
		}
	}
	close(work)
	workers.Wait()
}

func turnOf(name string) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name))
	return int(hash.Sum32() % leaseTurns)
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
	return nil
}
