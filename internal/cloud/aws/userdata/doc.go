// Package userdata writes what an instance reads at its first boot: how it finds the cluster, and the labels, taints and
// kubelet settings that it joins with. It decides the text per AMI family and how the user's own data is merged into it.
//
// Render is a pure function of its arguments: no clock, no I/O, and equal input gives equal bytes, so that a launch
// template can be named after its content. It never panics; input that an instance could not boot with is an InputError
// that names the field and, in spec.userData, the line. What it returns is not yet in base64, because EC2's limit
// counts the bytes before that: Document.Base64 is what the API takes.
//
// The caller must have resolved the kubelet settings (no expressions left) and looked up the cluster's service range.
package userdata
