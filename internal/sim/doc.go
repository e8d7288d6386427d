// Package sim runs the whole controller in a cluster of simulated time: the same reconcilers, loops and mirror that package operator
// wires for a real one, on an API server in memory (package kube) and the AWS simulator, without a socket and without a second
// goroutine. Everything that happens follows from a seed: the order of what could happen at the same time, how late watches are,
// which of the nodes that can take a pod gets it. The same seed gives the same history.
//
// The controller can be made to crash at each of its effects, which are writes to the API server and calls to AWS, just before or
// just after it happens. All that it remembered is lost then, and a new process begins. What must hold at any time is looked at
// after every change (check, watchClaims), what must hold in the end by Settled; the numbers of the rules are those of the
// reliability page. What goes wrong can happen at such an effect too, between what the controller has read and what it writes (incident).
//
// Several processes can run, of which one leads. client-go's elector cannot be one of them: it waits by real time, without a clock that could be
// given to it. The world elects by the same times instead, and each process has the controller's own fence before what it does.
//
// Simpler than the world: the scheduler knows resources, taints, required node affinity, and hard topology spread and required anti-affinity
// among pods (Takes); it draws one of the nodes that these allow, and heeds no preferences.
package sim
