package capi

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/capi/kinds"
)

// Drifted implements cloud.Judge: by what Cluster API says of the Machine and its template, and by what the class selects.
func (p *Provider) Drifted(_ context.Context, claim *karpv1.NodeClaim) (reason string, err error) {
	if claim.Status.ProviderID == "" || claim.Spec.NodeClassRef == nil {
		return "", nil // not launched yet
	}
	op := "judge drift of claim " + claim.Name
	class := p.opt.Class(claim.Spec.NodeClassRef.Name)
	switch {
	case class == nil:
		return "", &cloud.Error{Class: cloud.NotReady, Op: op, Reason: "NodeClassNotFound"}
	case !p.store.ready():
		return "", &cloud.Error{Class: cloud.Transient, Op: op, Reason: cloud.ReasonNotLoaded}
	}
	m := p.store.byProviderID(claim.Status.ProviderID)
	if m == nil {
		return "", &cloud.Error{Class: cloud.NotFound, Op: op, Reason: reasonMachineNotFound}
	}
	k := resourceOf(m)
	o := p.store.resource(k)
	switch {
	case o == nil: // its Machines go with it
		return "", nil
	case !p.selects(class, k):
		return v1alpha1.ReasonScalableResourceDrift, nil
	case p.outdated(m, k, o):
		return v1alpha1.ReasonTemplateDrift, nil
	}
	return "", nil
}

// outdated says whether a Machine was made from another template than its scalable resource has now.
func (p *Provider) outdated(m *kinds.Machine, k key, o *kinds.Scalable) bool {
	if c := m.Status.Condition(kinds.ConditionUpToDate); c.Type != "" {
		return c.Status == string(metav1.ConditionFalse) && c.Reason == kinds.ReasonNotUpToDate
	}
	// Releases before 1.9 do not say, but number the templates of a MachineDeployment.
	now, owner := o.Annotations[kinds.RevisionAnnotation], metav1.GetControllerOf(m)
	if k.kind != kindDeployment || now == "" || owner == nil {
		return false
	}
	for _, set := range p.store.setsOf(o) {
		if was := set.Annotations[kinds.RevisionAnnotation]; set.UID == owner.UID && was != "" {
			return was != now
		}
	}
	return false
}

// RepairPolicies implements cloud.Judge. A node that its infrastructure provider has lost is not ready; nothing else is known of every
// provider.
func (p *Provider) RepairPolicies() []cloud.RepairPolicy { return RepairPolicies() }

// RepairPolicies are those of Cluster API.
func RepairPolicies() []cloud.RepairPolicy {
	var out []cloud.RepairPolicy
	for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
		out = append(out, cloud.RepairPolicy{
			Condition: corev1.NodeReady, Status: status, Tolerated: 30 * time.Minute, TerminationGracePeriod: new(10 * time.Minute), Action: cloud.ReplaceNode,
		})
	}
	return out
}

// Ended says why the Machine of a claim has ended or is ending, or "": somebody else deletes it, or it has failed for good. A Machine that
// is not shown at all is a matter of garbage collection, which asks for more proof.
func (p *Provider) Ended(claim *karpv1.NodeClaim) (why string) {
	m := p.store.byProviderID(claim.Status.ProviderID)
	if m == nil {
		return ""
	}
	if !m.DeletionTimestamp.IsZero() {
		return "Machine " + id(m) + " is being deleted by somebody else"
	}
	if reason, failed := m.Status.Failed(); failed {
		return "Machine " + id(m) + " has failed: " + reason
	}
	return ""
}
