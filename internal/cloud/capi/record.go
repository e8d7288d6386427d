package capi

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/capi/kinds"
)

const (
	// maxLaunching bounds how many claims wait for Machines of one scalable resource, maxEnding how many Machines are on record as being
	// deleted, maxOthers how many Machines of others it may have: the API server takes 256 KiB of annotations.
	maxLaunching = 500
	maxEnding    = 500
	maxOthers    = 2000
	// lostAfter is how long after its replicas were raised a claim is without a Machine for good, if the scalable resource has all that it
	// is to have: somebody else has lowered them again.
	lostAfter = 30 * time.Second
)

// record is what is kept on a scalable resource about what its replicas were raised and lowered for. It is written together with
// spec.replicas, so that whoever reads one reads the other.
type record struct {
	// Machines is how many of the replicas are Karpenter's.
	Machines int `json:"machines,omitempty"`
	// Replicas is what they were when this was written: if they are others now, somebody else has scaled.
	Replicas int32 `json:"replicas,omitempty"`
	// Launching are claims that replicas were raised for and whose Machine does not say yet that it is theirs.
	Launching []launching `json:"launching,omitempty"`
	// Ending are Machines that replicas were lowered for.
	Ending []string `json:"ending,omitempty"`
	// Others are Machines that were there before, which no claim may have.
	Others []string `json:"others,omitempty"`
	// Surplus are Machines that had an instance before the youngest claim was there, and that no claim waited for: their nodes may be older
	// than any claim to come, so none may have them.
	Surplus []string `json:"surplus,omitempty"`
	// PausedFor is the Machine that Karpenter has paused the MachineDeployment for, until its MachineSet and then it itself are scaled.
	PausedFor string `json:"pausedFor,omitempty"`
}

// launching is a claim that waits for its Machine.
type launching struct {
	Claim string `json:"claim"`
	UID   string `json:"uid"`
	Batch string `json:"batch,omitempty"`
	Pool  string `json:"pool,omitempty"`
	Class string `json:"class,omitempty"`
	// At is when replicas were raised for it, in seconds since 1970.
	At int64 `json:"at,omitempty"`
	// Machine is the one that it has been given.
	Machine string `json:"machine,omitempty"`
}

// recordOf reads the record of a scalable resource; known is false if it has none yet.
func recordOf(o *kinds.Scalable) (r record, known bool, err error) {
	text, known := o.Annotations[v1alpha1.RecordAnnotationKey]
	if !known {
		return r, false, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, true, fmt.Errorf("annotation %s cannot be read: %w; it is Karpenter's own: restore it, or remove it when no NodeClaim of the resource is left", v1alpha1.RecordAnnotationKey, err)
	}
	return r, true, nil
}

func (r *record) clone() record {
	out := *r
	out.Launching, out.Ending, out.Others, out.Surplus = slices.Clone(r.Launching), slices.Clone(r.Ending), slices.Clone(r.Others), slices.Clone(r.Surplus)
	return out
}

// find is the entry of a claim, or nil.
func (r *record) find(uid string) *launching {
	for i := range r.Launching {
		if r.Launching[i].UID == uid {
			return &r.Launching[i]
		}
	}
	return nil
}

// assigned says whether a Machine has been given to a claim.
func (r *record) assigned(machine string) bool {
	return slices.ContainsFunc(r.Launching, func(l launching) bool { return l.Machine == machine })
}

// unassigned is how many claims have been given no Machine.
func (r *record) unassigned() (n int) {
	for _, l := range r.Launching {
		if l.Machine == "" {
			n++
		}
	}
	return n
}

// free says whether a claim may be given a Machine.
func (r *record) free(m *kinds.Machine) bool {
	return r.idle(m) && !slices.Contains(r.Surplus, m.Name)
}

// idle says whether no claim has a Machine that is not of others and not being deleted.
func (r *record) idle(m *kinds.Machine) bool {
	_, marked := m.Annotations[kinds.DeleteMachineAnnotation]
	return m.DeletionTimestamp.IsZero() && !marked && m.Annotations[v1alpha1.ClaimUIDAnnotationKey] == "" &&
		!slices.Contains(r.Others, m.Name) && !slices.Contains(r.Ending, m.Name) && !r.assigned(m.Name)
}

// held is how many of Karpenter's replicas claims have or wait for.
func (r *record) held(machines []*kinds.Machine) int {
	n := r.unassigned()
	for _, m := range machines {
		claimed := m.Annotations[v1alpha1.ClaimUIDAnnotationKey] != "" || r.assigned(m.Name)
		if claimed && !slices.Contains(r.Ending, m.Name) {
			n++
		}
	}
	return n
}

// spares are Machines that Cluster API has made in place of ones that claims had, newest first: nobody waits for them, and replicas were
// raised for them.
func (r *record) spares(machines []*kinds.Machine) (out []*kinds.Machine) {
	left := r.Machines - r.held(machines)
	for i := len(machines) - 1; i >= 0 && left > 0; i-- {
		if r.idle(machines[i]) {
			out = append(out, machines[i])
			left--
		}
	}
	return out
}

// adjust takes note of what somebody else has done to the replicas: what has been lowered, and is missing or being deleted, is Karpenter's
// no more.
func (r *record) adjust(now int32, machines []*kinds.Machine) {
	if lowered := int(r.Replicas) - int(now); lowered > 0 {
		stay := slices.DeleteFunc(slices.Clone(machines), func(m *kinds.Machine) bool { return !m.DeletionTimestamp.IsZero() })
		missing := max(r.Machines-r.held(stay), 0)
		r.Machines -= min(lowered, missing)
	}
	r.Replicas = now
}

// skim notes which of the Machines that nobody waits for have an instance already, and returns the others, which claims may be given.
func (r *record) skim(machines []*kinds.Machine) (fresh []*kinds.Machine) {
	r.Surplus = slices.DeleteFunc(r.Surplus, func(name string) bool {
		return !slices.ContainsFunc(machines, func(m *kinds.Machine) bool { return m.Name == name })
	})
	left, waiting := r.Machines-r.held(machines), r.unassigned()
	for _, m := range machines { // oldest first, as they are given to those that wait
		switch {
		case !r.free(m):
		case waiting > 0:
			waiting--
		case !r.withhold(m) && left > 0:
			fresh = append(fresh, m)
			left--
		}
	}
	return fresh
}

// withhold notes a Machine that has an instance as one that no claim to come may have, and says whether it has.
func (r *record) withhold(m *kinds.Machine) bool {
	if m.Spec.ProviderID == "" {
		return false
	}
	r.Surplus = append(r.Surplus, m.Name)
	return true
}

// raise notes claims that replicas are raised for, and returns by how many: fewer than there are claims if spares can be had.
func (r *record) raise(claims []*karpv1.NodeClaim, spares []*kinds.Machine, now time.Time) (by int) {
	for i, claim := range claims {
		entry := launching{
			Claim: claim.Name, UID: string(claim.UID), Batch: cloud.BatchID(claim), Pool: claim.Labels[karpv1.NodePoolLabelKey], At: now.Unix(),
		}
		if claim.Spec.NodeClassRef != nil {
			entry.Class = claim.Spec.NodeClassRef.Name
		}
		if i < len(spares) {
			entry.Machine = spares[i].Name
		} else {
			by++
		}
		r.Launching = append(r.Launching, entry)
	}
	r.Machines += by
	r.Replicas += int32(by)
	return by
}

// assign gives Machines to claims that wait for one, and says whether it gave any.
func (r *record) assign(machines []*kinds.Machine) (changed bool) {
	at := 0
	for _, m := range machines {
		for at < len(r.Launching) && r.Launching[at].Machine != "" {
			at++
		}
		if at == len(r.Launching) {
			return changed
		}
		r.Launching[at].Machine = m.Name
		changed = true
	}
	return changed
}

// drop forgets claims, and says whether it knew one of them.
func (r *record) drop(done func(*launching) bool) (changed bool) {
	before := len(r.Launching)
	r.Launching = slices.DeleteFunc(r.Launching, func(l launching) bool { return done(&l) })
	return len(r.Launching) != before
}
