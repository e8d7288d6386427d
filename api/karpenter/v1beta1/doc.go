// Package v1beta1 defines the older wire form of NodePool and NodeClaim, which many published manifests are written in. The
// API server takes and shows it, and stores v1; package karpenter/api/convert translates. Nothing else in the program reads
// these types.
//
// The schema is as lenient as those manifests need, and has no defaults: an object reads back as it was written, and what a
// missing field means is written out in its v1 form. Everything that it accepts becomes a valid v1 object, so rules that v1
// has are repeated here, or the v1 types are used.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1beta1
