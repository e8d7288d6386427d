// Package class looks after what is AWS's own in the cluster: the status, hash and end of an EC2NodeClass, late tags of
// instances, announcements and status checks of EC2, reservations that end, and what launches leave behind. It reaches AWS
// only through small interfaces that the provider meets. The caller gives clients, clock and the quota that everything
// shares which destroys on its own judgement.
package class
