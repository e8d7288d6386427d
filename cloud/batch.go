package cloud

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
)

// BatchAnnotationKey names, on a claim, the batch that it is launched with. It is written when the claim is created and
// never changed, so that a later process finds what an earlier one may have launched.
const BatchAnnotationKey = karpv1.Group + "/launch-batch"

// MaxBatch bounds how many claims share one launch: enough that a thousand claims need twenty calls, few enough that one
// failed call delays little.
const MaxBatch = 50

// Batch asks for one instance for each of its claims. The claims are interchangeable (see Fingerprint), so any instance of the
// batch can serve any of them.
type Batch struct {
	// ID is the same for every attempt at these claims, over restarts too. The launch token is made from it.
	ID string
	// Claims are those that have no instance on record yet. Claims of the batch that are gone or served are left out.
	Claims []*karpv1.NodeClaim
	// Taken lists the ids of instances that claims have on record already.
	Taken map[string]bool
	// Types, if given, is what the claims' class can launch as NodeOverlays correct it for their pool: its prices and resources count.
	Types *Types
}

// BatchID is the batch of a claim: the one written on it, or one of its own that follows from its UID.
func BatchID(claim *karpv1.NodeClaim) string {
	if id := claim.Annotations[BatchAnnotationKey]; id != "" {
		return id
	}
	return string(claim.UID)
}

// Token is the client token of an attempt at a batch in a cluster: at most 64 ASCII characters. The cloud makes
// at most one fleet for a token, so the attempt may be raised only after an answer which says that the one before made
// nothing; after no answer it must stay.
func Token(cluster, batch string, attempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", cluster, batch, attempt))
	return "karpenter-" + hex.EncodeToString(sum[:24])
}

// Fingerprint is equal for claims that an instance of one can serve as well as an instance of the other: everything that a
// launch reads.
func Fingerprint(claim *karpv1.NodeClaim) string {
	annotations := maps.Clone(claim.Annotations)
	for _, key := range []string{BatchAnnotationKey, karpv1.PlannedPodsAnnotationKey, corev1.LastAppliedConfigAnnotation} {
		delete(annotations, key)
	}
	spec := claim.Spec.DeepCopy()
	slices.SortStableFunc(spec.Requirements, func(a, b karpv1.NodeSelectorRequirementWithMinValues) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(string(a.Operator), string(b.Operator)))
	})
	text, err := json.Marshal([]any{spec, claim.Labels, annotations})
	if err != nil {
		// Only a value that the API server could not have stored; such a claim is interchangeable with none.
		return "uid " + string(claim.UID)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Divide puts claims that are about to be created into batches of interchangeable ones and returns the batch id for each,
// in order. seed must differ between plans (a plan's id or time), so that no batch id is ever used twice. An id ends with an x
// and the number of claims in the batch, so that whoever launches it knows when all of them are there.
func Divide(seed string, claims []*karpv1.NodeClaim) []string {
	ids := make([]string, len(claims))
	count, size := map[string]int{}, map[string]int{}
	for i, claim := range claims {
		print := Fingerprint(claim)
		n := count[print]
		count[print] = n + 1
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", seed, print, n/MaxBatch))
		ids[i] = hex.EncodeToString(sum[:8])
		size[ids[i]]++
	}
	for i, id := range ids {
		ids[i] = fmt.Sprintf("%sx%d", id, size[id])
	}
	return ids
}

// Check refuses a batch that no launch could be right for.
func (b Batch) Check() error {
	if b.ID == "" || len(b.ID) > 128 {
		return fmt.Errorf("batch has an id of %d characters; give 1 to 128", len(b.ID))
	}
	if len(b.Claims) == 0 || len(b.Claims) > MaxBatch {
		return fmt.Errorf("batch %s has %d claims; give 1 to %d", b.ID, len(b.Claims), MaxBatch)
	}
	first := Fingerprint(b.Claims[0])
	for _, claim := range b.Claims {
		if BatchID(claim) != b.ID {
			return fmt.Errorf("batch %s: claim %s belongs to batch %s", b.ID, claim.Name, BatchID(claim))
		}
		if Fingerprint(claim) != first {
			return fmt.Errorf("batch %s: claims %s and %s ask for different instances; put them into different batches", b.ID, b.Claims[0].Name, claim.Name)
		}
	}
	return nil
}
