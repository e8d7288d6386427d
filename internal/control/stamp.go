package control

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
)

// Stamp is the hash that a kind of object and the claims made from it carry, so that claims that have drifted are found.
type Stamp struct {
	// Hash and HashVersion are the annotations, and Version is the version of the way of hashing.
	Hash, HashVersion, Version string
	// Claims lists the claims that were made from the object of a name.
	Claims func(ctx context.Context, c client.Client, name string) ([]*karpv1.NodeClaim, error)
}

// Write puts the hash onto an object. When the way of hashing has changed, its claims are given the new hash first, so that none
// drifts because of it (A61).
func (s *Stamp) Write(ctx context.Context, c client.Client, obj client.Object, hash string) error {
	if !s.current(obj) {
		claims, err := s.Claims(ctx, c, obj.GetName())
		if err != nil {
			return fmt.Errorf("listing the claims of %T %s: %w", obj, obj.GetName(), err)
		}
		for _, claim := range claims {
			if err := s.renew(ctx, c, claim, hash); err != nil {
				return err
			}
		}
	}
	before := obj.DeepCopyObject().(client.Object)
	s.put(obj, hash)
	_, err := Patch(ctx, c, obj, before)
	return err
}

// renew brings a claim to this version of the hash. One that has drifted already stays so: it keeps its hash.
func (s *Stamp) renew(ctx context.Context, c client.Client, claim *karpv1.NodeClaim, hash string) error {
	if s.current(claim) {
		return nil
	}
	before := claim.DeepCopy()
	if claim.StatusConditions().Get(karpv1.ConditionDrifted) != nil {
		hash = claim.Annotations[s.Hash]
	}
	s.put(claim, hash)
	written, err := Patch(ctx, c, claim, before)
	if err == nil && !written {
		err = fmt.Errorf("NodeClaim %s has changed while its hash was being brought to %s", claim.Name, s.Version)
	}
	return err
}

func (s *Stamp) put(obj client.Object, hash string) {
	Annotate(obj, s.Hash, hash)
	Annotate(obj, s.HashVersion, s.Version)
}

func (s *Stamp) current(obj client.Object) bool {
	return obj.GetAnnotations()[s.HashVersion] == s.Version
}
