package capi

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/capi/kinds"
)

func machine(name, uid string) *kinds.Machine {
	m := &kinds.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{}}}
	if uid != "" {
		m.Annotations[v1alpha1.ClaimUIDAnnotationKey] = uid
	}
	return m
}

// TestCAPI_RecordKeepsCount plays raising, Machines being made, given away, deleted by us and by others, and lowering, in any order: the
// replicas are always those of others and one for each claim that has or waits for a Machine, no Machine has two claims, and no claim
// a Machine whose instance was there before it.
func TestCAPI_RecordKeepsCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		others := rapid.IntRange(0, 3).Draw(t, "others")
		r, replicas, born := record{Replicas: int32(others)}, others, 0
		var machines []*kinds.Machine
		for i := range others {
			name := fmt.Sprint("other-", i)
			machines = append(machines, machine(name, ""))
			r.Others = append(r.Others, name)
		}
		made := func() { // as a MachineSet does
			for len(machines) < replicas {
				machines = append(machines, machine(fmt.Sprint("m-", born), ""))
				born++
			}
		}
		claims := 0
		claimed := func(m *kinds.Machine) bool {
			return m.Annotations[v1alpha1.ClaimUIDAnnotationKey] != "" && m.DeletionTimestamp.IsZero()
		}
		joined := map[string]int{} // how many claims there were when a Machine got its instance
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0: // launch
				claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c-", claims), UID: types.UID(fmt.Sprint("u-", claims))}}
				claims++
				r.adjust(int32(replicas), machines)
				replicas += r.raise([]*karpv1.NodeClaim{claim}, r.skim(machines), time.Unix(0, 0))
			case 1:
				made()
			case 2: // settle
				var free []*kinds.Machine
				for _, m := range machines {
					if r.free(m) {
						free = append(free, m)
					}
				}
				r.assign(free)
				for _, l := range r.Launching {
					for _, m := range machines {
						if l.Machine == m.Name {
							m.Annotations[v1alpha1.ClaimUIDAnnotationKey] = l.UID
						}
					}
				}
				r.drop(func(l *launching) bool { return l.Machine != "" })
			case 3: // delete one that a claim has
				if i := slices.IndexFunc(machines, claimed); i >= 0 {
					r.adjust(int32(replicas), machines)
					replicas--
					r.Replicas--
					r.Machines--
					machines = slices.Delete(machines, i, i+1)
				}
			case 4: // somebody else deletes one, which is made again
				if i := slices.IndexFunc(machines, claimed); i >= 0 {
					machines = slices.Delete(machines, i, i+1)
				}
			case 5: // the infrastructure provider makes an instance
				if i := slices.IndexFunc(machines, func(m *kinds.Machine) bool { return m.Spec.ProviderID == "" }); i >= 0 {
					machines[i].Spec.ProviderID = "p://" + machines[i].Name
					joined[machines[i].Name] = claims
				}
			case 6: // somebody lowers the replicas by the youngest Machine, which takes its time to go
				if n := len(machines); n == replicas && n > others && r.unassigned() == 0 && machines[n-1].DeletionTimestamp.IsZero() {
					replicas--
					machines[n-1].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
					r.adjust(int32(replicas), machines)
				}
			case 7: // it is gone
				machines = slices.DeleteFunc(machines, func(m *kinds.Machine) bool { return !m.DeletionTimestamp.IsZero() })
			}
			if replicas != others+r.Machines {
				t.Fatalf("%d replicas: %d of others, and %d", replicas, others, r.Machines)
			}
			stay := slices.DeleteFunc(slices.Clone(machines), func(m *kinds.Machine) bool { return !m.DeletionTimestamp.IsZero() })
			if held := r.held(stay); held > r.Machines {
				t.Fatalf("%d claims have or wait for %d Machines", held, r.Machines)
			}
			seen := map[string]bool{}
			for _, m := range machines {
				uid := m.Annotations[v1alpha1.ClaimUIDAnnotationKey]
				if uid != "" && (seen[uid] || slices.Contains(r.Others, m.Name)) {
					t.Fatalf("claim %s has two Machines, or one of others", uid)
				}
				seen[uid] = true
				var number int
				if _, err := fmt.Sscanf(uid, "u-%d", &number); err == nil && m.Spec.ProviderID != "" && joined[m.Name] <= number {
					t.Fatalf("claim %s has Machine %s, whose instance is older than the claim", uid, m.Name)
				}
			}
		}
	})
}

// TestCAPI_ClaimsWaitForMachinesThatAreBeingDeleted: Cluster API counts a Machine until it is gone, so that a claim may wait for one longer
// than a deletion takes. It has lost only when all Machines are there that are to be.
func TestCAPI_ClaimsWaitForMachinesThatAreBeingDeleted(t *testing.T) {
	leaving := machine("m-2", "u-2")
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, c := range map[string]struct {
		machines []*kinds.Machine
		lost     bool
	}{
		"one is being deleted":  {[]*kinds.Machine{machine("m-1", "u-1"), leaving}, false},
		"one has not been made": {[]*kinds.Machine{machine("m-1", "u-1")}, false},
		"all are there":         {[]*kinds.Machine{machine("m-1", "u-1"), machine("m-3", "u-3"), leaving}, true},
	} {
		o := &kinds.Scalable{}
		o.Spec.Replicas, o.Status.Replicas = new(int32(2)), int32(len(c.machines))
		r := record{Machines: 2, Replicas: 2, Launching: []launching{{Claim: "c", UID: "u"}}}
		if lost := newOffline().lost(o, &r, c.machines); lost != c.lost || lost != (r.Machines == 1) {
			t.Errorf("%s: the claim has lost is %t, %d Machines are Karpenter's", name, lost, r.Machines)
		}
	}
}
