package claim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
)

const (
	// soon is when something is looked at again that another writer, or a cache that lags, has got in the way of.
	soon = 250 * time.Millisecond
	// incomplete is how long after its registration a node may still be incomplete without anything being said about that.
	incomplete = 5 * time.Second
)

// Index names, for clients that read from a cache.
const (
	indexPodNode         = "spec.nodeName"
	indexNodeProviderID  = "spec.providerID"
	indexClaimProviderID = "status.providerID"
	indexClaimBatch      = "launch-batch"
)

// Index adds the index that only this package needs: claims by launch batch. Nodes and claims must be indexed by provider ID
// too, under spec.providerID and status.providerID, and pods by spec.nodeName (O59), which package drain shares.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &karpv1.NodeClaim{}, indexClaimBatch, func(o client.Object) []string {
		return []string{cloud.BatchID(o.(*karpv1.NodeClaim))}
	})
	if err != nil {
		return fmt.Errorf("indexing claims by batch: %w", err)
	}
	return nil
}

// nodesOf are the nodes that carry the claim's provider ID, by name. They are the cache's: who changes one makes a copy.
func nodesOf(ctx context.Context, c client.Reader, claim *karpv1.NodeClaim) ([]corev1.Node, error) {
	if claim.Status.ProviderID == "" {
		return nil, nil
	}
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes, client.MatchingFields{indexNodeProviderID: claim.Status.ProviderID}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("looking for the node of NodeClaim %s: %w", claim.Name, err)
	}
	slices.SortFunc(nodes.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes.Items, nil
}

// nodeOf is the node that the claim is registered with, or nil if it does not exist or is not the instance's.
func nodeOf(ctx context.Context, c client.Reader, claim *karpv1.NodeClaim, opts ...client.GetOption) (*corev1.Node, error) {
	if claim.Status.NodeName == "" {
		return nil, nil
	}
	node := &corev1.Node{}
	err := c.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node, opts...)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Node %s: %w", claim.Status.NodeName, err)
	case node.Spec.ProviderID != claim.Status.ProviderID:
		return nil, nil
	}
	return node, nil
}

// claimsOf are the claims whose instance has that provider ID. They are the cache's: who changes one makes a copy.
func claimsOf(ctx context.Context, c client.Reader, providerID string) ([]karpv1.NodeClaim, error) {
	if providerID == "" {
		return nil, nil
	}
	claims := &karpv1.NodeClaimList{}
	if err := c.List(ctx, claims, client.MatchingFields{indexClaimProviderID: providerID}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("looking for the claim of instance %s: %w", providerID, err)
	}
	return claims.Items, nil
}

// byNode makes a change of a node a look at its claim.
func byNode(c client.Reader) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		claims, err := claimsOf(ctx, c, obj.(*corev1.Node).Spec.ProviderID)
		if err != nil {
			return nil // the cache answers this; it cannot fail once it has synced
		}
		requests := make([]reconcile.Request, len(claims))
		for i := range claims {
			requests[i] = reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claims[i])}
		}
		return requests
	})
}
