// Package meter holds every metric that the program counts, in one table: name, meaning, kind, labels and buckets. Names
// and labels are those that dashboards and alerts for Karpenter already use; the older names of the v1beta1 days follow
// their successors by themselves, so nobody counts twice.
//
// A Set is made once and passed down; there is no global state, and a nil Set counts nothing. The number of series of a
// metric is bounded: what does not fit is left out and shows in karpenter_metrics_refused_total. Whoever names an object
// in a label must Drop it when the object is gone.
package meter
