// Package webhook serves the conversion of NodePool, NodeClaim and a node class between v1beta1 and v1 to the API server.
//
// It looks after itself: it makes a certificate authority and a certificate, keeps them in a Secret that all replicas share,
// renews them, and writes into the three CustomResourceDefinitions where it can be reached and whom to trust. The API server
// asks it only for v1beta1: objects are stored in v1, so v1 clients work whether or not it runs. To keep that true for server-side
// apply, it moves the record of who owns which field (metadata.managedFields) to v1 soon after each write in v1beta1.
//
// No renewal refuses a request. A new authority is first added to what the API server trusts; the certificate that it
// signs is used only after every definition has had it for a while; the old authority stays trusted until it expires,
// because a slower replica may still show what it signed.
//
// The caller gives the clock, the client and the listener. It may write the one Secret, the field spec.conversion of the
// three definitions, and metadata.managedFields of their objects.
package webhook
