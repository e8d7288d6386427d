// Package scenarios holds plans as text: a cluster in, a plan out. Each *.txtar file has any number of scenarios, named after
// the features of the specification that they cover. Run go test ./test/scenarios -update to rewrite the expected plans, and
// review the difference.
//
// A scenario lists a cluster line by line (see cluster_test.go for the words), then solve, then a line of dashes and the plan:
//
//   - general-1  m.large  a  on-demand  $0.1000/h  web×2   a node to launch and what goes on it
//     = node-1  web×1                                        pods that go to a node that exists
//   - web×3: reason; reason                                pods without a place
//     ! Pod default/x: text                                  an object that was set aside
//
// A scenario that ends in consolidate instead shows what would be done about the nodes:
//
//	Underutilized - n1  saves $0.1000/h  2 restarts        nodes to remove, and why
//	    + general-1  m.large  a  on-demand  $0.1000/h  web×2   what replaces them
//	    = n2  web×1                                            nodes that take their pods
//	Unhealthy ~ n4  rebooted  2 restarts                   nodes that are rebooted
//	. n3: reason                                           a node that stays
//
// Lines of the form explain pod|node|nodeclaim|nodepool|move NAME show what is answered about an object instead.
package scenarios
