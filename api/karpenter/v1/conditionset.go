package v1

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionTypes says which condition of a kind sums up which others.
// +kubebuilder:object:generate=false
type ConditionTypes struct {
	// Root is computed and cannot be set.
	Root string
	// Dependents are the conditions that Root sums up; they always exist.
	Dependents []string
}

// Conditioned is an object whose status holds conditions.
// +kubebuilder:object:generate=false
type Conditioned interface {
	metav1.Object
	GetConditions() []Condition
	SetConditions([]Condition)
}

// ConditionSet reads and changes the conditions of one object and keeps the root condition in step.
// Reading changes nothing on the object; the first change writes the whole set, including the conditions that were
// filled in. It must not be used from two goroutines at once.
// +kubebuilder:object:generate=false
type ConditionSet struct {
	object Conditioned
	types  ConditionTypes
}

// NewConditionSet returns the condition set of an object.
func NewConditionSet(object Conditioned, types ConditionTypes) *ConditionSet {
	return &ConditionSet{object: object, types: types}
}

// All returns every condition, the root last and the others by the time of their last change. Conditions that the
// kind needs and nobody has judged are Unknown since the object was created (A52).
func (s *ConditionSet) All() []Condition {
	conditions := slices.Clone(s.object.GetConditions())
	for _, conditionType := range append(slices.Clone(s.types.Dependents), s.types.Root) {
		if find(conditions, conditionType) == nil {
			conditions = append(conditions, Condition{
				Type:               conditionType,
				Status:             metav1.ConditionUnknown,
				ObservedGeneration: s.object.GetGeneration(),
				LastTransitionTime: s.object.GetCreationTimestamp(),
				Reason:             ReasonAwaitingReconciliation,
				Message:            "not judged yet",
			})
		}
	}
	if s.object.GetDeletionTimestamp() != nil {
		// Deleting raises the generation, and nothing will judge the spec again (A54).
		for i := range conditions {
			conditions[i].ObservedGeneration = s.object.GetGeneration()
		}
	}
	s.order(conditions)
	return conditions
}

// Get returns a copy of one condition, or nil if there is none.
func (s *ConditionSet) Get(conditionType string) *Condition {
	stored := find(s.object.GetConditions(), conditionType)
	if stored == nil && conditionType != s.types.Root && !slices.Contains(s.types.Dependents, conditionType) {
		return nil
	}
	if stored == nil {
		return find(s.All(), conditionType)
	}
	c := *stored
	if s.object.GetDeletionTimestamp() != nil {
		c.ObservedGeneration = s.object.GetGeneration()
	}
	return &c
}

// Root returns the condition that sums up the others.
func (s *ConditionSet) Root() *Condition { return s.Get(s.types.Root) }

// IsTrue reports whether all the given conditions are True.
func (s *ConditionSet) IsTrue(conditionTypes ...string) bool {
	conditions := s.object.GetConditions() // those that All fills in are Unknown
	for _, conditionType := range conditionTypes {
		if c := find(conditions, conditionType); c == nil || c.Status != metav1.ConditionTrue {
			return false
		}
	}
	return true
}

// SetTrue sets a condition to True with its own type as reason. It reports whether anything changed.
func (s *ConditionSet) SetTrue(conditionType string, now time.Time) bool {
	return s.Set(Condition{Type: conditionType, Status: metav1.ConditionTrue}, now)
}

// SetFalse sets a condition to False. It reports whether anything changed.
func (s *ConditionSet) SetFalse(conditionType, reason, message string, now time.Time) bool {
	return s.Set(Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message}, now)
}

// SetUnknown sets a condition to Unknown. It reports whether anything changed.
func (s *ConditionSet) SetUnknown(conditionType, reason, message string, now time.Time) bool {
	return s.Set(Condition{Type: conditionType, Status: metav1.ConditionUnknown, Reason: reason, Message: message}, now)
}

// Set stores a condition as judged for the object's current generation and computes the root again. The time of the last
// change moves only with the status, whatever the given condition says (A54). The root itself is computed, so setting
// it does nothing. Set reports whether anything changed.
func (s *ConditionSet) Set(condition Condition, now time.Time) bool {
	if condition.Type == s.types.Root {
		return false
	}
	conditions := s.All()
	s.put(&conditions, condition, now)
	return s.write(conditions, now)
}

// Clear removes a condition that the root does not depend on. It reports whether anything changed.
func (s *ConditionSet) Clear(conditionType string, now time.Time) (bool, error) {
	if conditionType == s.types.Root || slices.Contains(s.types.Dependents, conditionType) {
		return false, fmt.Errorf("condition %s cannot be removed: %s depends on it; set it to Unknown", conditionType, s.types.Root)
	}
	if find(s.object.GetConditions(), conditionType) == nil {
		return false, nil
	}
	conditions := slices.DeleteFunc(s.All(), func(c Condition) bool { return c.Type == conditionType })
	return s.write(conditions, now), nil
}

// write computes the root, orders and stores the conditions, and reports whether they differ from what was there.
func (s *ConditionSet) write(conditions []Condition, now time.Time) bool {
	s.put(&conditions, s.computeRoot(conditions), now)
	s.order(conditions)
	if slices.EqualFunc(conditions, s.object.GetConditions(), sameCondition) {
		return false
	}
	s.object.SetConditions(conditions)
	return true
}

// put adds or replaces one condition.
func (s *ConditionSet) put(conditions *[]Condition, condition Condition, now time.Time) {
	condition.ObservedGeneration = s.object.GetGeneration()
	condition.LastTransitionTime = metav1.NewTime(now)
	if condition.Reason == "" && condition.Status == metav1.ConditionTrue {
		condition.Reason = condition.Type
	}
	old := find(*conditions, condition.Type)
	if old == nil {
		*conditions = append(*conditions, condition)
		return
	}
	if old.Status == condition.Status {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	*old = condition
}

// computeRoot sums up the dependents (A53). One that was judged for an older generation counts as Unknown.
func (s *ConditionSet) computeRoot(conditions []Condition) Condition {
	root := Condition{Type: s.types.Root, Status: metav1.ConditionTrue}
	var offenders []string
	for _, conditionType := range s.types.Dependents {
		status := metav1.ConditionUnknown
		if c := find(conditions, conditionType); c != nil && c.ObservedGeneration == s.object.GetGeneration() {
			status = c.Status
		}
		if status == metav1.ConditionTrue {
			continue
		}
		offenders = append(offenders, conditionType+"="+string(status))
		if status == metav1.ConditionFalse {
			root.Status, root.Reason = metav1.ConditionFalse, ReasonUnhealthyDependents
		} else if root.Status == metav1.ConditionTrue {
			root.Status, root.Reason = metav1.ConditionUnknown, ReasonReconcilingDependents
		}
	}
	root.Message = strings.Join(offenders, ", ")
	return root
}

// order puts the root last and the others by their last change; equal times fall back to the order that the kind declares
// and then to the name, so that the same facts always give the same bytes.
func (s *ConditionSet) order(conditions []Condition) {
	rank := func(conditionType string) int {
		if at := slices.Index(s.types.Dependents, conditionType); at >= 0 {
			return at
		}
		return len(s.types.Dependents)
	}
	slices.SortStableFunc(conditions, func(a, b Condition) int {
		if aRoot, bRoot := a.Type == s.types.Root, b.Type == s.types.Root; aRoot != bRoot {
			if aRoot {
				return 1
			}
			return -1
		}
		return cmp.Or(
			cmp.Compare(a.LastTransitionTime.Unix(), b.LastTransitionTime.Unix()),
			cmp.Compare(rank(a.Type), rank(b.Type)),
			cmp.Compare(a.Type, b.Type),
		)
	})
}

// find returns the condition inside the slice, so that it can be changed in place.
func find(conditions []Condition, conditionType string) *Condition {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return &conditions[i]
		}
	}
	return nil
}

func sameCondition(a, b Condition) bool {
	sameTime := a.LastTransitionTime.Equal(&b.LastTransitionTime)
	a.LastTransitionTime, b.LastTransitionTime = metav1.Time{}, metav1.Time{}
	return sameTime && a == b
}
