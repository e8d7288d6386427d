// Package capiplug plugs the Cluster API provider into the controller: its settings, clients and caches of the management cluster, and the
// reconcilers of what is Cluster API's own.
package capiplug
