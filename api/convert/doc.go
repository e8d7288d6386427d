// Package convert turns karpenter.sh and karpenter.k8s.aws objects from v1beta1 into v1 and back, and the alpha
// kinds that came before them (Provisioner, AWSNodeTemplate) into v1. The conversion webhook and `karpenter
// convert` both use it, which is why it is a package of its own beside the types.
//
// It works on decoded JSON, not on Go types, so that what a user wrote stays what they wrote: 720h does not become
// 720h0m0s, cpu: 1000 does not become 1k, and a field that this program does not know is not dropped on the way.
//
// # How nothing is lost
//
// Each kind has two plain functions on its spec: up (v1beta1 to v1) and down (v1 to v1beta1). Neither can be
// undone alone: v1beta1 has optional fields that v1 must have, v1 has fields that v1beta1 cannot say. So a
// conversion does the same three things in both directions:
//
//  1. translate the spec with up or down;
//  2. restore: an annotation may remember how parts of the spec looked in the target version before. Each such part is
//     put back, except where the object has been edited since (see restore);
//  3. remember: translate the result back, and keep every part that does not come out as it went in, in an annotation.
//
// The annotation of step 3 is what step 2 of the opposite conversion consumes, so it is gone again on the way back.
//
// Everything is a pure function of its arguments. Conversion is total on objects that their schema accepts: a single
// object that cannot be converted would make every list of its kind fail.
package convert
